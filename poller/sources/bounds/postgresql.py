"""PostgreSQL's bounds: `exact` from pg_stat_activity, `observed` and `observed-strict` from virtual transaction ids,
`xid8+pk` from the snapshot (sources.md, "Rows that commit late").

Every statement here is one of its own, in autocommit: two samples in one transaction would see one frozen
pg_stat_activity, and a sample in the page's own statement would have an older snapshot than the page.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from poller.errors import ConfigError, SourceError
from poller.ports import Bound
from poller.sources.bounds.base import BoundContext, BoundTaker
from poller.sources.bounds.postgresql_origin import origin
from poller.sources.bounds.postgresql_sequence import by_kind
from poller.sources.bounds.sampled import (
    OPEN_TOO_LONG,
    REMEMBERED,
    SHOWS_HOLDER_AFTER,
    Sample,
    some,
)
from poller.sources.uniqueness import quoted

_EXACT = sa.text("""
select least(min(least(xact_start, case when backend_type = 'client backend'
         and state in ('active', 'fastpath function call') then query_start end)), statement_timestamp()) as bound,
       coalesce(bool_or(backend_type is null or state = 'disabled'
         or (backend_type = 'client backend' and state is null)), false) as blind,
       statement_timestamp() as clock, pg_is_in_recovery() as standby
  from pg_stat_activity
 where datid = (select oid from pg_database where datname = current_database())
   and usesysid is not null and pid <> pg_backend_pid()
   and not coalesce(usename = any(cast(:ignored as text[])), false)
""")
_PREPARED = sa.text("""
select count(*) over () as many, gid, owner::text as owner, prepared as since
  from pg_prepared_xacts where database = current_database() order by prepared limit 1
""")
_HOLDER = sa.text("""
select pid, usename, state, application_name, backend_type,
       least(xact_start, case when backend_type = 'client backend'
         and state in ('active', 'fastpath function call') then query_start end) as since
  from pg_stat_activity
 where datid = (select oid from pg_database where datname = current_database())
   and usesysid is not null and pid <> pg_backend_pid()
   and not coalesce(usename = any(cast(:ignored as text[])), false)
 order by since limit 1
""")
"""Of the same sessions as the bound: an apply worker holds it as a client does."""
_NAMES = sa.text("""
select pid, usename, application_name from pg_stat_activity where pid = any(cast(:pids as integer[])) order by pid
""")
_OPEN = sa.text("""
select statement_timestamp() as clock, coalesce(array_agg(l.virtualxid || '@' || l.pid), '{}') as open,
       pg_is_in_recovery() as standby
  from pg_locks l left join pg_stat_activity a on a.pid = l.pid
 where l.locktype = 'virtualxid' and l.granted and l.virtualtransaction = l.virtualxid and l.pid <> pg_backend_pid()
   and (a.pid is null or (a.usesysid is not null
        and a.datid = (select oid from pg_database where datname = current_database())))
   and not coalesce(a.usename = any(cast(:ignored as text[])), false)
""")
_STANDING = sa.text("""
select pg_is_in_recovery() as standby, pg_postmaster_start_time()::text as server,
       pg_has_role(current_user, 'pg_read_all_stats', 'usage') as sees_all
""")
_XMIN = sa.text("""
select pg_snapshot_xmin(s)::text as xmin, pg_snapshot_xmax(s)::text as xmax, pg_is_in_recovery() as standby
  from pg_current_snapshot() as s
""")
_WRITER = sa.text("""
select 'pid ' || pid || ' of ' || usename || ', open since ' || to_char(xact_start, 'YYYY-MM-DD HH24\\:MI\\:SS')
  from pg_stat_activity where backend_xid = cast(cast(:xid as xid8) as xid)
union all
select 'prepared transaction ' || gid || ' of ' || owner from pg_prepared_xacts
 where transaction = cast(cast(:xid as xid8) as xid)
