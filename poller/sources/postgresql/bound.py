"""PostgreSQL's bounds: `exact`, `observed` and `observed-strict` from samples of what is open, `xid8+pk` from the
snapshot (sources.md, "Rows that commit late")."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from poller.databases.samplers import Reading, SharedSampler, Tracker
from poller.errors import ConfigError
from poller.ports import Bound
from poller.sources.bound import OPEN_TOO_LONG, SHOWS_HOLDER_AFTER, Marked, Rule
from poller.sources.columns import Family
from poller.sources.columns.uniqueness import quoted
from poller.sources.facts import TableChanged
from poller.sources.postgresql.origin import origin
from poller.sources.postgresql.samples import Exact, Observed, leads_to, refuse_standby
from poller.sources.sampler import BLOCKS, Asked, Sampler, shared

_HERE = """
select pg_backend_pid() as pid, (select to_char(backend_start at time zone 'UTC', 'YYYYMMDDHH24MISSUS')
                                   from pg_stat_activity where pid = pg_backend_pid()) as began,
       concat_ws('/', coalesce(host(inet_server_addr()), 'local'), current_setting('port'),
                 to_char(pg_postmaster_start_time() at time zone 'UTC', 'YYYYMMDDHH24MISSUS')) as server,
       current_database() as database, cast(current_user as text) as username, cast(session_user as text),
       current_setting('default_transaction_read_only') as reads, pg_is_in_recovery(),
       pg_has_role(current_user, 'pg_read_all_stats', 'usage'), current_setting('search_path'),
       current_setting('TimeZone'), current_setting('DateStyle'), current_setting('lc_monetary'),
       current_setting('row_security'), current_setting('server_encoding')
"""
"""The session, and where it leads."""
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
_SEQUENCE = sa.text("select pg_get_serial_sequence(:name, :column)")
_SEQUENCE_MADE = sa.text(
    """
select has_sequence_privilege(seqrelid, 'SELECT') as readable, seqcache, seqincrement, seqcycle,
       a.attidentity <> '' or coalesce(pg_get_expr(d.adbin, d.adrelid)
           = format('nextval(%L::regclass)', cast(cast(seqrelid as regclass) as text)), false) as fills
  from pg_sequence
  join pg_attribute a on a.attrelid = to_regclass(:name) and a.attname = :column
  left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
 where seqrelid = cast(:sequence as regclass)
""".replace("::", "\\:\\:")
)
_VALUE = """
select case when s.is_called then s.last_value + 1 else s.last_value end, q.seqcache, q.seqincrement, q.seqcycle
  from {name} as s, pg_sequence as q where q.seqrelid = cast(:sequence as regclass)
"""
"""The next value, and what makes it one that no session hands out later."""
RARELY = 60.0
"""Seconds between two samples from which on they do not show for how long a transaction is open."""
REFRESHED = (
    'Read the tables that it is made from, or set bound = "delay" and a `settle` longer than the time between'
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
        bound = Bound(kind=self._rule.kind, value=row.xmin, reason=self._rule.reason, next=row.xmax)
        if row.xmin == row.xmax or age < SHOWS_HOLDER_AFTER:
            return bound
        who = (writer and writer.who) or f"transaction {row.xmin}"
        return replace(bound, age_seconds=age, held_by=who, reason=f"{OPEN_TOO_LONG}; {bound.reason}")


def sampler(asked: Asked, connection: Connection) -> Sampler | str:
    """How samples are taken on this server, or the reason (a `str`) why only a delay is left.

    Raises: SourceError on a standby, ConfigError naming `bound` over a materialized view.
    """
    o, wanted = asked.options, asked.options.bound
    name = None if o.table is None else quoted(o.table, o.schema_name)
    standing, found = origin(connection, name, o.query, asked.column.name)
    refuse_standby(standing, o.table or "")
    if found is not None and found.refreshed:
        raise ConfigError(f"`bound` is {wanted}, but {found.reason}.", key="bound", next_step=REFRESHED)
    if found is not None:
        return found.reason
    if o.cursor_kind == "xid8+pk":
        rule = Rule("exact", "the snapshot's xmin", asked.column)
        return Sampler(rule, _Xmin(rule, o.table or "").take)
    ignored, reason = o.bound_ignore_users, "asked for"
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
        return (
            Exact(ignored) if kind == "exact" else Observed(ignored, standing.server, strict=kind == "observed-strict")
        )

    samples = shared(asked, kind, lambda c: here(c)[0], make, connection)
    if o.is_timed:
        return Sampler(Rule(kind, reason, asked.column, o.settle), samples.take, samples)
    return _counted(asked, Rule(kind, reason, asked.column, o.extra_delay, "counts"), samples, connection, name)


def _counted(
    asked: Asked, rule: Rule, samples: SharedSampler, connection: Connection, name: str | None
) -> Sampler | str:
    """For integers that a sequence hands out, in the table `name`."""
    column = asked.column
    if name is None:
        return "the column of a query has no sequence"
    if column.family is not Family.INTEGER:
        return f"the column {column.name} holds no integers, so no sequence fills it"
    sequence = connection.execute(_SEQUENCE, {"name": name, "column": column.name}).scalar_one_or_none()
    if sequence is None:
        return f"no sequence fills the column {column.name}"
    names = {"sequence": sequence, "name": name, "column": column.name}
    made = connection.execute(_SEQUENCE_MADE, names).one()
    if not made.readable:
        return f"the user may not read the sequence: GRANT SELECT ON SEQUENCE {sequence}"
    if not made.fills:  # it is owned by the column, as after ALTER COLUMN ... SET DEFAULT, but does not fill it
        return f"the DEFAULT of {column.name} is not the next value of the sequence {sequence}"
    if made.seqcache > 1:
        return f"the sequence {sequence} has CACHE {made.seqcache}: sessions hand out old values later"
    if made.seqincrement > 1:
        return f"the sequence {sequence} has INCREMENT BY {made.seqincrement}: {BLOCKS}"
    if made.seqincrement < 1 or made.seqcycle:
        return f"the sequence {sequence} does not only grow"
    text = str(sequence).replace(":", "\\:")  # quoted by the database, where that is needed
    value = sa.text(_VALUE.replace("{name}", text))

    def take(connection: Connection) -> Marked:
        """Raises: TableChanged, if the sequence does not say any more which value was not handed out yet."""
        at, *others = connection.execute(value, {"sequence": sequence}).one()
        if others != [made.seqcache, made.seqincrement, made.seqcycle]:
            raise TableChanged
        return Marked(int(at), samples.take(connection), int(at))

    return Sampler(replace(rule, reason=f"the sequence {sequence}; {rule.reason}"), take, samples)


def here(connection: Connection) -> tuple[Reading | None, tuple[Any, ...]]:
    """This connection, for sharing samples, and what the server says of where it leads. The first is None where it may
    lead to another server than before (a pooler: the driver's number of the session then differs), does not show when
    it began, or could write. Raises what the driver raises."""
    row = connection.exec_driver_sql(_HERE).one()
    _, _, *said = row
    if not leads_to(connection, row.pid) or row.began is None or row.reads != "on":
        return None, tuple(said)
    return Reading(row.server, row.database, row.username, f"{row.pid}@{row.began}"), tuple(said)
