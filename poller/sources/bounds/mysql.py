"""MariaDB's and MySQL's bound: sessions tracked from sample to sample (sources.md, "MySQL, MariaDB").

No fixed margin over `trx_started` would do: it can be seconds later than NOW() (behind a metadata lock),
and innodb_trx is a cache. So a running statement counts from its own start, and a transaction from the last sample
at which its session did not have it. Each look proves that innodb_trx is fresh by finding its own row in it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from poller.errors import SourceError
from poller.sources.bounds.base import BoundContext, BoundTaker
from poller.sources.bounds.mysql_engines import engines
from poller.sources.bounds.mysql_look import Look, lacking, look, sessions_statement, still_quiet
from poller.sources.bounds.sampled import REMEMBERED, SHOWS_HOLDER_AFTER, ByCounter, ByTime, Sample, some

APART = 0.11
"""innodb_trx does not refresh while anybody reads it more often than every 0.1 s."""
AGAIN = 4
"""How many more looks a sample takes where innodb_trx was stale: pollers of one server spoil it for each other."""
REAL_TRX = 1 << 47
"""Transaction ids from here on, and 0, are of transactions that have not written."""


Trx: TypeAlias = tuple[int, str]
"""A transaction's id and start, as innodb_trx shows them."""


@dataclass(frozen=True, slots=True)
class _Open:
    """What one session had open at a sample.

    Attributes:
        since: since when at the earliest; None: since before we looked.
        running: when the statement began that it ran then.
        transactions: its transactions' ids and starts; none where only a statement ran. MySQL may show two: it reads
            its data dictionary in one beside the user's.
    """

    since: datetime | None
    running: datetime | None
    transactions: tuple[Trx, ...]
    user: str

    def same(self, trx: Trx) -> bool:
        """Whether a transaction seen now may be one seen then. It gets its id at its first write, and a statement seen
        running may have begun it; only a difference proves another."""
        if not self.transactions:
            return True
        return any(then[0] == trx[0] if 0 < then[0] < REAL_TRX else then[1] == trx[1] for then in self.transactions)


