"""SQL Server: GETDATE() and the like return the time of the server's machine, SYSUTCDATETIME() UTC.

Tested by their SQL text and on a simulated connection only, not on a server.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from poller.sources.stamping import following, rules
from poller.sources.stamping.rules import Origin, Rule, Watched
from poller.sources.stamping.zones import Stamp, by_name

_VIEW = sa.text("""
SELECT m.definition AS sql FROM sys.views v LEFT JOIN sys.sql_modules m ON m.object_id = v.object_id
 WHERE v.object_id = OBJECT_ID(:name)
""")
_COLUMN = sa.text("""
SELECT TYPE_NAME(c.user_type_id) AS kind, c.default_object_id AS has_default, d.definition AS made, c.is_computed,
       g.definition AS computed
  FROM sys.columns c
  LEFT JOIN sys.default_constraints d ON d.object_id = c.default_object_id
  LEFT JOIN sys.computed_columns g ON g.object_id = c.object_id AND g.column_id = c.column_id
 WHERE c.object_id = OBJECT_ID(:name) AND c.name = :column
""")
_TRIGGERS = sa.text("""
SELECT t.name, e.events, OBJECT_DEFINITION(t.object_id) AS body
  FROM sys.triggers t
 CROSS APPLY (SELECT STRING_AGG(CAST(x.type_desc AS nvarchar(max)), ' ') AS events FROM sys.trigger_events x
               WHERE x.object_id = t.object_id) e
 WHERE t.parent_id = OBJECT_ID(:name) AND t.is_disabled = 0
 ORDER BY t.name
""")
_NOW = sa.text("SELECT DATEDIFF(minute, SYSUTCDATETIME(), SYSDATETIME()) AS minutes, SYSUTCDATETIME() AS clock")
_NAME = sa.text("SELECT CURRENT_TIMEZONE_ID()")


def origin(connection: Connection, watched: Watched) -> Origin:
    """The column behind the cursor. Raises what the driver raises."""
    return following.origin(watched, partial(_view, connection), partial(_table, connection))


def _view(connection: Connection, schema: str | None, name: str) -> str | None:
    found = connection.execute(_VIEW, {"name": _full(schema, name)}).one_or_none()
    return None if found is None else found.sql or ""


def _table(connection: Connection, schema: str | None, table: str, column: str) -> Origin | None:
    name = _full(schema, table)
    row = connection.execute(_COLUMN, {"name": name, "column": column}).one_or_none()
    if row is None:
        return None
    found: list[Rule] = []
    if row.is_computed:
        found.append(rules.generated(row.computed))
    elif row.kind == "timestamp":  # rowversion
        found.append(Rule("the column's rowversion", None, inserts=True, updates=True))
    elif row.made is not None:
        found.append(rules.default(row.made))
    elif row.has_default:
        found.append(Rule("the column's DEFAULT, which only VIEW DEFINITION shows", None, inserts=True))
    for one in connection.execute(_TRIGGERS, {"name": name}):
        found += rules.trigger(one.name, one.body, column, one.events or "", to_new=False, tables=[table])
    return Origin(schema, table, column, found, kind=row.kind)


def _full(schema: str | None, name: str) -> str:
    return ".".join(f"[{part.replace(']', ']]')}]" for part in (schema, name) if part)


def server(connection: Connection, watched: Watched, found: Origin, at: Sequence[datetime]) -> list[Stamp]:
    """The zone of the server's machine: over the year where the version reports its name, else its present offset."""
    try:
        name = str(connection.execute(_NAME).scalar_one())
        values = ", ".join(f"(CAST('{one:%Y-%m-%dT%H:%M:%S}' AS datetime2(0)))".replace(":", "\\:") for one in at)
        sql = (
            "SELECT DATEDIFF(minute, v.i, CAST(CAST(v.i AS datetimeoffset(0)) AT TIME ZONE CURRENT_TIMEZONE_ID()"  # noqa: S608
            f" AS datetime2(0))) FROM (VALUES {values}) AS v(i) ORDER BY v.i"
        )
        seconds = [int(one) * 60 for one in connection.execute(sa.text(sql)).scalars()]
        return [Stamp(name, "the server's machine", dict(zip(at, seconds, strict=True)))]
    except DBAPIError as error:  # before version 2022
        if error.connection_invalidated:
            raise
    row = connection.execute(_NOW).one()
    quarters = round(int(row.minutes) / 15)
    clock = row.clock.replace(tzinfo=at[0].tzinfo)
    return [Stamp("the zone", "the server's machine, as it is now", {clock: quarters * 900})]


offsets = by_name
