"""A poller's life with real ticks at a real target: rows that fail by chance are set aside and come back, rows move,
owners crash at any write and go on beside their successors. All of it follows from a seed.

Time is passed on by hand. A successor runs within the call of the owner that it outlives.
"""

from __future__ import annotations

import random
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, text

from poller import Batch, Poller, Reject
from poller.errors import StoreUnavailable
from poller.model.document import State, decode
from poller.model.row_ids import KEY_BYTES, id_of_hash
from poller.ports import Found, Timeout
from poller.runtime import SystemRuntime
from poller.sinks.sql import fenced
from poller.sources import SqlSource
from poller.stores import MemoryStore
from tests.support.quarantine import Cut, Killed

T = TypeVar("T")
SIZE = 16
"""Rows of the table; with lanes there are some more for each."""
HAPPENS = ["raises", "raises after", "dies before", "dies after", "names", "rejects", "outlived", "outlived after"]
"""What may happen to a call."""


@dataclass(frozen=True)
class Mode:
    """How batches are handled and committed.

    Attributes:
        lanes: batches at once. grouped: whether several share a commit, with one lane too.
    """

    lanes: int = 1
    grouped: bool = False

    @property
    def uncommitted(self) -> int:
        """So many batches may be handled and not committed."""
        return 2 * self.lanes if self.lanes > 1 else 4 if self.grouped else 1

    @property
    def quiet(self) -> float:
        """The share of calls to which nothing happens: a failure ends the others' lanes too."""
        return min(0.8, 0.3 + 0.1 * self.lanes)

    @property
    def options(self) -> dict[str, Any]:
        """Of the poller."""
        return {"concurrency": self.lanes} if self.lanes > 1 else {"max_uncommitted": 4} if self.grouped else {}


class Clock(SystemRuntime):
    """Time passes when the life says so, and where something sleeps."""

    def __init__(self) -> None:
        super().__init__()
        self.passed = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.passed

    def utcnow(self) -> datetime:
        return datetime(2026, 4, 7, tzinfo=UTC) + timedelta(seconds=self.passed)

    def sleep(self, seconds: float) -> None:
        self.passed += seconds


class Mortal(Cut):
    """The store as one process sees it: once it is dead, nothing of it arrives any more."""

    dead = False

    def append(self, name: str, line: str, *, timeout: Timeout | None = None) -> None:
        """Nobody waits for what a dead process would have added to its journal."""
        if not self.dead:
            super().append(name, line, timeout=timeout)

    def _do(self, what: str, work: Callable[[], T]) -> T:
        if self.dead:
            raise StoreUnavailable("its process is dead")
        try:
            return super()._do(what, work)
        except Killed:
            self.dead = True
            raise StoreUnavailable("its process was killed") from None


