"""MariaDB and MySQL: which storage engines keep the rows. Only InnoDB's open transactions can be seen, so a table of
another engine, also one behind a view or a query, is not bounded by them.
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
import sqlglot
from sqlalchemy.engine import Connection
from sqlglot import exp
from sqlglot.errors import SqlglotError

_ABOUT = sa.text("""
select t.table_type as kind, t.engine as engine, v.view_definition as definition
  from information_schema.tables t
  left join information_schema.views v on v.table_schema = t.table_schema and v.table_name = t.table_name
 where t.table_schema = coalesce(:schema, database()) and t.table_name = :name
""")


@dataclass(frozen=True, slots=True)
class Engines:
    """What keeps the rows.

    Attributes:
        other: a table whose engine is not InnoDB, and the engine, in words; None where there is none.
        untold: what could not be looked into, in words; None where everything could.
    """

    other: str | None = None
    untold: str | None = None


def engines(connection: Connection, schema: str | None, table: str | None, query: str | None) -> Engines:
    """Look through views and queries down to the tables. Raises what the driver raises."""
    untold: str | None = None
    waiting = [(schema, table)] if table is not None else _tables(query or "", schema)
    if waiting is None:
        return Engines(untold="the query")
    known = set(waiting)
    while waiting:
        database, name = waiting.pop()
        row = connection.execute(_ABOUT, {"schema": database, "name": name}).one_or_none()
        if row is None:
            untold = name
        elif row.engine is not None and row.engine.lower() != "innodb":
            whose = "the table's engine" if name == table else f"the engine of {name}"
            return Engines(other=f"{whose} is {row.engine}")
        elif "VIEW" in row.kind.upper():
            below = _tables(row.definition, database) if row.definition else None
            if below is None:
                untold = name
            for one in set(below or ()) - known:
                known.add(one)
                waiting.append(one)
    return Engines(untold=untold)


def _tables(sql: str, schema: str | None) -> list[tuple[str | None, str]] | None:
    """The tables and views that a SELECT names; None where it cannot be read."""
    try:
        tree = sqlglot.parse_one(sql, dialect="mysql")
    except SqlglotError:
        return None
    named = {part.alias for part in tree.find_all(exp.CTE)}
    return [
        (found.db or schema, found.name)
        for found in tree.find_all(exp.Table)
        if found.name and (found.db or found.name not in named)
    ]
