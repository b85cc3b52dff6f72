"""MariaDB and MySQL: what each session has open, tracked from look to look (sources.md, "MySQL, MariaDB").

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

from poller.databases.samplers import Sample
from poller.sources.bound import SHOWS_HOLDER_AFTER
from poller.sources.columns.moments import remembered
from poller.sources.mysql.look import WAIT, Sighting, TrackerTurns, Turn, look, still_quiet, utc
from poller.sources.sampler import Followed

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