class Life:
    """One poller, tenure after tenure, with three processes' engines to one target.

    Attributes:
        seen: what happened, by name: a life must have had its share of each.
        grown: entries of the ledger that hold no key of a row that waits, at most.
        most: calls of one tenure that were at work at once.
    """

    def __init__(
        self, seed: int, folder: Path, engines: list[Engine], mode: Mode = Mode(), *, tenures: int = 12
    ) -> None:
        self.seed, self.chance, self.engines, self.tenures = seed, random.Random(seed), engines, tenures
        self.mode, self.size = mode, SIZE + 4 * (mode.lanes - 1)
        self.shop = folder / f"shop{seed}.db"
        self.lock = threading.RLock()
        self.most = 0
        self.at_work: Counter[int] = Counter()
        self.clock = Clock()
        self.memory = MemoryStore(self.clock)
        self.seen: Counter[str] = Counter()
        self.calm = False
        self.within = self.calls = self.grown = 0
        with closing(sqlite3.connect(self.shop)) as db, db:
            db.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, version INTEGER NOT NULL, place INTEGER NOT NULL)")
            db.execute("CREATE UNIQUE INDEX by_place ON orders (place)")
        for number in range(self.size):
            self.change(number)

    # --- the table

    def change(self, number: int) -> None:
        """A new row, or the next version of one; it stands at the end."""
        with self.lock, closing(sqlite3.connect(self.shop)) as db, db:
            (end,) = db.execute("SELECT coalesce(max(place), 0) + 1 FROM orders").fetchone()
            db.execute(
                "INSERT INTO orders VALUES (?, 1, ?) "
                "ON CONFLICT (id) DO UPDATE SET version = version + 1, place = excluded.place",
                (number, end),
            )

    def versions(self) -> dict[int, int]:
        """What the source holds."""
        with closing(sqlite3.connect(self.shop)) as db:
            return dict(db.execute("SELECT id, version FROM orders"))

    # --- tenures

    def live(self) -> None:
        """Disturbed tenures, and then some that nothing disturbs, until every row is done."""
        for _ in range(self.tenures):
            for _ in range(self.chance.randrange(6)):
                self.change(self.chance.randrange(self.size + 8))
            self.tenure()
            self.clock.passed += self.chance.choice([2, 8, 200])
        self.calm = True
        for _ in range(60):
            self.clock.passed += 200
            self.tenure()
            state = self.state
            if state.aside or self.at(state) < max(self.places()):
                continue
            if not state.quarantine:
                return
            for row in state.quarantine:  # whoever changes the row in the table has delivered it anew
                self.change(int((row.cursor.tiebreaker or {})["id"]))
        raise AssertionError(f"seed {self.seed}: it does not come to an end: {self.state}")

    def places(self) -> list[int]:
        with closing(sqlite3.connect(self.shop)) as db:
            return [place for (place,) in db.execute("SELECT place FROM orders")]

    @property
    def state(self) -> State:
        found = self.memory.read("state/shop/orders.json")
        assert isinstance(found, Found)
        return decode(found.body, location="orders")

    def at(self, state: State) -> int:
        """The last place before the checkpoint."""
        return 0 if state.checkpoint.cursor is None else int(state.checkpoint.cursor.value)

    def tenure(self) -> None:
        """One process's tick. Its end is not looked at: what counts is what the next ones find."""
        killed_at = self.chance.randrange(1, 30) if not self.calm and self.chance.random() < 0.5 else 0
        store = Mortal(self.memory, at=killed_at, after=self.chance.random() < 0.5)
        source = SqlSource(
            f"sqlite:///{self.shop}",
            table="orders",
            cursor_column="place",
            cursor_kind="integer+pk",
            pk_columns=["id"],
            bound="none",
        )
        poller = Poller(
            "orders",
            app_name="shop",
            source=source,
            store=store,
            runtime=self.clock,
            on_poison="quarantine",
            max_attempts=2,
            retry_backoff="1s",
            retry_backoff_max="4s",
            batch_size=self.chance.randrange(1, 7),
            max_batches_per_tick=self.chance.choice([0, 2 * self.mode.lanes]),
            **self.mode.options,
        )
        engine = self.chance.choice(self.engines)
        try:
            result = poller.tick(lambda batch: self.handle(batch, engine, store))
            self.seen[result.outcome] += 1
        except (Killed, StoreUnavailable):
            pass
        finally:
            self.seen["killed"] += store.dead
            poller.close()

    def handle(self, batch: Batch, engine: Engine, store: Mortal) -> None:
        """Apply the rows, unless something happens."""
        token = batch.fencing_token
        with self.lock:
            self.calls += 1
            self.at_work[token] += 1
            self.most = max(self.most, self.at_work[token])
            chance = random.Random(f"{self.seed}/{self.calls}")
            happens = "" if self.calm or chance.random() < self.mode.quiet else chance.choice(HAPPENS)
            self.seen["retried"] += batch.retry
            self.seen[happens] += 1
        try:
            self._handle(batch, engine, store, happens, chance)
        finally:
            with self.lock:
                self.at_work[token] -= 1

    def _handle(self, batch: Batch, engine: Engine, store: Mortal, happens: str, chance: random.Random) -> None:
        if happens == "outlived":
            self.outlive()
        with engine.begin() as connection, fenced(connection, batch) as fresh:
            done = []
            for row in fresh:
                if happens == "rejects":
                    raise Reject(row, "no")
                if happens == "names" and chance.random() < 0.4:
                    batch.fail(row, "not today")
                    self.seen["named"] += 1
                else:
                    done.append({"id": row["id"], "version": row["version"]})
            _apply(connection, done)
            if happens == "raises":
                raise ValueError("before the commit")
            if happens == "dies before":
                store.dead = True
                raise Killed
        self._measure(engine, batch)
        if chance.random() < 0.3 and not self.calm:
            self.change(chance.randrange(self.size + 8))
        if happens == "outlived after":
            self.outlive()
        if happens == "raises after":
            raise ValueError("after the commit")
        if happens == "dies after":
            store.dead = True
            raise Killed

    def outlive(self) -> None:
        """The lease is over, and a successor works, while this call goes on."""
        with self.lock:
            self.within += 1
            first = self.within == 1
        if first:
            self.clock.passed += 200
            self.tenure()
        with self.lock:
            self.within -= 1

    def _measure(self, engine: Engine, batch: Batch) -> None:
        with engine.connect() as connection:
            entries = [bytes(keys) for (keys,) in connection.execute(text("SELECT row_keys FROM poller_applied"))]
        others = [
            keys
            for keys in entries
            if batch.standing.held.isdisjoint(
                id_of_hash(keys[start : start + KEY_BYTES]) for start in range(0, len(keys), KEY_BYTES)
            )
        ]
        with self.lock:
            self.grown = max(self.grown, len(others))

    # --- what holds

    def laws(self, engine: Engine) -> list[str]:
        """What is broken at its end: nothing missing, nothing twice, nothing older."""
        source = self.versions()
        with engine.connect() as connection:
            arrived = Counter((one, version) for one, version in connection.execute(text("SELECT * FROM arrived")))
            latest = {one.id: one.version for one in connection.execute(text("SELECT id, version FROM latest"))}
        twice = [f"{one} arrived {times} times" for one, times in arrived.items() if times > 1]
        missing = [f"{one} is missing" for one in source.items() if one not in arrived]
        older = [f"{one} is {latest.get(one)}, not {last}" for one, last in source.items() if latest.get(one) != last]
        return [*twice, *missing, *older]


def _apply(connection: Connection, done: list[dict[str, Any]]) -> None:
    for row in done:
        connection.execute(text("INSERT INTO arrived (id, version) VALUES (:id, :version)"), row)
        if not connection.execute(text("UPDATE latest SET version = :version WHERE id = :id"), row).rowcount:
            connection.execute(text("INSERT INTO latest (id, version) VALUES (:id, :version)"), row)
