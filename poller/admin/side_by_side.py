"""Looking at many pollers side by side, so that none waits for the database of another.

At one database there are as many looks at once as it gives connections, and at most half of all.

A slow check does not take the place of one at another database. Where two at one database, one after the
other, took long and found it unavailable, it is asked for a sign of life; without one it is not asked about the rest:
so a database that hangs does not hold the command for as long as all its pollers' queries may take, and slow tables
hide no other.
"""

from __future__ import annotations

import contextvars
import queue
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from poller.errors import SourceUnavailable

_T = TypeVar("_T")

AT_ONCE = 16
"""The most checks at once."""
PATIENCE = 5.0
"""Seconds after which a check counts as slow."""
SILENCES = 2
"""After so many looks in a row that took long and found their database unavailable, it must give a sign of life."""


@dataclass(frozen=True, slots=True)
class Inquiry(Generic[_T]):
    """What is to be found out about one poller.

    Attributes:
        database: which it reads. ask: the look; given why, the same without asking the database.
        unavailable: whether the database may have been, by what was found. lives: whether it answers something that
            costs little.
    """

    database: Hashable
    ask: Callable[[SourceUnavailable | None], _T]
    unavailable: Callable[[_T], bool]
    lives: Callable[[], bool]


@dataclass(slots=True)
class _Ended(Generic[_T]):
    number: int
    seconds: float = 0.0
    spared: bool = False
    found: _T | None = None
    failure: BaseException | None = None


def side_by_side(
    looks: Sequence[Inquiry[_T]],
    *,
    connections: int,
    patience: float = PATIENCE,
    monotonic: Callable[[], float] = time.monotonic,
) -> list[_T]:
    """What each look finds, in their order. They run on threads of their own, in copies of this thread's context.

    Args:
        connections: how many one database gives: so many looks at it are taken at once, and at most half of all.
        patience: as `PATIENCE`. monotonic: real time.
    Raises: what the first look raises that raises something, once all have ended.
    """
    return _Round(looks, max(1, min(connections, AT_ONCE // 2)), patience, monotonic).run()


class _Round(Generic[_T]):
    def __init__(
        self, looks: Sequence[Inquiry[_T]], per_database: int, patience: float, monotonic: Callable[[], float]
    ) -> None:
        self._looks = looks
        self._per_database = per_database
        self._patience = patience
        self._monotonic = monotonic
        self._waiting: dict[Hashable, deque[int]] = defaultdict(deque)
        for number, look in enumerate(looks):
            self._waiting[look.database].append(number)
        self._begun: dict[int, float] = {}
        """When each look began that runs."""
        self._silences: dict[Hashable, int] = defaultdict(int)
        self._dead: set[Hashable] = set()
        self._ended: queue.SimpleQueue[_Ended[_T]] = queue.SimpleQueue()

    def run(self) -> list[_T]:
        done: dict[int, _Ended[_T]] = {}
        while len(done) < len(self._looks):
            self._start()
            try:
                one = self._ended.get(timeout=self._next_place())
            except queue.Empty:
                continue
            done[one.number] = one
            del self._begun[one.number]
            self._note(one)
        results: list[_T] = []
        for number in range(len(self._looks)):
            one = done[number]
            if one.failure is not None:
                raise one.failure
            results.append(one.found)  # type: ignore[arg-type]  # it has one of the two
        return results

    def _start(self) -> None:
        """As many as there is room for, one database after the other."""
        now = self._monotonic()
        for _ in range(self._per_database):
            for database, numbers in self._waiting.items():
                prompt = sum(1 for began in self._begun.values() if now - began < self._patience)
                busy = sum(1 for number in self._begun if self._looks[number].database == database)
                if not numbers or prompt >= AT_ONCE or busy >= self._per_database:
                    continue
                number = numbers.popleft()
                self._begun[number] = now
                work = self._spare if database in self._dead else self._ask
                if self._silences[database] >= SILENCES:
                    work = self._ask_if_it_lives
                context = contextvars.copy_context()
                threading.Thread(target=context.run, args=(self._work, work, number), daemon=True).start()

    def _next_place(self) -> float | None:
        """Seconds until a check that runs counts as slow; None if there is none."""
        now = self._monotonic()
        left = [began + self._patience - now for began in self._begun.values() if now - began < self._patience]
        return max(0.0, min(left)) if left else None

    def _work(self, work: Callable[[_Ended[_T]], None], number: int) -> None:
        ended, began = _Ended[_T](number), self._monotonic()
        try:
            work(ended)
        except BaseException as failure:  # noqa: BLE001 - raised where the round was begun
            ended.failure = failure
        ended.seconds = self._monotonic() - began
        self._ended.put(ended)

    def _ask(self, ended: _Ended[_T]) -> None:
        ended.found = self._looks[ended.number].ask(None)

    def _spare(self, ended: _Ended[_T]) -> None:
        ended.spared = True
        silent = SourceUnavailable("The database was not asked: it gives no answer.", next_step=_NEXT_STEP)
        ended.found = self._looks[ended.number].ask(silent)

    def _ask_if_it_lives(self, ended: _Ended[_T]) -> None:
        (self._ask if self._looks[ended.number].lives() else self._spare)(ended)

    def _note(self, one: _Ended[_T]) -> None:
        look = self._looks[one.number]
        if one.spared:
            self._dead.add(look.database)
        long = one.failure is None and one.seconds >= self._patience
        if not one.spared and long and look.unavailable(one.found):  # type: ignore[arg-type]  # as above
            self._silences[look.database] += 1
        else:
            self._silences[look.database] = 0


_NEXT_STEP = "See what was said of other pollers that read it."
