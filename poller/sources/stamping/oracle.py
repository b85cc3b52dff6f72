"""Oracle: SYSDATE and SYSTIMESTAMP return the time of the server's machine; CURRENT_TIMESTAMP and LOCALTIMESTAMP that
of each client's session, which cannot be seen from here.

Tested by their SQL text and on a simulated connection only, not on a server.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from poller.sources.stamping import following, rules
from poller.sources.stamping.rules import Origin, Rule, Watched
from poller.sources.stamping.zones import Stamp, by_name

_VIEW = sa.text("""
SELECT text AS sql FROM all_views
 WHERE owner = COALESCE(:owner, SYS_CONTEXT('USERENV', 'CURRENT_SCHEMA')) AND view_name = :name
""")
_COLUMN = sa.text("""
SELECT data_type AS kind, data_default AS made, virtual_column AS generated FROM all_tab_cols
 WHERE owner = COALESCE(:owner, SYS_CONTEXT('USERENV', 'CURRENT_SCHEMA')) AND table_name = :name
   AND column_name = :cursor
""")
_TRIGGERS = sa.text("""
SELECT trigger_name AS name, triggering_event AS event, trigger_type AS type, when_clause AS condition,
       trigger_body AS body
  FROM all_triggers
 WHERE table_owner = COALESCE(:owner, SYS_CONTEXT('USERENV', 'CURRENT_SCHEMA')) AND table_name = :name
   AND status = 'ENABLED' AND trigger_type = 'BEFORE EACH ROW'
 ORDER BY trigger_name
""")
_ZONE = sa.text("""
SELECT TO_CHAR(SYSTIMESTAMP, 'TZR') AS zone,
       EXTRACT(TIMEZONE_HOUR FROM SYSTIMESTAMP) * 3600 + EXTRACT(TIMEZONE_MINUTE FROM SYSTIMESTAMP) * 60 AS seconds,
       TO_CHAR(SYS_EXTRACT_UTC(SYSTIMESTAMP), 'YYYY-MM-DD"T"HH24\\:MI\\:SS') AS clock
  FROM DUAL
""")


def origin(connection: Connection, watched: Watched) -> Origin:
    """The column behind the cursor. Raises what the driver raises."""
    return following.origin(watched, partial(_view, connection), partial(_table, connection))


def _view(connection: Connection, schema: str | None, name: str) -> str | None:
    found = connection.execute(_VIEW, {"owner": _stored(schema), "name": _stored(name)}).one_or_none()
    return None if found is None else found.sql or ""


def _table(connection: Connection, schema: str | None, table: str, column: str) -> Origin | None:
    names = {"owner": _stored(schema), "name": _stored(table)}
    row = connection.execute(_COLUMN, {**names, "cursor": _stored(column)}).one_or_none()
    if row is None:
        return None
    found: list[Rule] = []
    if row.generated == "YES":
        found.append(rules.generated(row.made))
    elif row.made is not None and row.made.strip().upper() != "NULL":
        found.append(rules.default(row.made))
    for one in connection.execute(_TRIGGERS, names):
        found += rules.trigger(one.name, one.body, column, one.event, to_new=True, firm=one.condition is None)
    return Origin(schema, table, column, found, kind=row.kind)


def _stored(name: str | None) -> str | None:
    """SQLAlchemy's lower case means a name without quotes, which Oracle keeps in upper case."""
    return name.upper() if name is not None and name.islower() else name


def server(connection: Connection, watched: Watched, found: Origin, at: Sequence[datetime]) -> list[Stamp]:
    """The zone of the server's machine at present."""
    row = connection.execute(_ZONE).one()
    clock = datetime.fromisoformat(row.clock).replace(tzinfo=UTC)
    return [Stamp(str(row.zone), "the server's machine, as it is now", {clock: int(row.seconds)})]


offsets = by_name
