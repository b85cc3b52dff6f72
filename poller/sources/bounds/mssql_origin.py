"""SQL Server: rows of another server, whose transactions this server's views do not show. Followed through the text of
queries, views and synonyms. Tested on a simulated connection only, not on a server."""

from __future__ import annotations

import re

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from poller.sources import user_sql
from poller.sources.bounds.named_tables import NO_TABLE

_ABOUT = sa.text("""
SELECT OBJECT_DEFINITION(OBJECT_ID(:name)) AS definition,
       (SELECT base_object_name FROM sys.synonyms WHERE object_id = OBJECT_ID(:name)) AS base,
       (SELECT COUNT(*) FROM sys.external_tables WHERE object_id = OBJECT_ID(:name)) AS outside
""")
_REMOTE = re.compile(r"\b(openquery|openrowset|opendatasource)\s*\(", re.IGNORECASE)


def elsewhere(connection: Connection, table: str | None, query: str | None) -> str | None:
    """Why the rows do not come from this server's transactions; None where nothing says so.

    Args:
        table: its quoted name; or query: the user's SQL. Raises: what the driver raises.
    """
    texts = [query] if query is not None else [f"SELECT * FROM {table}"]  # noqa: S608 - quoted, and only parsed
    known: set[str] = set()
    while texts:
        text = texts.pop()
        reason, names = _read(text)
        if reason is not None:
            return reason
        if text is query and names == []:
            return NO_TABLE
        for name in set(names or ()) - known:
            known.add(name)
            row = connection.execute(_ABOUT, {"name": name}).one()
            if row.outside:
                return f"{name} is an external table, whose transactions cannot be seen here"
            texts += [row.definition] if row.definition else []
            texts += [f"SELECT * FROM {row.base}"] if row.base else []  # noqa: S608 - as above
    return None


def _read(text: str) -> tuple[str | None, list[str] | None]:
    """Why a text reads from elsewhere, and the tables and views that it names; None where it cannot be parsed."""
    remote = _REMOTE.search(text)
    if remote is not None:
        return f"it reads by {remote[1].upper()}, from a server with other transactions", []
    try:
        tree = user_sql.parse(text, "mssql")
    except user_sql.Unreadable:
        return None, None
    from sqlglot import exp

    common = {part.alias.lower() for part in tree.find_all(exp.CTE)}
    names = []
    for found in tree.find_all(exp.Table):
        written = found.sql(dialect="tsql").partition(" AS ")[0]
        if isinstance(found.this, exp.Dot):
            return f"{written} is a table of a linked server, whose transactions cannot be seen here", []
        if isinstance(found.this, exp.Func) and found.db:
            return f"rows come from the function {found.db}.{found.this.name}, whose reads cannot be seen", []
        if isinstance(found.this, exp.Identifier) and (found.db or found.name.lower() not in common):
            names.append(".".join(f"[{part}]" for part in (found.catalog, found.db, found.name) if part))
    return None, names
