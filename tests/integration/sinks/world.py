"""A poller in small, at a real target: rows that move, tenures that crash or become stale, lanes, batches that are cut
otherwise each time, rows that wait and are tried again. What it does follows from a seed; who comes first at the
database does not.

The document is the one truth: a checkpoint moves only under the present token. A tenure does not know that it is over.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from poller import Batch, Standing
from tests.integration.sinks.target import batch_of, id_of, rows, run

Handler = Callable[[Batch], None]
LONGEST_STOP = 0.1
"""Seconds for which a process that stops waits for its successor to begin; there may be none."""


@dataclass
class Document:
    """The state document: `passed` counts as `checkpoint.position`."""

    token: int = 0
    cursor: int = 0
    passed: int = 0
    aside: dict[int, int] = field(default_factory=dict)
    """Rows that wait: version by id."""


class Table:
    """The source: each change gives a row the next version and the next place."""

    def __init__(self, size: int) -> None:
        self.lock = threading.Lock()
        self.end = 0
        self.rows: dict[int, tuple[int, int]] = {}
        for number in range(size):
            self.change(number)

    def change(self, number: int) -> None:
        with self.lock:
            self.end += 1
            self.rows[number] = (self.end, self.rows.get(number, (0, 0))[1] + 1)

    def after(self, cursor: int, limit: int) -> list[tuple[int, int, int]]:
        """(place, id, version) in order."""
        with self.lock:
            return sorted((place, one, version) for one, (place, version) in self.rows.items() if place > cursor)[
                :limit
            ]

    def versions(self) -> dict[int, int]:
        with self.lock:
            return {one: version for one, (_, version) in self.rows.items()}


class World:
    """One poller over its life. `laws` says what was broken at its end."""

    def __init__(self, seed: int, processes: Sequence[Handler], concurrency: int, *, tenures: int = 8) -> None:
        self.seed, self.chance = seed, random.Random(seed)
        self.processes, self.concurrency, self.tenures = processes, concurrency, tenures
        self.lock = threading.Lock()
        self.table, self.document = Table(20), Document()
        self.max_uncommitted = self.chance.choice([1, 4]) if concurrency == 1 else 4 * concurrency
        self.acquired = {token: threading.Event() for token in range(1, 400)}
        self.failed: Counter[str] = Counter()
        self.crashes = 0

    def live(self) -> None:
        """Tenure after tenure; in the end some that nothing disturbs."""
        stale: list[threading.Thread] = []
        for _ in range(self.tenures):
            for _ in range(self.chance.randrange(8)):
                self.table.change(self.chance.randrange(24))
            tenure = Tenure(self, self.chance.randrange(1 << 30))
            if self.chance.random() < 0.4:  # it goes on beside its successors
                stale.append(threading.Thread(target=tenure.run, daemon=True))
                stale[-1].start()
                self.acquired[tenure.token].wait(20)
            else:
                tenure.run()
        for thread in stale:
            thread.join(60)
            assert not thread.is_alive(), "a tenure hangs"
        for _ in range(40):
            Tenure(self, None).run()
            if not self.table.after(self.document.cursor, 1) and not self.document.aside:
                return
        raise AssertionError(f"it does not come to an end: {self.failed}")

    def stop(self, token: int, chance: random.Random) -> None:
        """Now and then a process stops here until its successor has begun."""
        if chance.random() < 0.1:
            self.acquired[token + 1].wait(LONGEST_STOP)

    def laws(self, arrived: Counter[tuple[int, int]], latest: dict[int, int]) -> list[str]:
        """Nothing missing, nothing twice, nothing older."""
        source = self.table.versions()
        twice = [f"{one} arrived {times} times" for one, times in arrived.items() if times > 1]
        missing = [f"{one} is missing" for one in source.items() if one not in arrived]
        older = [
            f"{one} is {latest.get(one)}, not {version}"
            for one, version in source.items()
            if latest.get(one) != version
        ]
        return [*twice, *missing, *older]


class Tenure:
    """One owner, from its acquire on. `seed` None: nothing happens to it."""

    def __init__(self, world: World, seed: int | None) -> None:
        self.world, self.disturbed = world, seed is not None
        self.chance = random.Random(seed)
        with world.lock:
            document = world.document
            document.token += 1
            self.token = document.token
            if (
                self.disturbed and self.chance.random() < 0.3
            ):  # the row that its predecessor was killed with is set aside
                for place, one, version in world.table.after(document.cursor, 1):
                    document.aside[one] = version
                    document.cursor, document.passed = place, document.passed + 1
            self.start, self.cursor, self.held = document.passed, document.cursor, {**document.aside}
        self.settled = self.start
        self.lock = threading.Lock()
        self.order: list[tuple[int, int, int]] = []
        self.done: set[int] = set()
        self.waiting = 0
        self.over = threading.Event()
        self.calls = 0
        self.crash_at = self.chance.randrange(1, 10) if self.disturbed and self.chance.random() < 0.7 else 0
        self.handler = self.chance.choice(world.processes)

    def run(self) -> None:
        self.world.acquired[self.token].set()
        lanes = self.world.concurrency
        with ThreadPoolExecutor(lanes) as pool:
            for number, version in [*self.held.items()]:
                if not self.disturbed or self.chance.random() < 0.5:
                    self.retry(number, version)
            while not self.over.is_set():
                page = self.world.table.after(
                    self.order[-1][0] if self.order else self.cursor, self.chance.randrange(1, 12)
                )
                if not page:
                    break
                before = len(self.order)
                self.order.extend(page)
                list(pool.map(self.lane, range(lanes), [page] * lanes, [before] * lanes))
                if self.disturbed and self.chance.random() < 0.5:
                    self.world.table.change(self.chance.randrange(24))
        if not self.over.is_set():
            self.commit()

    def lane(self, lane: int, page: list[tuple[int, int, int]], before: int) -> None:
        """The lane's share of a page, in batches of its own."""
        lanes = self.world.concurrency
        mine = [
            (before + index + 1, one, version) for index, (_, one, version) in enumerate(page) if one % lanes == lane
        ]
        chance = random.Random(f"{self.token}/{lane}/{before}/{self.crash_at}")
        while mine and not self.over.is_set():
            size = chance.randrange(1, 5)
            cut, mine = mine[:size], mine[size:]
            self.batch(cut, lane, chance)

    def batch(self, cut: list[tuple[int, int, int]], lane: int, chance: random.Random) -> None:
        if self.disturbed:
            self.world.stop(self.token, chance)
        for _, one, _ in cut:
            if one in self.held:  # a newer version drops the one that waits, before it is handed over
                if not self.write(lambda document, one=one: document.aside.pop(one, None)):  # type: ignore[misc]
                    return
                self.held.pop(one)
        if not self.handle([(one, version) for _, one, version in cut], self.start + cut[-1][0], lane, untried=True):
            return
        with self.lock:
            self.done.update(position for position, *_ in cut)
            self.waiting += 1
            due = chance.random() < 0.6 or self.waiting >= self.world.max_uncommitted
        if due:
            self.commit()

    def retry(self, number: int, version: int) -> None:
        """A row that waits, by itself; also a person's replay of one."""
        if self.handle([(number, version)], self.settled, 0, untried=False):
            self.write(lambda document: document.aside.pop(number, None))

    def handle(self, which: list[tuple[int, int]], through: int, lane: int, *, untried: bool) -> bool:
        """Whether the batch is done. A crash right after the sink's commit is the worst."""
        with self.lock:
            held = frozenset(id_of(batch_of([one], version=version), 0) for one, version in self.held.items())
        standing = Standing(
            app_name="shop",
            settled=self.settled,
            through=through,
            held=held,
            lane=lane,
            lanes=self.world.concurrency,
            untried=untried,
        )
        made = [rows(one, version=version)[0] for one, version in which]
        batch = Batch.of_rows(made, poller_name="orders", fencing_token=self.token, standing=standing)
        try:
            run(batch, self.handler)
        except Exception as error:  # noqa: BLE001 - fenced, or a lock: the tenure ends, and the rows come again
            self.world.failed[type(getattr(error, "orig", error)).__name__] += 1
            self.over.set()
            return False
        with self.lock:
            self.calls += 1
            if self.calls == self.crash_at:
                self.world.crashes += 1
                self.over.set()
        return not self.over.is_set()

    def commit(self) -> None:
        """The checkpoint is the last row before which everything is done."""
        with self.lock:
            reached = 0
            while reached < len(self.order) and reached + 1 in self.done:
                reached += 1
            if not reached:
                return
            place, passed = self.order[reached - 1][0], self.start + reached

            def move(document: Document) -> None:
                document.cursor, document.passed = place, passed

            if self.write(move):
                self.settled, self.waiting = passed, 0

    def write(self, change: Callable[[Document], object]) -> bool:
        """A compare-and-swap; refused to a stale owner."""
        with self.world.lock:
            if self.world.document.token != self.token:
                self.over.set()
                return False
            change(self.world.document)
            return True
