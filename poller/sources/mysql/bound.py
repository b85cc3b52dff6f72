"""MariaDB's and MySQL's bound: sessions tracked from sample to sample (sources.md, "MySQL, MariaDB").

No fixed margin over `trx_started` is enough: it can be seconds later than NOW() (behind a metadata lock), and
innodb_trx is a cache. So a running statement counts from its start, and a transaction from the last sample at which its
session did not have it. Each look proves that innodb_trx is fresh by finding its own row in it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from poller.databases import catalog
from poller.databases.samplers import (
    FOUR_BYTES,
    SHOWS_HOLDER_AFTER,
    Followed,
    ReadingConnection,
    Sample,
    SharedSampler,
    remembered,
    session_of,
)
from poller.sources.bound import Marked, Rule
from poller.sources.database import BLOCKS, Asked, Sampler, on_copy, shared
from poller.sources.mysql.look import (
    WAIT,
    Sighting,
    TrackerTurns,
    Turn,
    lacking,
    look,
    sessions_statement,
    still_quiet,
    utc,
)
from poller.sources.user_sql import NO_TABLE, tables

APART = 0.11
"""innodb_trx does not refresh while anybody reads it more often than every 0.1 s."""
AGAIN = 4
"""The further reads that a sample takes if innodb_trx was stale and the server has no named locks: then pollers of one
server keep it stale for each other. With a lock one is enough: only our own look was too early."""
OTHERS = "other pollers of this server"
WAITED = (
    f"they were looking at its open transactions for {WAIT} s, one after another, which is possible eight times a"
    " second; fewer processes, or longer schedules, leave time for all"
)
REAL_TRX = 1 << 47
"""Transaction ids from here on, and 0, are of transactions that have not written."""


Trx: TypeAlias = tuple[int, str]
"""A transaction's id and start, as innodb_trx shows them."""


@dataclass(frozen=True, slots=True)
class _Open:
    """What one session had open at a sample.

    Attributes:
        since: the earliest time since when; None: since before we looked.
        running: when the statement that it ran began.
        transactions: its transactions' ids and starts; none where only a statement ran. MySQL may show two: it reads
            its data dictionary in a second one.
    """

    since: datetime | None
    running: datetime | None
    transactions: tuple[Trx, ...]
    user: str

    def same(self, trx: Trx) -> bool:
        """True if a transaction seen now may be one seen then. It gets its id at its first write, and a statement that
        was running may have begun it; only a difference proves that it is another one."""
        if not self.transactions:
            return True
        return any(then[0] == trx[0] if 0 < then[0] < REAL_TRX else then[1] == trx[1] for then in self.transactions)


