"""PostgreSQL's bounds: `exact`, `observed` and `observed-strict` from samples of what is open, `xid8+pk` from the
snapshot (sources.md, "Rows that commit late").

What is open: `exact` from pg_stat_activity, the observed ones from virtual transaction ids. Every statement runs in
autocommit: two samples in one transaction would see one frozen pg_stat_activity, and a sample in the page's statement
would have an older snapshot than the page.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, ClassVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from poller.databases.postgresql.site import literal
from poller.databases.samplers import (
    SHOWS_HOLDER_AFTER,
    Followed,
    ReadingConnection,
    Remembering,
    Sample,
    SharedSampler,
    Tracker,
    remembered,
    session_of,
)
from poller.errors import ConfigError, SourceError
from poller.ports import Bound
from poller.sources.bound import OPEN_TOO_LONG, Marked, Rule
from poller.sources.columns import Family, quoted
from poller.sources.database import BLOCKS, Asked, Sampler, on_copy, shared
from poller.sources.facts import TableChanged
from poller.sources.postgresql.origin import origin

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
_MARKS = 256
"""So many values of a counter are kept at most, while a transaction is open; of more, every other one goes."""
_NOT_YET = "it is not known yet which changes they wrote"
RARELY = 60.0
"""Seconds between two samples from which on they do not show for how long a transaction is open."""
REFRESHED = (
    'Read the tables that it is made from, or set bound = "delay" and a `settle` longer than the time between'
    " two refreshes plus the longest transaction."
)
"""What to do about a materialized view."""


_NEXT_XID = sa.text(
    """
select pg_snapshot_xmin(s)::text as xmin, pg_snapshot_xmax(s)::text as xmax, pg_is_in_recovery() as standby,
       pg_snapshot_xmax(s)::text::bigint + age(pg_snapshot_xmax(s)::xid) as following
  from pg_current_snapshot() as s
""".replace("::", "\\:\\:")
)
"""As `_XMIN`, and a number that no transaction had at the snapshot: xmax is the last one that ENDED and one more, and
transactions that run have higher numbers. `age` counts up to the next number that is handed out, and hands out none."""


class _Xmin:
    """For a column `xid8 DEFAULT pg_current_xact_id()`: all below the snapshot's xmin has ended, prepared or not."""

    statement: ClassVar[sa.TextClause] = _XMIN

    def __init__(self, rule: Rule, asked: Asked) -> None:
        self._rule = rule
        self._table = asked.options.table or ""
        self._highest = asked.highest
        self._above: str | None = None
        """The greatest id of a row, if the server had not handed it out when it was asked."""
        self._looked = float("-inf")
        self._value: str | None = None
        self._since = 0.0
        self._sampled = float("-inf")

    def take(self, connection: Connection) -> Bound:
        """One statement: the oldest transaction id that is still open anywhere in the cluster. Since when it is open is
        what the samples show; who samples rarely asks, if that may be seen. Now and then, before it, the greatest id
        of a row: a copy of another server's rows waits until this one has come as far."""
        now = time.monotonic()
        if now - self._looked > RARELY:
            self._looked, self._above = now, connection.execute(self._highest).scalar()
        return self._bound(connection, connection.execute(self.statement).one())

    def _bound(self, connection: Connection, row: Any) -> Bound:
        now = time.monotonic()
        refuse_standby(row, self._table)
        if self._above is not None and int(self._above) < int(row.xmax):
            self._above = None
        rarely, self._sampled = now - self._sampled > RARELY, now
        if row.xmin != self._value:
            self._value, self._since = row.xmin, now
        age, writer = now - self._since, None
        if row.xmin != row.xmax and (rarely or age >= SHOWS_HOLDER_AFTER):
            writer = connection.execute(_WRITER, {"xid": row.xmin}).first()
            age = max(age, float(writer.open_for or 0.0) if writer is not None else 0.0)
        bound = Bound(kind=self._rule.kind, value=row.xmin, reason=self._rule.reason, next=row.xmax)
        if self._above is not None:
            name = self._rule.column.name
            why = (
                f"{name} goes up to {self._above}, and the server has handed out transaction ids below {row.xmax} only:"
                " the rows are from another server, or from before a restore, and wait until it has come as far; to"
                f" read them now, set {name} of the rows from {row.xmax} on to pg_current_xact_id()"
            )
            return replace(bound, held_by=f"rows with transaction ids up to {self._above}", reason=why)
        if row.xmin == row.xmax or age < SHOWS_HOLDER_AFTER:
            return bound
        who = (writer and writer.who) or f"transaction {row.xmin}"
        return replace(bound, age_seconds=age, held_by=who, reason=f"{OPEN_TOO_LONG}; {bound.reason}")