""")
AGAIN = 3
"""How many more looks a sample may take, where the first tells little."""
SAMPLES_APART = 0.001
"""How many seconds they are apart."""
NEAR = timedelta(milliseconds=20)
"""A bound that is so near is near enough."""
REFRESHED = (
    'Read the tables that it is made from, or set bound = "heuristic" and a `commit_delay` longer than the time between'
    " two refreshes and the longest transaction together."
)
"""What to do about a materialized view."""


class Exact:
    """The start of the oldest open transaction, by pg_stat_activity. Needs pg_read_all_stats, or membership in the
    roles of all who write; what it may not see makes it hold, not guess."""

    kind = "exact"

    def __init__(self, context: BoundContext) -> None:
        self._context = context
        self._ignored = list(context.ignore_users)

    def take(self, connection: Connection) -> Sample:
        """Open transactions first, prepared ones second, each with a snapshot of its own."""
        row = connection.execute(_EXACT, {"ignored": self._ignored}).one()
        for _ in range(AGAIN):  # a session that has just connected shows no state for a moment
            if not row.blind:
                break
            time.sleep(SAMPLES_APART)
            row = connection.execute(_EXACT, {"ignored": self._ignored}).one()
        refuse_standby(row, self._context)
        held = prepared(connection)
        if row.blind:
            held = (
                "sessions whose activity cannot be seen",
                "GRANT pg_read_all_stats to the poller's user, keep track_activities on for all, or use bound observed",
            )
        if held is not None:
            return Sample(row.clock, row.clock, None, *held)
        behind = (row.clock - row.bound).total_seconds()
        holder = self._holder(connection) if behind > SHOWS_HOLDER_AFTER else None
        return Sample(row.clock, row.clock, row.bound, holder)

    def _holder(self, connection: Connection) -> str | None:
        row = connection.execute(_HOLDER, {"ignored": self._ignored}).one_or_none()
        if row is None or row.since is None:
            return None
        name = f" ({row.application_name})" if row.application_name else ""
        what = row.state if row.backend_type == "client backend" else row.backend_type
        return f"pid {row.pid} of {row.usename}{name}, {what}, open since {row.since:%Y-%m-%d %H:%M:%S}"

    def remember(self) -> dict[str, Any] | None:
        """Nothing: each sample tells all."""
        return None

    def recall(self, memory: Mapping[str, Any]) -> None:
        """Nothing."""


class Observed:
    """The start of the oldest open transaction as far as two looks tell: it is later than the last look that did not
    see it. Needs no privilege. `strict` counts a session, not a transaction, so that several transactions in one
    message do not look like one that ended.

    Its samples live in this object; `remember` and `recall` carry them across processes.
    """

    def __init__(self, context: BoundContext, server: str, *, strict: bool = False) -> None:
        self.kind = "observed-strict" if strict else "observed"
        self._context = context
        self._server = server
        self._ignored = list(context.ignore_users)
        self._strict = strict
        self._previous: datetime | None = None
        self._since: dict[str, datetime | None] = {}
        """For each open one the time of the last sample in which it was not there; None where there was no sample."""
        self._first: datetime | None = None
        """When this process first saw one of which it does not know since when it has been open."""

    def take(self, connection: Connection) -> Sample:
        """A few looks, a moment apart: what was open at the first has often ended by the last, and what began in
        between is known to be young. No more of them while the oldest stays open: they would tell nothing new."""
        first = seen = self._look(connection)
        for _ in range(AGAIN):
            if seen.held_by is not None or not self._since or (seen.oldest and seen.clock - seen.oldest < NEAR):
                break
            time.sleep(SAMPLES_APART)
            before, seen = seen, self._look(connection)
            if seen.oldest == before.oldest:
                break
        held = prepared(connection)
        if held is not None:
            return Sample(first.clock, seen.clock, None, *held)
        return replace(seen, began=first.clock)

    def _look(self, connection: Connection) -> Sample:
        row = connection.execute(_OPEN, {"ignored": self._ignored}).one()
        refuse_standby(row, self._context)
        if self._previous is not None and row.clock < self._previous:
            self._previous, self._since = None, {}  # the clock went back: what was known of before says nothing now
        names = {name.rpartition("@")[2] if self._strict else name for name in row.open}
        self._since = {name: self._since.get(name, self._previous) for name in names}
        self._previous = row.clock
        known = [since for since in self._since.values() if since is not None]
        if len(known) < len(self._since):
            return self._cold(connection, row.clock)
        self._first = None
        oldest = min([row.clock, *known])
        holder = None
        if (row.clock - oldest).total_seconds() > SHOWS_HOLDER_AFTER:
            name = min(self._since, key=lambda n: self._since[n] or row.clock)
            holder = f"pid {name.rpartition('@')[2]}, in a transaction since {oldest:%Y-%m-%d %H:%M:%S} or later"
        return Sample(row.clock, row.clock, oldest, holder)

    def _cold(self, connection: Connection, clock: datetime) -> Sample:
        """Some were open before the first sample. One that stays open for long is named: nothing is read until it
        ends."""
        first = self._first or clock
        self._first = first
        who = "transactions that were open at the first sample"
        if (clock - first).total_seconds() > SHOWS_HOLDER_AFTER:
            pids = [int(name.rpartition("@")[2]) for name, since in self._since.items() if since is None]
            rows = {row.pid: row for row in connection.execute(_NAMES, {"pids": pids})}
            told = [f"pid {pid} of {rows[pid].usename}" if pid in rows else f"pid {pid}" for pid in sorted(pids)]
            who = f"{some(told)}, in a transaction since before {first:%Y-%m-%d %H:%M:%S}"
        return Sample(clock, clock, None, who, "nothing is known yet of when they began", cold=True)

    def remember(self) -> dict[str, Any] | None:
        """The samples as JSON; None before the first."""
        if self._previous is None or len(self._since) > REMEMBERED:
            return None
        return {
            "server": self._server,
            "sampled_at": self._previous.isoformat(),
            "open": {name: since and since.isoformat() for name, since in self._since.items()},
        }

    def recall(self, memory: Mapping[str, Any]) -> None:
        """Go on from another process's samples of the same server, where they are newer. After a fail-over another
        server's clock tells the time, and what was sampled before says nothing."""
        if not memory.get("sampled_at") or memory.get("server") != self._server:
            return
        sampled = datetime.fromisoformat(memory["sampled_at"])
        if self._previous is None or sampled > self._previous or None in self._since.values():
            self._previous = sampled
            self._since = {
                name: datetime.fromisoformat(since) if since else None for name, since in memory["open"].items()
            }


