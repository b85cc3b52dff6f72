"""The tables and views that the text of a SELECT names, for databases that cannot be asked what a query reads."""

from __future__ import annotations

from poller.sources import user_sql


def tables(sql: str, schema: str | None, family: str) -> list[tuple[str | None, str]] | None:
    """Schema and name of each, at any depth; None where the text cannot be read. A function in FROM has no name.

    Args:
        schema: of those that name none.
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