class _ChangeTable(_Xmin):
    """For the numbers of a change table. A trigger draws one after its row was written, so its transaction has its
    number before: all changes below a value of the counter are there once the transactions below a number have ended
    that was handed out to none when the counter was read.

    A person who writes a change by hand calls `pg_current_xact_id()` first.
    """

    statement: ClassVar[sa.TextClause] = _NEXT_XID

    def __init__(self, rule: Rule, asked: Asked, counter: Callable[[Connection], int]) -> None:
        super().__init__(rule, asked)
        self._counter = counter
        self._marks: list[tuple[int, int]] = []
        """Values of the counter, each with a number above those of all transactions that may have drawn a lower one."""

    def take(self, connection: Connection) -> Bound:
        """Each statement in its own snapshot, the counter first."""
        value = self._counter(connection)
        row = connection.execute(self.statement).one()
        xmin, following = int(row.xmin), int(row.following)
        if self._marks and (value < self._marks[-1][0] or following < self._marks[-1][1]):
            self._marks = []  # the server went back
        self._marks.append((value, following))
        bound = replace(self._bound(connection, row), next=str(value))
        settled = [at for at, (_, above) in enumerate(self._marks) if above <= xmin]
        if settled:
            self._marks = self._marks[settled[-1] :]
        if len(self._marks) > _MARKS:
            self._marks = [self._marks[0], *self._marks[1:-1:2], self._marks[-1]]
        if settled:
            return replace(bound, value=str(self._marks[0][0]))
        who = bound.held_by or "transactions that were open at the first sample"
        return replace(bound, value=None, held_by=who, reason=_NOT_YET, cold=True)


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
    if o.capture and name is not None:
        return _of_changes(asked, connection, name)
    if o.cursor_kind == "xid8+pk":
        rule = Rule("exact", "the snapshot's xmin", asked.column)
        return Sampler(rule, _Xmin(rule, asked).take)
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


def _of_changes(asked: Asked, connection: Connection, name: str) -> Sampler:
    """For the change table `name`. A delay would pass changes unseen, so there is no way around what is missing."""
    made = _sequence_of(asked, connection, name)
    if isinstance(made, str):
        raise SourceError(
            f"{asked.options.table}: no safe bound for its changes: {made}.",
            table=asked.options.table or "",
            next_step="Run poller capture NAME --install as the user who made it: it grants the poller's user what it"
            " needs.",
        )
    rule = Rule("exact", "the counter of changes, and the transactions that were open when it was read", asked.column)
    return Sampler(rule, _ChangeTable(rule, asked, made).take)


def _counted(
    asked: Asked, rule: Rule, samples: SharedSampler, connection: Connection, name: str | None
) -> Sampler | str:
    """For integers that a sequence hands out, in the table `name`."""
    if name is None:
        return "the column of a query has no sequence"
    following = _sequence_of(asked, connection, name)
    if isinstance(following, str):
        return following

    def take(connection: Connection) -> Marked:
        at = following(connection)
        return Marked(at, samples.take(connection), at)

    return Sampler(replace(rule, reason=f"the sequence {following.name}; {rule.reason}"), take, samples)


@dataclass(frozen=True, slots=True)
class _Sequence:
    """A sequence that hands out the numbers of a column, one after the other. `made`: cache, step and cycle."""

    name: str
    value: sa.TextClause
    made: tuple[Any, ...]

    def __call__(self, connection: Connection) -> int:
        """The first number that was not handed out yet. Raises: TableChanged, if the sequence does not say that any
        more."""
        at, *others = connection.execute(self.value, {"sequence": self.name}).one()
        if tuple(others) != self.made:
            raise TableChanged
        return int(at)


def _sequence_of(asked: Asked, connection: Connection, name: str) -> _Sequence | str:
    """The sequence of the cursor's column, or why there is none whose numbers come in order."""
    column = asked.column
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
    return _Sequence(str(sequence), value, (made.seqcache, made.seqincrement, made.seqcycle))


def here(connection: Connection) -> tuple[ReadingConnection | None, tuple[Any, ...]]:
    """This connection, for sharing samples, and what the server says of where it leads. The first is None if it may
    lead to another server than before (a pooler: the driver's number of the session then differs), does not show when
    it began, or could write. Raises what the driver raises."""
    row = connection.exec_driver_sql(_HERE).one()
    _, _, *said = row
    if not leads_to(connection, row.pid) or row.began is None or row.reads != "on":
        return None, tuple(said)
    return ReadingConnection(row.server, row.database, row.username, f"{row.pid}@{row.began}"), tuple(said)
