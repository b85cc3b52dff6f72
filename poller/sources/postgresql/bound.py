"""PostgreSQL's bounds: `exact`, `observed` and `observed-strict` from samples of what is open, `xid8+pk` from the
snapshot (sources.md, "Rows that commit late")."""

from __future__ import annotations

import time

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from poller.databases import catalog
from poller.databases.pools import Session
from poller.databases.samplers import Reading, Tracker, join
from poller.errors import ConfigError
from poller.ports import Bound
from poller.sources.bounds.base import BoundContext, BoundStrategy, Stateless
from poller.sources.bounds.sampled import OPEN_TOO_LONG, SHOWS_HOLDER_AFTER
from poller.sources.columns.uniqueness import quoted
from poller.sources.postgresql.origin import origin
from poller.sources.postgresql.samples import Exact, Observed, leads_to, refuse_standby
from poller.sources.postgresql.sequence import by_kind

_STANDING = sa.text("""
select pg_is_in_recovery() as standby, pg_postmaster_start_time()::text as server,
       pg_has_role(current_user, 'pg_read_all_stats', 'usage') as sees_all
""")
_READING = sa.text("""
select concat_ws('/', coalesce(host(inet_server_addr()), 'local'), current_setting('port'),
                 to_char(pg_postmaster_start_time() at time zone 'UTC', 'YYYYMMDDHH24MISSUS')) as server,
       current_database() as database, cast(current_user as text) as username, pg_backend_pid() as pid,
       (select to_char(backend_start at time zone 'UTC', 'YYYYMMDDHH24MISSUS')
          from pg_stat_activity where pid = pg_backend_pid()) as began,
       current_setting('default_transaction_read_only') = 'on' as reads
""")
_XMIN = sa.text("""
select pg_snapshot_xmin(s)::text as xmin, pg_snapshot_xmax(s)::text as xmax, pg_is_in_recovery() as standby
  from pg_current_snapshot() as s
""")
_WRITER = sa.text("""
select 'pid ' || pid || ' of ' || usename || ', open since ' || to_char(xact_start, 'YYYY-MM-DD HH24\\:MI\\:SS') as who,
       extract(epoch from clock_timestamp() - xact_start) as open_for
  from pg_stat_activity where backend_xid = cast(cast(:xid as xid8) as xid)
union all
select 'prepared transaction ' || gid || ' of ' || owner, extract(epoch from clock_timestamp() - prepared)
  from pg_prepared_xacts
 where transaction = cast(cast(:xid as xid8) as xid)
""")
RARELY = 60.0
"""Seconds between two samples from which on they do not show for how long a transaction is open."""
REFRESHED = (
    'Read the tables that it is made from, or set bound = "delay" and a `settle` longer than the time between'
    " two refreshes plus the longest transaction."
)
"""What to do about a materialized view."""


class Xid8(Stateless):
    """For a column `xid8 DEFAULT pg_current_xact_id()`: all below the snapshot's xmin has ended, prepared or not."""

    kind = "exact"

    def __init__(self, context: BoundContext, reason: str) -> None:
        self._context = context
        self._reason = reason
        self._value: str | None = None
        self._since = 0.0
        self._sampled = float("-inf")

    def sample(self, connection: Connection) -> Bound:
        """One statement: the oldest transaction id that is still open anywhere in the cluster. Since when it is open is
        what the samples show; who samples rarely asks, where that may be seen."""
        row = connection.execute(_XMIN).one()
        refuse_standby(row, self._context.table or "")
        now = time.monotonic()
        rarely, self._sampled = now - self._sampled > RARELY, now
        if row.xmin != self._value:
            self._value, self._since = row.xmin, now
        age, writer = now - self._since, None
        if row.xmin != row.xmax and (rarely or age >= SHOWS_HOLDER_AFTER):
            writer = connection.execute(_WRITER, {"xid": row.xmin}).first()
            age = max(age, float(writer.open_for or 0.0) if writer is not None else 0.0)
        if row.xmin == row.xmax or age < SHOWS_HOLDER_AFTER:
            return Bound(kind=self.kind, value=row.xmin, reason=self._reason, next=row.xmax)
        return Bound(
            kind=self.kind,
            value=row.xmin,
            age_seconds=age,
            held_by=(writer and writer.who) or f"transaction {row.xmin}",
            reason=f"{OPEN_TOO_LONG}; {self._reason}",
            next=row.xmax,
        )


def choose(wanted: str, context: BoundContext, connection: Connection) -> BoundStrategy | str:
    """The strategy for `bound = wanted` on this server, or the reason (a `str`) why only a delay is left.

    Raises: SourceError on a standby, ConfigError naming `bound` over a materialized view.
    """
    (standing,) = catalog.rows(connection, _STANDING)
    refuse_standby(standing, context.table or "")
    name = None if context.table is None else quoted(context.table, context.schema)
    found = origin(connection, name, context.query, context.column.name)
    if found is not None and found.refreshed:
        raise ConfigError(f"`bound` is {wanted}, but {found.reason}.", key="bound", next_step=REFRESHED)
    if found is not None:
        return found.reason
    if context.kind == "xid8+pk":
        return Xid8(context, "the snapshot's xmin")
    ignored, server, reason = context.ignore_users, standing.server, "asked for"
    if wanted == "strict":
        kind = "observed-strict"
    elif wanted == "exact":
        kind = "exact"
    elif standing.sees_all:
        kind, reason = "exact", "the user may see all sessions"
    else:
        kind = "observed"
        reason = (
            "the user may not see all sessions, so several transactions in one message or COMMIT AND CHAIN are not"
            " guarded; GRANT pg_read_all_stats makes it exact"
        )

    def make(connection: Connection) -> Tracker:  # noqa: ARG001 - nothing to ask before the first sample
        return Exact(ignored) if kind == "exact" else Observed(ignored, server, strict=kind == "observed-strict")

    session = Session.of(connection)
    sampler = join(
        reading_of(connection) if session is None else session.reading,
        make,
        connection,
        kind=kind,
        ignored=ignored,
        numbers=context.kind != "timestamp+pk",
        table=context.table or "",
    )
    return by_kind(sampler, reason, context, connection, name)


def reading_of(connection: Connection) -> Reading | None:
    """This connection, for sharing samples; None where it may lead to another server than before (a pooler: the
    driver's number of the session then differs), does not show when it began, or could write."""
    row = connection.execute(_READING).one()
    if not leads_to(connection, row.pid) or row.began is None or not row.reads:
        return None
    return Reading(row.server, row.database, row.username, f"{row.pid}@{row.began}")