class Tracked(Followed[int, _Open]):
    """The oldest of what all sessions have open. Needs PROCESS; without it, other users' threads are not seen.

    `_looked`, by which a quiet server is recognised, is set last, so that a copy taken in between knows too little
    rather than something wrong.
    """

    kind = "observed"

    def __init__(
        self, server: str, sessions: sa.TextClause, first: Sighting, *, mariadb: bool, ignored: Collection[str] = ()
    ) -> None:
        super().__init__(server, ignored)
        self.began = time.monotonic()
        self._sessions = sessions
        self._mariadb = mariadb
        self._turns = TrackerTurns()
        self._sampled = time.monotonic()
        self._last = self._judge(first)
        self._looked = first

    @property
    def replica(self) -> bool:
        """True if a replica's thread was seen at the last look."""
        return self._looked.replica

    def take(self, connection: Connection, own: Collection[str], *, later: bool) -> Sample:
        """One sample; the last one, if it is too young for another. While all sessions are idle, none is."""
        left_out = frozenset(map(int, own))
        quiet = self._quiet(connection, left_out)
        if quiet is not None:
            return quiet
        young = self._sampled + APART - time.monotonic()
        if young > 0:
            if not later and self._last.oldest is not None:
                return replace(self._last, again=True, ago=time.monotonic() - self.began)
            time.sleep(young)
        with self._turns.turn(connection) as got:
            if got is Turn.MISSED:
                return self._missed(connection, later=later)
            if got is Turn.AFTER_ANOTHER:
                time.sleep(APART)
            seen = self._look(connection, left_out)
            for _ in range(AGAIN if got is Turn.UNREGULATED else 1):
                if seen.fresh or seen.xa or seen.replica:
                    break
                spread = random.uniform(1, 2) if got is Turn.UNREGULATED else 1  # noqa: S311 - not in step with another
                time.sleep(APART * spread)
                seen = self._look(connection, left_out)
        self._sampled = time.monotonic()
        self._last = self._judge(seen)
        self._looked = seen
        return self._last

    def _look(self, connection: Connection, own: Collection[int]) -> Sighting:
        self.began = time.monotonic()
        return look(connection, self._sessions, own)

    def _quiet(self, connection: Connection, own: Collection[int]) -> Sample | None:
        """A sample without innodb_trx, where nothing has happened since the last look at it (MariaDB)."""
        previous, opened = self._seen
        if not self._mariadb or self._last.oldest is None or previous is None:
            return None
        began = time.monotonic()
        clock = still_quiet(connection, self._looked, own)
        if clock is None or clock < previous:
            return None
        self.began = began
        self._seen = (clock, opened)
        self._last = self._sample(clock, self._called)
        return self._last

    def _missed(self, connection: Connection, *, later: bool) -> Sample:
        """The last sample's result, at its present age."""
        self.began = time.monotonic()
        clock = utc(connection.exec_driver_sql("select now(6)").scalar_one())
        last = self._last
        if later or last.oldest is None:
            return Sample(clock, clock, None, OTHERS, WAITED, cold=last.cold)
        late = (clock - last.clock).total_seconds() > SHOWS_HOLDER_AFTER
        return Sample(last.began, clock, last.oldest, OTHERS if late else None, WAITED if late else None, again=True)

    def _judge(self, seen: Sighting) -> Sample:
        if seen.replica:
            return _hold(seen, "a replica's thread", "it writes its primary's timestamps here; read from the primary")
        if seen.xa:
            others = f" and {len(seen.xa) - 1} more" if len(seen.xa) > 1 else ""
            return _hold(
                seen,
                f"prepared XA transaction {seen.xa[0]!r}{others}",
                "an XA transaction is not finished: XA RECOVER lists it; XA COMMIT or XA ROLLBACK it",
            )
        if not seen.fresh:
            return _hold(
                seen,
                "another client that reads information_schema.innodb_trx more often than every 0.1 s",
                "the view is a cache that does not refresh meanwhile, so open transactions cannot be seen",
            )
        if self._seen[0] is not None and seen.clock < self._seen[0]:
            self._seen = (None, {})  # the clock went back: earlier samples no longer count
        self._seen = (seen.clock, self._follow(seen))
        return self._sample(seen.clock, self._called)

    def _follow(self, seen: Sighting) -> dict[int, _Open]:
        """What each session has open now, from what it had before and what is seen."""
        before = self._seen[1]
        ignored = {number for number, user in seen.users.items() if user in self._ignored}
        running = {
            number: self._running(before.get(number), began)
            for number, began in seen.running.items()
            if number not in ignored
        }
        now = {number: _Open(began, began, (), seen.users[number]) for number, began in running.items()}
        transactions: dict[int, list[Trx]] = {}
        for row in seen.transactions:
            if row.session not in ignored:
                transactions.setdefault(row.session, []).append((int(row.trx_id), str(row.trx_started)))
        for number, found in transactions.items():
            since = [self._began(before.get(number), trx) for trx in found]
            began = running.get(number)
            known = [moment for moment in (*since, began) if moment is not None]
            now[number] = _Open(
                None if None in since else min(known), began, tuple(found), seen.users.get(number, "nobody")
            )
        return now

    def _running(self, before: _Open | None, began: datetime) -> datetime:
        """When a running statement began. MySQL may report it a second or two too early; but in a session that was idle
        at the last sample it began after that sample, and in any other after the statement that ran there then."""
        previous = self._seen[0]
        if self._mariadb or previous is None:
            return began
        if before is None or before.running is None:
            return max(began, previous)
        return max(began, before.running)

    def _began(self, before: _Open | None, trx: Trx) -> datetime | None:
        """The earliest time since when a transaction may be open: its session's, or else the last sample that did not
        show it; a statement that ran then may have begun it."""
        if before is not None and before.same(trx):
            return before.since
        previous = self._seen[0]
        if before is None or before.running is None or previous is None:
            return previous
        return min(previous, before.running)

    def _since(self, one: _Open) -> datetime | None:
        return one.since

    def _holder(self, name: int) -> str:
        return f"connection {name} of {self._seen[1][name].user}"

    def _called(self, names: Sequence[int]) -> list[str]:
        return list(map(self._holder, sorted(names)))

    def _as_json(self, one: _Open) -> list[Any]:
        return [_iso(one.since), _iso(one.running), [list(trx) for trx in one.transactions], one.user]

    def _from_json(self, name: str, found: Any) -> tuple[int, _Open]:
        since, running, transactions, user = found
        known = tuple((int(trx), str(began)) for trx, began in transactions)
        return int(name), _Open(_moment(since), _moment(running), known, str(user))


