"""MariaDB and MySQL: which storage engines keep the rows. Only InnoDB's open transactions can be seen, so a table of
another engine, also one behind a view or a query, is not bounded by them.
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from poller.sources.bounds.named_tables import tables

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
    waiting = [(schema, table)] if table is not None else tables(query or "", schema, "mysql")
    if waiting is None:
        return Engines(untold="the query")
    if not waiting:
        return Engines(other="rows come from no table of this database")
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
            below = tables(row.definition, database, "mysql") if row.definition else None
            if below is None:
                untold = name
            for one in set(below or ()) - known:
                known.add(one)
                waiting.append(one)
    return Engines(untold=untold)