class Xid8:
    """For a column `xid8 DEFAULT pg_current_xact_id()`: all below the snapshot's xmin has ended, prepared or not."""

    kind = "exact"

    def __init__(self, context: BoundContext, reason: str) -> None:
        self._context = context
        self._reason = reason
        self._value: str | None = None
        self._since = 0.0

    def sample(self, connection: Connection) -> Bound:
        """One statement: the oldest transaction id that is still open anywhere in the cluster."""
        row = connection.execute(_XMIN).one()
        refuse_standby(row, self._context)
        if row.xmin != self._value:
            self._value, self._since = row.xmin, time.monotonic()
        age = time.monotonic() - self._since
        if row.xmin == row.xmax or age < SHOWS_HOLDER_AFTER:
            return Bound(kind=self.kind, value=row.xmin, reason=self._reason)
        who = connection.execute(_WRITER, {"xid": row.xmin}).scalar()
        return Bound(
            kind=self.kind,
            value=row.xmin,
            age_seconds=age,
            held_by=who or f"transaction {row.xmin}",
            reason=f"{OPEN_TOO_LONG}; {self._reason}",
        )

    def remember(self) -> dict[str, Any] | None:
        """Nothing: the snapshot tells all."""
        return None

    def recall(self, memory: Mapping[str, Any]) -> None:
        """Nothing."""


def refuse_standby(row: Any, context: BoundContext) -> None:
    """Asked with every sample: behind a pooler a connection may come to lead to another server than it did.

    Raises: SourceError on a standby, which sees neither locks nor sessions of the primary.
    """
    if row.standby:
        raise SourceError(
            "The database is a standby: transactions that are open on its primary cannot be seen here.",
            table=context.table or "",
            next_step='Connect to the primary, or accept the risk with bound = "heuristic".',
        )


def prepared(connection: Connection) -> tuple[str, str] | None:
    """Who holds and what to do, where a prepared transaction exists: its rows may appear at any time."""
    row = connection.execute(_PREPARED).one_or_none()
    if row is None:
        return None
    others = f" and {row.many - 1} more" if row.many > 1 else ""
    return (
        f"prepared transaction {row.gid!r} of {row.owner}, since {row.since:%Y-%m-%d %H:%M:%S}{others}",
        f"a prepared transaction is not finished: COMMIT PREPARED '{row.gid}' or ROLLBACK PREPARED '{row.gid}'",
    )


def choose(wanted: str, context: BoundContext, connection: Connection) -> BoundTaker | str:
    """The taker for `bound = wanted` on this server, or the reason (a `str`) why only the heuristic is left.

    Raises: SourceError on a standby, ConfigError naming `bound` over a materialized view.
    """
    standing = connection.execute(_STANDING).one()
    refuse_standby(standing, context)
    name = None if context.table is None else quoted(context.table, context.schema)
    found = origin(connection, name, context.query, context.column.name)
    if found is not None and found.refreshed:
        raise ConfigError(f"`bound` is {wanted}, but {found.reason}.", key="bound", next_step=REFRESHED)
    if found is not None:
        return found.reason
    if context.kind == "xid8+pk":
        return Xid8(context, "the snapshot's xmin")
    if wanted in {"observed", "observed-strict"}:
        sampler, reason = Observed(context, standing.server, strict=wanted == "observed-strict"), "asked for"
    elif wanted == "exact":
        return by_kind(Exact(context), "asked for", context, connection, name)
    elif standing.sees_all:
        return by_kind(Exact(context), "the user may see all sessions", context, connection, name)
    else:
        sampler = Observed(context, standing.server)
        reason = (
            "the user may not see all sessions, so several transactions in one message or COMMIT AND CHAIN are not"
            " guarded; GRANT pg_read_all_stats makes it exact"
        )
    return by_kind(sampler, reason, context, connection, name)