def _hold(seen: Sighting, who: str, why: str) -> Sample:
    return Sample(seen.clock, seen.clock, None, who, why)


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _moment(text: str | None) -> datetime | None:
    return None if text is None else remembered(text)


_COUNTER = sa.text(
    "select auto_increment from information_schema.tables"
    " where table_schema = coalesce(:schema, database()) and table_name = :table"
)
_AUTO_COLUMN = sa.text(
    "select column_name from information_schema.columns where table_schema = coalesce(:schema, database())"
    " and table_name = :table and extra like '%auto_increment%'"
)
_SERVER = "select @@global.read_only as copies, concat_ws('/', @@hostname, @@port, @@server_id) as name"
_VARIABLES = (
    "show global variables"
    " where variable_name in ('wsrep_on', 'group_replication_group_name', 'auto_increment_increment')"
)
_PLACE = (
    "select @@hostname, @@port, @@server_id, database(), current_user(), user(), version(), @@session.time_zone,"
    " @@session.sql_mode, @@session.collation_connection, @@global.read_only"
)
_READING = (
    f"{_PLACE}, concat_ws('/', @@hostname, @@port, @@server_id, cast(unix_timestamp() - variable_value as signed))"
    " as server, current_user() as username, connection_id() as session, @@session.{reads} as only_reads"
    " from {schema}.global_status where variable_name = 'Uptime'"
)
"""The server's start is its clock less its uptime, both as of this statement's beginning: the same for every
connection."""
_MAY_LOOK = "select count(*) from information_schema.innodb_cmp"
"""Needs PROCESS, as innodb_trx does, and does not disturb other readers of that view."""
_RECOVER = "xa recover"


def sampler(asked: Asked, connection: Connection) -> Sampler | str:
    """How samples are taken on this server, or the reason (a `str`) why only a delay is left. There is one way here:
    `exact` and `auto` both mean it, and its kind is `observed`.

    Raises: SourceError on a server that is read-only, as replicas are.
    """
    o, mariadb = asked.options, bool(getattr(connection.dialect, "is_mariadb", False))
    server = connection.exec_driver_sql(_SERVER).one()
    if server.copies not in (0, "OFF", "0"):
        raise on_copy("read-only, as a replica is", o.table)
    variables = {str(name): str(value) for name, value in connection.exec_driver_sql(_VARIABLES)}
    if variables.get("wsrep_on") in ("ON", "1") or variables.get("group_replication_group_name"):
        return "in a cluster other nodes' transactions cannot be seen here"

    def make(connection: Connection) -> Tracked:
        sessions = sessions_statement(connection, mariadb=mariadb)
        with TrackerTurns().turn(connection) as got:
            if got is Turn.AFTER_ANOTHER:
                time.sleep(APART)
            first = look(connection, sessions)
        return Tracked(str(server.name), sessions, first, mariadb=mariadb, ignored=o.bound_ignore_users)

    try:
        samples = shared(asked, Tracked.kind, lambda c: here(c, mariadb=mariadb)[0], make, connection)
        tracked = samples.prepare(connection)
    except DBAPIError as error:
        privilege = lacking(error)
        if privilege is None:
            raise
        needed = "PROCESS" if mariadb else "PROCESS, XA_RECOVER_ADMIN"
        return f"the user lacks {privilege}; GRANT {needed} ON *.* makes the bound observed"
    if isinstance(tracked, Tracked) and tracked.replica:
        return "a replica thread writes here with its primary's timestamps"
    other, unknown = engines(connection, o.schema_name, o.table, o.query)
    if other is not None:
        return f"{other}, whose transactions cannot be seen"
    if o.is_timed:
        unseen = "" if unknown is None else f"; the engines behind {unknown} are not known, InnoDB is assumed"
        reason = f"sessions tracked from sample to sample{unseen}"
        return Sampler(Rule(Tracked.kind, reason, asked.column, o.settle), samples.take, samples)
    step = variables.get("auto_increment_increment") or "1"
    return _counted(asked, samples, connection, step, mariadb=mariadb)


