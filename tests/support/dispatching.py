"""Many pollers over one SQLite table, a dispatcher whose clock a test moves, and a queue that is a list."""

from __future__ import annotations

import base64
import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from poller import Batch, Poller
from poller.dispatch import Dispatcher, DispatchOutput, Pollers, WorkMessage
from poller.dispatch.probes import Answer, DatabaseProber, Prober
from poller.dispatch.queues import Queue
from poller.dispatch.work import Work
from poller.errors import StoreUnavailable
from poller.ports import Found, Listed, Missing, StateStore, Timeout, Unchanged, Written
from poller.runtime import SystemRuntime
from poller.sources import SqlSource
from poller.stores import MemoryStore

APP = "shop"
BEGINNING = datetime(2026, 4, 7, 12, 0, 0, 500_000, tzinfo=UTC)


class Clock(SystemRuntime):
    """A runtime whose time passes when a test says so. Threads and chance are real."""

    def __init__(self, now: datetime = BEGINNING) -> None:
        super().__init__()
        self.now = now
        self.passed = 0.0

    def monotonic(self) -> float:
        return self.passed

    def utcnow(self) -> datetime:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.passes(seconds)

    def passes(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        self.passed += seconds


class CountingStore(MemoryStore):
    """A store in memory that counts its requests by what they would be over HTTP."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.requests: Counter[str] = Counter()

    def read(
        self, name: str, *, unless: str | None = None, timeout: Timeout | None = None
    ) -> Found | Unchanged | Missing:
        self.requests["GET"] += 1
        return super().read(name, unless=unless, timeout=timeout)

    def write(self, name: str, body: bytes, *, if_tag: str | None, timeout: Timeout | None = None) -> Written:
        self.requests["PUT"] += 1
        return super().write(name, body, if_tag=if_tag, timeout=timeout)

    def listed(self, prefix: str, *, timeout: Timeout | None = None) -> Iterator[Listed]:
        self.requests["LIST"] += 1
        return super().listed(prefix, timeout=timeout)


class ListQueue:
    """A queue whose messages a test takes. `lost`: whether what is sent gets lost; `fails`: whether sending does."""

    def __init__(self) -> None:
        self.messages: list[WorkMessage] = []
        self.poison: list[str] = []
        self.lost = False
        self.fails = False

    def send(self, message: WorkMessage) -> None:
        if self.fails:
            raise StoreUnavailable("No usable answer came for the queue.", document="queue")
        if not self.lost:
            self.messages.append(message)

    def all_taken(self) -> bool:
        return not self.messages

    def take_poison(self) -> list[str]:
        taken, self.poison = self.poison, []
        return taken

    def close(self) -> None:
        pass

    def take(self) -> list[str]:
        """The pollers of all messages, which are gone then."""
        taken, self.messages = [one.poller for one in self.messages], []
        return taken


def work_message(poller: str, due: datetime, *, app: str = APP) -> str:
    """A work message as it is in the queue: a poller is due since then."""
    said = {"v": 1, "app": app, "poller": poller, "shard": 0, "due": due.isoformat().replace("+00:00", "Z")}
    return base64.b64encode(json.dumps(said).encode()).decode()


class Told:
    """A prober that says what a test wants; `asked`: whom it was asked about, in order."""

    def __init__(self, default: Answer = "none", **answers: Answer) -> None:
        self.default = default
        self.answers: dict[str, Answer] = dict(answers)
        self.asked: list[str] = []

    def ask(self, questions: Any) -> Mapping[str, Answer]:
        self.asked += [one.poller for one in questions]
        return {one.poller: self.answers.get(one.poller, self.default) for one in questions}

    def close(self) -> None:
        pass


class Shop:
    """Pollers `p0`, `p1`, ... of one table, each of the rows that are its own.

    Args:
        schedule: of all pollers; others: of single ones. options: of all pollers.
    """

    def __init__(
        self,
        folder: Path,
        pollers: int,
        *,
        schedule: str = "*/10 * * * * *",
        prober: Prober | None = None,
        store: StateStore | None = None,
        **options: Any,
    ) -> None:
        self.path = folder / "shop.db"
        self.url = f"sqlite:///{self.path}"
        self.clock = Clock()
        self.counted = CountingStore(self.clock)
        self.store: StateStore = store or self.counted
        self.queue = ListQueue()
        self.prober = prober
        self.names = [f"p{number}" for number in range(pollers)]
        self.options = {"schedule": schedule, "lease_ttl": "10s", "heartbeat_interval": "2s", **options}
        self.others: dict[str, dict[str, Any]] = {}
        self.wrong: dict[str, str] = {}
        self.seen: list[tuple[str, int]] = []
        self.written: set[tuple[str, int]] = set()
        self.made: dict[str, Poller] = {}
        self._rows = 0
        with closing(sqlite3.connect(self.path)) as database, database:
            database.execute(
                "create table orders (id integer primary key, poller text not null, updated_at text not null)"
            )
            database.execute("create index orders_place on orders (poller, updated_at, id)")

    def poller(self, name: str) -> Poller:
        """One of them, made once."""
        if name not in self.made:
            source = SqlSource(
                self.url,
                table="orders",
                cursor_column="updated_at",
                cursor_time_zone="UTC",
                pk_columns=["id"],
                filter=f"poller = '{name}'",
            )
            options = {**self.options, **self.others.get(name, {})}
            self.made[name] = Poller(
                name, source=source, store=self.store, app_name=APP, runtime=self.clock, observers=(), **options
            )
            self.made[name]._handler = self._take
        return self.made[name]

    def _take(self, batch: Batch) -> None:
        self.seen += [(batch.poller_name, row["id"]) for row in batch]

    def rows(self, *pollers: str, at: str = "2026-04-01 12:00:00") -> None:
        """One more row for each."""
        with closing(sqlite3.connect(self.path)) as database, database:
            for name in pollers:
                self._rows += 1
                self.written.add((name, self._rows))
                database.execute("insert into orders values (?, ?, ?)", (self._rows, name, at))

    def dispatcher(self, queue: Queue | None = None) -> Dispatcher:
        """One more dispatcher, as another process would have."""
        pollers = Pollers(
            APP,
            {name: self.poller(name).options for name in self.names if name not in self.wrong},
            self.poller,
            self.wrong,
        )
        prober = self.prober if self.prober is not None else DatabaseProber(self.clock)
        return Dispatcher(pollers, store=self.store, queue=queue or self.queue, prober=prober, runtime=self.clock)

    def started(self) -> Dispatcher:
        """A dispatcher that has looked once, when every poller had its document and nothing to do."""
        for name in self.names:
            if name not in self.wrong:
                self.poller(name).tick()
        dispatcher = self.dispatcher()
        dispatcher.round()
        self.queue.take()
        self.counted.requests.clear()
        return dispatcher

    def round(self, dispatcher: Dispatcher, *, after: float = 10.0) -> DispatchOutput:
        """A round, some seconds after the one before."""
        self.clock.passes(after)
        return dispatcher.round()

    def work(self) -> Work:
        """One more worker."""
        return Work(
            APP,
            lambda name: self.poller(name) if name in self.names else None,
            {},
            queue=self.queue,
            runtime=self.clock,
        )

    def close(self) -> None:
        for poller in self.made.values():
            poller.close()
