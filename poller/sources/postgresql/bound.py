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
from poller.sources.bound import OPEN_TOO_LONG, SHOWS_HOLDER_AFTER, Counted, Rule
from poller.sources.columns.uniqueness import quoted
from poller.sources.postgresql.origin import origin
from poller.sources.postgresql.samples import Exact, Observed, leads_to, refuse_standby
from poller.sources.postgresql.sequence import counter_of
from poller.sources.sampler import Asked, Sampler

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
    'Read the tables that it is made from, or set bound = "heuristic" and a `commit_delay` longer than the time between'
    " two refreshes plus the longest transaction."
)
"""What to do about a materialized view."""


class _Xmin:
    """For a column `xid8 DEFAULT pg_current_xact_id()`: all below the snapshot's xmin has ended, prepared or not."""

    def __init__(self, rule: Rule, table: str) -> None:
        self._rule = rule
        self._table = table
        self._value: str | None = None
        self._since = 0.0
        self._sampled = float("-inf")

    def take(self, connection: Connection) -> Bound:
        """One statement: the oldest transaction id that is still open anywhere in the cluster. Since when it is open is
        what the samples show; who samples rarely asks, where that may be seen."""
        row = connection.execute(_XMIN).one()
        refuse_standby(row, self._table)
        now = time.monotonic()
        rarely, self._sampled = now - self._sampled > RARELY, now
        if row.xmin != self._value:
            self._value, self._since = row.xmin, now
        age, writer = now - self._since, None
        if row.xmin != row.xmax and (rarely or age >= SHOWS_HOLDER_AFTER):
            writer = connection.execute(_WRITER, {"xid": row.xmin}).first()
            age = max(age, float(writer.open_for or 0.0) if writer is not None else 0.0)
        kind, reason = self._rule.kind, self._rule.reason
        if row.xmin == row.xmax or age < SHOWS_HOLDER_AFTER:
            return Bound(kind=kind, value=row.xmin, reason=reason, next=row.xmax)
        return Bound(
            kind=kind,
            value=row.xmin,
            age_seconds=age,
            held_by=(writer and writer.who) or f"transaction {row.xmin}",
            reason=f"{OPEN_TOO_LONG}; {reason}",
            next=row.xmax,
        )


def sampler(asked: Asked, connection: Connection) -> Sampler | str:
    """How samples are taken on this server, or the reason (a `str`) why only a delay is left.

    Raises: SourceError on a standby, ConfigError naming `bound` over a materialized view.
    """
    o, wanted = asked.options, asked.options.bound
    (standing,) = catalog.rows(connection, _STANDING)
    refuse_standby(standing, o.table or "")
    name = None if o.table is None else quoted(o.table, o.schema_name)
    found = origin(connection, name, o.query, asked.column.name)
    if found is not None and found.refreshed:
        raise ConfigError(f"`bound` is {wanted}, but {found.reason}.", key="bound", next_step=REFRESHED)
    if found is not None:
        return found.reason
    if o.cursor_kind == "xid8+pk":
        rule = Rule("exact", "the snapshot's xmin", asked.column)
        return Sampler(rule, _Xmin(rule, o.table or "").take)
    ignored, reason = o.bound_ignore_users, "asked for"
    if wanted != "auto":
        kind = wanted
    elif standing.sees_all:
        kind, reason = "exact", "the user may see all sessions"
    else:
        kind = "observed"
        reason = (
            "the user may not see all sessions, so several transactions in one message or COMMIT AND CHAIN are not"
            " guarded; GRANT pg_read_all_stats makes it exact"
        )

    def make(connection: Connection) -> Tracker:  # noqa: ARG001 - nothing to ask before the first sample
        return (
            Exact(ignored) if kind == "exact" else Observed(ignored, standing.server, strict=kind == "observed-strict")
        )

    session, timed = Session.of(connection), o.cursor_kind == "timestamp+pk"
    shared = join(
        reading_of(connection) if session is None else session.reading,
        make,
        connection,
        kind=kind,
        ignored=ignored,
        numbers=not timed,
        table=o.table or "",
    )
    if timed:
        return Sampler(Rule(kind, reason, asked.column, o.bound_margin + o.extra_delay), shared.take, shared)
    counter = counter_of(connection, name, asked.column)
    if isinstance(counter, str):
        return counter
    rule = Rule(kind, f"the sequence {counter.sequence}; {reason}", asked.column, o.extra_delay, "counts")
    return Sampler(rule, lambda c: Counted(counter.read(c), shared.take(c)), shared)


def reading_of(connection: Connection) -> Reading | None:
    """This connection, for sharing samples; None where it may lead to another server than before (a pooler: the
    driver's number of the session then differs), does not show when it began, or could write."""
    row = connection.execute(_READING).one()
    if not leads_to(connection, row.pid) or row.began is None or not row.reads:
        return None
    return Reading(row.server, row.database, row.username, f"{row.pid}@{row.began}")