class Tracked:
    """The least of what all sessions have open. Needs PROCESS; without it, other users' threads are not seen."""

    kind = "observed"

    def __init__(self, context: BoundContext, server: str, sessions: sa.TextClause, first: Look) -> None:
        self._context = context
        self._server = server
        self._sessions = sessions
        self._may_repeat = context.kind == "timestamp+pk"  # a counter was read right before: it needs a later sample
        self._previous: datetime | None = None
        self._open: dict[int, _Open] = {}
        self._first: datetime | None = None
        """When this process first saw a session of which it does not know since when it has something open."""
        self._sampled = time.monotonic()
        self._looked = first
        self._last = self._judge(first)

    def take(self, connection: Connection) -> Sample:
        """One sample; the last one, where it is too young for another. While all sessions rest, none is too young."""
        quiet = self._quiet(connection)
        if quiet is not None:
            return quiet
        young = self._sampled + APART - time.monotonic()
        if young > 0:
            if self._may_repeat and self._last.oldest is not None:
                return self._last
            time.sleep(young)
        seen = look(connection, self._sessions)
        for _ in range(AGAIN):
            if seen.fresh or seen.xa or seen.replica:
                break
            time.sleep(APART * random.uniform(1, 2))  # noqa: S311 - so that two of us do not go on in step
            seen = look(connection, self._sessions)
        self._sampled = time.monotonic()
        self._looked = seen
        self._last = self._judge(seen)
        return self._last

    def _quiet(self, connection: Connection) -> Sample | None:
        """A sample without innodb_trx, where nothing has happened since the last look at it (MariaDB)."""
        if not self._context.mariadb or self._last.oldest is None or self._previous is None:
            return None
        clock = still_quiet(connection, self._looked)
        if clock is None or clock < self._previous:
            return None
        self._previous = clock
        self._last = self._known(clock)
        return self._last

    def _judge(self, seen: Look) -> Sample:
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
                "somebody who reads information_schema.innodb_trx more often than every 0.1 s",
                "it is a cache that does not refresh meanwhile, so open transactions cannot be seen",
            )
        if self._previous is not None and seen.clock < self._previous:
            self._previous, self._open = None, {}  # the clock went back: what was known of before says nothing now
        self._open = self._follow(seen)
        self._previous = seen.clock
        return self._known(seen.clock)

    def _known(self, clock: datetime) -> Sample:
        """The sample of this moment, from what is known to be open."""
        known = [o.since for o in self._open.values() if o.since is not None]
        if len(known) < len(self._open):
            return self._cold(clock)
        self._first = None
        oldest = min([clock, *known])
        holder = None
        if (clock - oldest).total_seconds() > SHOWS_HOLDER_AFTER:
            session = min(self._open, key=lambda number: self._open[number].since or clock)
            holder = f"connection {session} of {self._open[session].user}, open since {oldest:%Y-%m-%d %H:%M:%S}"
        return Sample(clock, clock, oldest, holder)

    def _cold(self, clock: datetime) -> Sample:
        """Some were open before the first sample. One that stays open for long is named: nothing is read until it
        ends."""
        first = self._first or clock
        self._first = first
        who = "transactions that were open at the first sample"
        if (clock - first).total_seconds() > SHOWS_HOLDER_AFTER:
            told = [f"connection {number} of {o.user}" for number, o in sorted(self._open.items()) if o.since is None]
            who = f"{some(told)}, open since before {first:%Y-%m-%d %H:%M:%S}"
        return Sample(clock, clock, None, who, "nothing is known yet of when they began", cold=True)

    def _follow(self, seen: Look) -> dict[int, _Open]:
        """What each session has open now, from what it had before and what is seen."""
        ignored = {number for number, user in seen.users.items() if user in self._context.ignore_users}
        running = {
            number: self._running(self._open.get(number), began)
            for number, began in seen.running.items()
            if number not in ignored
        }
        now = {number: _Open(began, began, (), seen.users[number]) for number, began in running.items()}
        transactions: dict[int, list[Trx]] = {}
        for row in seen.transactions:
            if row.session not in ignored:
                transactions.setdefault(row.session, []).append((int(row.trx_id), str(row.trx_started)))
        for number, found in transactions.items():
            since = [self._since(self._open.get(number), trx) for trx in found]
            began = running.get(number)
            known = [moment for moment in (*since, began) if moment is not None]
            now[number] = _Open(
                None if None in since else min(known), began, tuple(found), seen.users.get(number, "nobody")
            )
        return now

    def _running(self, before: _Open | None, began: datetime) -> datetime:
        """When a statement that runs began. MySQL may tell it a second or two too early; but one that runs in a session
        that was at rest at the last sample began after it, and any other after the one that ran there then."""
        if self._context.mariadb or self._previous is None:
            return began
        if before is None or before.running is None:
            return max(began, self._previous)
        return max(began, before.running)

    def _since(self, before: _Open | None, trx: Trx) -> datetime | None:
        """Since when a transaction may be open: as its session was, or else since the sample that did not see it; a
        statement that ran then may have begun this one too."""
        if before is not None and before.same(trx):
            return before.since
        if before is None or before.running is None or self._previous is None:
            return self._previous
        return min(self._previous, before.running)

    def remember(self) -> dict[str, Any] | None:
        """The samples as JSON; None before the first."""
        if self._previous is None or len(self._open) > REMEMBERED:
            return None
        return {
            "server": self._server,
            "sampled_at": self._previous.isoformat(),
            "open": {
                str(number): [_iso(o.since), _iso(o.running), [list(trx) for trx in o.transactions], o.user]
                for number, o in self._open.items()
            },
        }

    def recall(self, memory: Mapping[str, Any]) -> None:
        """Go on from another process's samples of the same server, where they are newer."""
        if not memory.get("sampled_at") or memory.get("server") != self._server:
            return
        sampled = datetime.fromisoformat(memory["sampled_at"])
        if self._previous is None or sampled > self._previous or any(o.since is None for o in self._open.values()):
            self._open = {
                int(number): _Open(
                    _moment(since), _moment(running), tuple((int(trx), str(began)) for trx, began in found), user
                )
                for number, (since, running, found, user) in memory["open"].items()
            }
            self._previous = sampled  # last: what cannot be read is not half taken in


