"""MariaDB and MySQL: a DATETIME gets the time in the writing session's zone, which starts as the server's.

A TIMESTAMP is an instant and is not affected. A client's own setting cannot be seen from here.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from poller.databases import catalog
from poller.sources.mysql.bound import ABOUT
from poller.sources.stamping import (
    ColumnOrigin,
    Stamp,
    StampRule,
    Watched,
    Words,
    by_default,
    by_generation,
    by_trigger,
    of_name,
    traced,
)

WORDS = Words(
    utc=r"\butc_(?:timestamp|date)\b",
    session=r"\b(?:current_timestamp|current_date|localtime|localtimestamp)\b|\b(?:now|sysdate|curdate)\s*\(",
    known="utc_timestamp utc_date current_timestamp current_date localtime localtimestamp now sysdate curdate"
    " coalesce ifnull greatest least cast convert if timestamp date datetime date_add date_sub nullif",
    earlier=r"\b(?:current_date|utc_date)\b|\b(?:curdate|date|date_sub)\s*\(|-\s*interval\b",
)


_COLUMN = sa.text("""
select column_type as kind, column_default as made, extra, generation_expression as generated,
       (select count(*) from information_schema.user_privileges where privilege_type = 'TRIGGER')
     + (select count(*) from information_schema.schema_privileges
         where privilege_type = 'TRIGGER' and coalesce(:schema, database()) like table_schema)
     + (select count(*) from information_schema.table_privileges
         where privilege_type = 'TRIGGER' and table_schema = coalesce(:schema, database()) and table_name = :name)
       as sees_triggers
  from information_schema.columns
 where table_schema = coalesce(:schema, database()) and table_name = :name and column_name = :column
""")
_TRIGGERS = sa.text("""
select trigger_name as name, event_manipulation as event, action_statement as body
  from information_schema.triggers
 where event_object_schema = coalesce(:schema, database()) and event_object_table = :name and action_timing = 'BEFORE'
 order by trigger_name
""")
_SETTINGS = "select @@global.time_zone, @@global.system_time_zone, @@global.init_connect"


def origin(connection: Connection, watched: Watched) -> ColumnOrigin:
    """The column behind the cursor. Raises what the driver raises."""
    return traced(watched, partial(_view, connection), partial(_table, connection))


def _view(connection: Connection, schema: str | None, name: str) -> str | None:
    found = catalog.rows(connection, ABOUT, {"schema": schema, "name": name})
    return (found[0].definition or "") if found and "VIEW" in found[0].kind.upper() else None


def _table(connection: Connection, schema: str | None, table: str, column: str) -> ColumnOrigin | None:
    names = {"schema": schema, "name": table}
    row = connection.execute(_COLUMN, {**names, "column": column}).one_or_none()
    if row is None:
        return None
    found: list[StampRule] = []
    if row.generated:
        found.append(by_generation(row.generated))
    elif row.made is not None and str(row.made).upper() != "NULL":
        found.append(by_default(str(row.made)))
    if "on update" in str(row.extra).lower():
        found.append(StampRule("the column's ON UPDATE", "current_timestamp", updates=True))
    for one in connection.execute(_TRIGGERS, names):
        found += by_trigger(one.name, one.body, column, one.event, to_new=True)
    hidden = "" if row.sees_triggers else "triggers (GRANT TRIGGER)"
    return ColumnOrigin(schema, table, column, found, hidden, kind=row.kind)


def server(connection: Connection, watched: Watched, found: ColumnOrigin, at: Sequence[datetime]) -> list[Stamp]:
    """The zone in which a session starts."""
    zone, system, first = connection.exec_driver_sql(_SETTINGS).one()
    if "time_zone" in str(first or "").lower():
        return [Stamp("", "the server's init_connect, which sets time_zone", None)]
    union = " union all ".join(f"select cast('{one:%Y-%m-%d %H:%M:%S}' as datetime) as i" for one in at)
    rows = connection.execute(
        sa.text(
            "select timestampdiff(second, i, convert_tz(i, '+00\\:00', @@global.time_zone)) as n"  # noqa: S608
            f" from ({union.replace(':', chr(92) + ':')}) as one order by i"
        )
    ).scalars()
    seconds = [None if one is None else int(one) for one in rows]
    known = {i: one for i, one in zip(at, seconds, strict=True) if one is not None}
    name = str(system) if zone == "SYSTEM" else str(zone)
    source = f"the server's time_zone = {zone}" + (f", system_time_zone = {system}" if zone == "SYSTEM" else "")
    return [Stamp(name, source, known if len(known) == len(at) else None)]


def offsets(connection: Connection, zone: str, at: Sequence[datetime]) -> dict[datetime, int] | None:
    """By its name."""
    return of_name(zone, at)
