"""The tables and views that the text of a SELECT names, for databases that do not say what a query reads."""

from __future__ import annotations

from poller.sources import user_sql

NO_TABLE = "rows come from no table of this database"
"""Why open transactions of this server do not bound them: generated values, table functions."""


def tables(sql: str, schema: str | None, family: str) -> list[tuple[str | None, str]] | None:
    """Schema and name of each, at any depth; None where the text cannot be parsed. Functions in FROM are left out.

    Args:
        schema: for tables that name none.
    """
    try:
        tree = user_sql.parse(sql, family)
    except user_sql.Unreadable:
        return None
    from sqlglot import exp

    named = {part.alias for part in tree.find_all(exp.CTE)}
    return [
        (found.db or schema, found.name)
        for found in tree.find_all(exp.Table)
        if isinstance(found.this, exp.Identifier) and (found.db or found.name not in named)
    ]