_COUNTER = sa.text(
    "select auto_increment from information_schema.tables"
    " where table_schema = coalesce(:schema, database()) and table_name = :table"
)
_AUTO_COLUMN = sa.text(
    "select column_name from information_schema.columns where table_schema = coalesce(:schema, database())"
    " and table_name = :table and extra like '%auto_increment%'"
)
_SERVER = "select concat_ws('/', @@hostname, @@port, @@server_id)"


def choose(wanted: str, context: BoundContext, connection: Connection) -> BoundTaker | str:  # noqa: ARG001
    """The taker for this server, or the reason (a `str`) why only the heuristic is left. There is one way to know the
    bound here, so `exact`, `observed` and `auto` all mean it; it calls itself observed.

    Raises: SourceError on a server that is read-only, as replicas are.
    """
    names = {"schema": context.schema, "table": context.table}
    if connection.exec_driver_sql("select @@global.read_only").scalar_one() not in (0, "OFF", "0"):
        raise SourceError(
            "The database is read-only, as a replica is: transactions open on its primary cannot be seen here.",
            table=context.table or "",
            next_step='Connect to the primary, or accept the risk with bound = "heuristic".',
        )
    if _variable(connection, "wsrep_on") in ("ON", "1") or _variable(connection, "group_replication_group_name"):
        return "in a cluster other nodes' transactions cannot be seen here"
    server = str(connection.exec_driver_sql(_SERVER).scalar_one())
    try:
        sessions = sessions_statement(connection, mariadb=context.mariadb)
        seen = look(connection, sessions)
    except DBAPIError as error:
        privilege = lacking(error)
        if privilege is None:
            raise
        needed = "PROCESS" if context.mariadb else "PROCESS, XA_RECOVER_ADMIN"
        return f"the user lacks {privilege}; GRANT {needed} ON *.* makes the bound observed"
    if seen.replica:
        return "a replica thread writes here with its primary's timestamps"
    kept = engines(connection, context.schema, context.table, context.query)
    if kept.other is not None:
        return f"{kept.other}, whose transactions cannot be seen"
    sampler = Tracked(context, server, sessions, seen)
    if context.kind == "timestamp+pk":
        unseen = "" if kept.untold is None else f"; the engines behind {kept.untold} cannot be told, InnoDB is assumed"
        return ByTime(context, sampler, f"sessions tracked from sample to sample{unseen}")
    if context.table is None or connection.execute(_AUTO_COLUMN, names).scalar_one_or_none() != context.column.name:
        return f"the column {context.column.name} is not AUTO_INCREMENT"
    if not context.mariadb:
        connection.exec_driver_sql("set session information_schema_stats_expiry = 0")  # else it is a day old
    return ByCounter(
        sampler,
        lambda c: int(c.execute(_COUNTER, names).scalar_one() or 0),
        "the table's AUTO_INCREMENT counter; sessions tracked from sample to sample",
        delay=context.extra_delay,
    )


def _variable(connection: Connection, name: str) -> str | None:
    row = connection.execute(sa.text("show global variables where variable_name = :name"), {"name": name}).one_or_none()
    return None if row is None else str(row[1])


def _hold(seen: Look, who: str, why: str) -> Sample:
    return Sample(seen.clock, seen.clock, None, who, why)


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