def _counted(
    asked: Asked, samples: SharedSampler, connection: Connection, step: str, *, mariadb: bool
) -> Sampler | str:
    """For numbers that AUTO_INCREMENT hands out; `step`: by how much the server raises them."""
    o, column = asked.options, asked.column
    names = {"schema": o.schema_name, "table": o.table}
    if o.table is None or connection.execute(_AUTO_COLUMN, names).scalar_one_or_none() != column.name:
        return f"the column {column.name} is not AUTO_INCREMENT"
    if step != "1":
        return f"the server's auto_increment_increment is {step}: {BLOCKS}"
    if not mariadb:
        connection.exec_driver_sql("set session information_schema_stats_expiry = 0")  # else it is a day old

    def take(connection: Connection) -> Marked:
        at = connection.execute(_COUNTER, names).scalar_one()  # NULL: MySQL does not know it yet
        return Marked(at or 0, samples.take(connection), at)

    reason = "the table's AUTO_INCREMENT counter; sessions tracked from sample to sample"
    return Sampler(Rule(Tracked.kind, reason, column, o.extra_delay, "counts"), take, samples)


def may_see(connection: Connection) -> tuple[bool, bool]:
    """True if this session may see all open transactions, and if it may see those that are prepared. Raises what the
    driver raises where the connection broke."""
    return _may(connection, _MAY_LOOK), _may(connection, _RECOVER)


def _may(connection: Connection, sql: str) -> bool:
    try:
        connection.exec_driver_sql(sql).close()
    except DBAPIError as error:
        if error.connection_invalidated:
            raise
        return False
    return True


def here(connection: Connection, *, mariadb: bool) -> tuple[ReadingConnection | None, tuple[str, ...]]:
    """This connection, for sharing samples, of all databases alike, and what the server says of where it leads. Raises
    what the driver raises."""
    names = ("information_schema", "tx_read_only") if mariadb else ("performance_schema", "transaction_read_only")
    row = None
    try:
        row = connection.exec_driver_sql(_READING.format(schema=names[0], reads=names[1])).one_or_none()
    except DBAPIError as error:
        if error.connection_invalidated:
            raise
    if row is None:
        return None, tuple(map(str, connection.exec_driver_sql(_PLACE).one()))
    return _reading(connection, row), tuple(map(str, row[:-4]))


def _reading(connection: Connection, row: Any) -> ReadingConnection | None:
    """None if it may lead to another server than
    before (behind a proxy the driver's number of the session differs from the server's), could write, or lacks the
    privilege: privileges are fixed when a connection opens, and without PROCESS the server would look idle.

    Two servers in containers may have the same host name, port and number, and have started in the same second: so the
    address is part of it as well."""
    if not all(may_see(connection)):
        return None
    session = session_of(connection)
    if not row.only_reads or session is None:
        return None
    if session % FOUR_BYTES != row.session % FOUR_BYTES:  # drivers know no more of it
        return None
    url = connection.engine.url
    address = f"{url.host}:{url.port}{url.query.get('unix_socket', '')}"
    return ReadingConnection(f"{address}/{row.server}", "", row.username, str(row.session))


ABOUT = sa.text("""
select table_type as kind, engine, (select view_definition from information_schema.views
         where table_schema = coalesce(:schema, database()) and table_name = :name) as definition
  from information_schema.tables where table_schema = coalesce(:schema, database()) and table_name = :name
""")


def engines(
    connection: Connection, schema: str | None, table: str | None, query: str | None
) -> tuple[str | None, str | None]:
    """A table behind the rows whose engine is not InnoDB, with its engine, and what could not be inspected, in words;
    None for none. Looks through views and queries. Raises what the driver raises."""
    unknown: str | None = None
    waiting = [(schema, table)] if table is not None else tables(query or "", schema, "mysql")
    if waiting is None:
        return None, "the query"
    if not waiting:
        return NO_TABLE, None
    known = set(waiting)
    while waiting:
        database, name = waiting.pop()
        rows = catalog.rows(connection, ABOUT, {"schema": database, "name": name})
        row = rows[0] if rows else None
        if row is None:
            unknown = name
        elif row.engine is not None and row.engine.lower() != "innodb":
            whose = "the table's engine" if name == table else f"the engine of {name}"
            return f"{whose} is {row.engine}", None
        elif "VIEW" in row.kind.upper():
            below = tables(row.definition, database, "mysql") if row.definition else None
            if below is None:
                unknown = name
            for one in set(below or ()) - known:
                known.add(one)
                waiting.append(one)
    return None, unknown
