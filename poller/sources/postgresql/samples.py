"""What is open on a PostgreSQL server: `exact` from pg_stat_activity, `observed` and `observed-strict` from virtual
transaction ids (sources.md, "Rows that commit late").

Every statement runs in autocommit: two samples in one transaction would see one frozen pg_stat_activity, and a sample
in the page's statement would have an older snapshot than the page.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from poller.databases.samplers import Remembering, Sample, session_of
from poller.sources.bound import SHOWS_HOLDER_AFTER
from poller.sources.columns.moments import remembered
from poller.sources.sampler import Followed, on_copy
from poller.sources.user_sql import literal

_OWN = """not coalesce({a}pid = any(cast(:own_pids as integer[])) and {a}pid || '@'
        || to_char({a}backend_start at time zone 'UTC', 'YYYYMMDDHH24MISSUS') = any(cast(:own as text[])), false)"""
"""Leaves out sessions of this process that only read. A pid may be reused: with another start, or one that the user may
not see, it is another session."""


_PREPARES = "coalesce(current_setting('max_prepared_transactions', true), '') <> '0'"
"""True if there can be prepared transactions. The setting is the server's, for as long as it runs, which does not start
with 0 while there are some."""


def _sessions(sql: str, alias: str = "") -> sa.TextClause:
    """A statement over pg_stat_activity, with these in the places of {own} and {prepares}."""
    return sa.text(sql.replace("{own}", _OWN.replace("{a}", alias)).replace("{prepares}", _PREPARES))


_EXACT = _sessions("""
select least(min(least(xact_start, case when backend_type = 'client backend'
         and state in ('active', 'fastpath function call') then query_start end)), statement_timestamp()) as bound,
       coalesce(bool_or(backend_type is null or state = 'disabled'
         or (backend_type = 'client backend' and state is null)), false) as blind,
       statement_timestamp() as clock, pg_is_in_recovery() as standby, {prepares} as prepares
  from pg_stat_activity
 where datid = (select oid from pg_database where datname = current_database())
   and usesysid is not null and pid <> pg_backend_pid()
   and not coalesce(usename = any(cast(:ignored as text[])), false)
   and {own}
""")
_PREPARED = sa.text("""
select count(*) over () as many, gid, owner::text as owner, prepared as since
  from pg_prepared_xacts where database = current_database() order by prepared limit 1
""")
_HOLDER = _sessions("""
select pid, usename, state, application_name, backend_type,
       least(xact_start, case when backend_type = 'client backend'
         and state in ('active', 'fastpath function call') then query_start end) as since
  from pg_stat_activity
 where datid = (select oid from pg_database where datname = current_database())
   and usesysid is not null and pid <> pg_backend_pid()
   and not coalesce(usename = any(cast(:ignored as text[])), false)
   and {own}
 order by since limit 1
""")
"""The same sessions as the bound's: an apply worker holds it as a client does."""
_NAMES = sa.text("""
select pid, usename, application_name from pg_stat_activity where pid = any(cast(:pids as integer[])) order by pid
""")
_OPEN = _sessions(
    """
select statement_timestamp() as clock, coalesce(array_agg(l.virtualxid || '@' || l.pid), '{}') as open,
       pg_is_in_recovery() as standby, {prepares} as prepares
  from pg_locks l left join pg_stat_activity a on a.pid = l.pid
 where l.locktype = 'virtualxid' and l.granted and l.virtualtransaction = l.virtualxid and l.pid <> pg_backend_pid()
   and (a.pid is null or (a.usesysid is not null
        and a.datid = (select oid from pg_database where datname = current_database())))
   and not coalesce(a.usename = any(cast(:ignored as text[])), false)
   and {own}
""",
    "a.",
)
AGAIN = 3
"""The further reads that a sample may take, if the first is not enough."""
SAMPLES_APART = 0.001
"""The number of seconds that they are apart."""
NEAR = timedelta(milliseconds=20)
"""A bound this close to the clock needs no further look."""


PLANNED_AFTER = 2
"""The server keeps the plan of a sample's statement once it ran so often on a connection."""
_ONE_SESSION = "poller_one_session"


def leads_to(connection: Connection, pid: int) -> bool:
    """True if the driver's number of this session is the server's, `pid`: behind a pooler it is another. Kept with the
    connection."""
    known: bool = session_of(connection) == pid
    connection.info[_ONE_SESSION] = known
    return known


@contextmanager
def planned_once(connection: Connection) -> Iterator[None]:
    """Statements within it are prepared on a connection that leads to one session: to plan one over the sessions takes
    the server longer than to run it. Those over the user's tables are not: their plans must follow what is in them."""
    driver: Any = connection.connection.dbapi_connection
    if not connection.info.get(_ONE_SESSION) or getattr(driver, "prepare_threshold", 0) is not None:
        yield
        return
    driver.prepare_threshold = PLANNED_AFTER
    try:
        yield
    finally:
        driver.prepare_threshold = None


