"""MariaDB and MySQL: which storage engines hold the rows. Only InnoDB's open transactions can be seen, so they do not
bound a table of another engine, even behind a view or a query.
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from poller.sources.user_sql.tables import NO_TABLE, tables

_ABOUT = sa.text("""
select t.table_type as kind, t.engine as engine, v.view_definition as definition
  from information_schema.tables t
  left join information_schema.views v on v.table_schema = t.table_schema and v.table_name = t.table_name
 where t.table_schema = coalesce(:schema, database()) and t.table_name = :name
""")


@dataclass(frozen=True, slots=True)
class Engines:
    """What holds the rows.

    Attributes:
        other: a table whose engine is not InnoDB, and the engine, in words; None where there is none.
        unknown: what could not be inspected, in words; None where everything could.
    """

    other: str | None = None
    unknown: str | None = None


def engines(connection: Connection, schema: str | None, table: str | None, query: str | None) -> Engines:
    """Look through views and queries down to the tables. Raises what the driver raises."""
    unknown: str | None = None
    waiting = [(schema, table)] if table is not None else tables(query or "", schema, "mysql")
    if waiting is None:
        return Engines(unknown="the query")
    if not waiting:
        return Engines(other=NO_TABLE)
    known = set(waiting)
    while waiting:
        database, name = waiting.pop()
        row = connection.execute(_ABOUT, {"schema": database, "name": name}).one_or_none()
        if row is None:
            unknown = name
        elif row.engine is not None and row.engine.lower() != "innodb":
            whose = "the table's engine" if name == table else f"the engine of {name}"
            return Engines(other=f"{whose} is {row.engine}")
        elif "VIEW" in row.kind.upper():
            below = tables(row.definition, database, "mysql") if row.definition else None
            if below is None:
                unknown = name
            for one in set(below or ()) - known:
                known.add(one)
                waiting.append(one)
    return Engines(unknown=unknown)