class Exact(Remembering):
    """The start of the oldest open transaction, by pg_stat_activity. Needs pg_read_all_stats, or membership in the
    roles of all who write; while there is a session that it may not see, it holds and does not guess."""

    kind = "exact"

    def __init__(self, ignored: Collection[str]) -> None:
        self._ignored = ignored
        self.began = float("-inf")

    def take(self, connection: Connection, own: Collection[str], *, later: bool) -> Sample:  # noqa: ARG002 - all are
        """Open transactions first, prepared ones second, each in its own snapshot."""
        self.began = time.monotonic()
        with planned_once(connection):
            return self._take(connection, _left_out(self._ignored, own))

    def _take(self, connection: Connection, left_out: Mapping[str, Any]) -> Sample:
        row = connection.execute(_EXACT, left_out).one()
        for _ in range(AGAIN):  # a session that has just connected shows no state for a moment
            if not row.blind:
                break
            time.sleep(SAMPLES_APART)
            row = connection.execute(_EXACT, left_out).one()
        refuse_standby(row)
        held = prepared(connection) if row.prepares else None
        if row.blind:
            held = (
                "sessions whose activity cannot be seen",
                "GRANT pg_read_all_stats to the poller's user, keep track_activities on for all, or leave `bound` out",
            )
        if held is not None:
            return Sample(row.clock, row.clock, None, *held)
        behind = (row.clock - row.bound).total_seconds()
        holder = _holder(connection, left_out) if behind > SHOWS_HOLDER_AFTER else None
        return Sample(row.clock, row.clock, row.bound, holder)


class Observed(Followed[str, datetime | None]):
    """The start of the oldest open transaction as far as two looks show it: later than the last look that did not see
    it. Needs no privilege. `strict` follows sessions, not transactions, so that several transactions in one message
    do not look like one that ended.

    What is open is the time of the last look that did not show it; None if there was none.
    """

    state = "in a transaction"

    def __init__(self, ignored: Collection[str], server: str, *, strict: bool = False) -> None:
        super().__init__(server, ignored)
        self.kind = "observed-strict" if strict else "observed"
        self._strict = strict
        self._prepares = True
        """True if there can be prepared transactions, as the last look showed."""

    def take(self, connection: Connection, own: Collection[str], *, later: bool) -> Sample:  # noqa: ARG002 - all are
        """A few looks, a moment apart: what was open at the first has often ended by the last, and what began in
        between is known to be young. No more of them while the oldest stays open: they would show nothing new."""
        self.began = time.monotonic()
        with planned_once(connection):
            return self._take(connection, _left_out(self._ignored, own))

    def _take(self, connection: Connection, left_out: Mapping[str, Any]) -> Sample:
        first = seen = self._look(connection, left_out)
        for _ in range(AGAIN):
            if seen.held_by is not None or not self._seen[1] or (seen.oldest and seen.clock - seen.oldest < NEAR):
                break
            time.sleep(SAMPLES_APART)
            before, seen = seen, self._look(connection, left_out)
            if seen.oldest == before.oldest:
                break
        held = prepared(connection) if self._prepares else None
        if held is not None:
            return Sample(first.clock, seen.clock, None, *held)
        return replace(seen, began=first.clock)

    def _look(self, connection: Connection, left_out: Mapping[str, Any]) -> Sample:
        row = connection.execute(_OPEN, left_out).one()
        refuse_standby(row)
        self._prepares = row.prepares
        previous, before = self._seen
        if previous is not None and row.clock < previous:
            previous, before = None, {}  # the clock went back: earlier samples no longer count
        names = {name.rpartition("@")[2] if self._strict else name for name in row.open}
        self._seen = (row.clock, {name: before.get(name, previous) for name in names})
        return self._sample(row.clock, partial(_called, connection))

    def _since(self, one: datetime | None) -> datetime | None:
        return one

    def _holder(self, name: str) -> str:
        return f"pid {_pid(name)}"

    def _as_json(self, one: datetime | None) -> str | None:
        return None if one is None else one.isoformat()

    def _from_json(self, name: str, found: Any) -> tuple[str, datetime | None]:
        return str(name), remembered(found) if found else None


def _pid(name: str) -> int:
    return int(name.rpartition("@")[2])


def _called(connection: Connection, names: Sequence[str]) -> list[str]:
    pids = sorted(map(_pid, names))
    rows = {row.pid: row for row in connection.execute(_NAMES, {"pids": pids})}
    return [f"pid {pid} of {rows[pid].usename}" if pid in rows else f"pid {pid}" for pid in pids]


def _holder(connection: Connection, left_out: Mapping[str, Any]) -> str | None:
    row = connection.execute(_HOLDER, left_out).one_or_none()
    if row is None or row.since is None:
        return None
    name = f" ({row.application_name})" if row.application_name else ""
    what = row.state if row.backend_type == "client backend" else row.backend_type
    return f"pid {row.pid} of {row.usename}{name}, {what}, open since {row.since:%Y-%m-%d %H:%M:%S}"


def _left_out(ignored: Collection[str], own: Collection[str]) -> dict[str, Any]:
    """Parameters of the statements: whose sessions are ignored."""
    return {"ignored": list(ignored), "own": list(own), "own_pids": [int(one.partition("@")[0]) for one in own]}


def refuse_standby(row: Any, table: str = "") -> None:
    """Checked with every sample: behind a pooler a connection may lead to another server than before.

    Raises: SourceError on a standby, which shows neither locks nor sessions of the primary.
    """
    if row.standby:
        raise on_copy("a standby", table)


def prepared(connection: Connection) -> tuple[str, str] | None:
    """The holder and what to do, if a prepared transaction exists: its rows may appear at any time."""
    row = connection.execute(_PREPARED).one_or_none()
    if row is None:
        return None
    others = f" and {row.many - 1} more" if row.many > 1 else ""
    name = literal(row.gid)
    return (
        f"prepared transaction {name} of {row.owner}, since {row.since:%Y-%m-%d %H:%M:%S}{others}",
        f"a prepared transaction is not finished: COMMIT PREPARED {name}; or ROLLBACK PREPARED {name};",
    )
