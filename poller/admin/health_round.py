"""Looking at the health of many pollers at once: several threads, few per database, none waited for without end."""

from __future__ import annotations

import queue
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from poller import forks
from poller.admin.health_look import Look, Looked, failed
from poller.admin.health_quick import QuickLooks
from poller.admin.wired import WiredPoller, database_of
from poller.errors import PollerError, SourceUnavailable
from poller.ports import Runtime, StateStore

LOOK_TIMEOUT = 10.0
"""Seconds that a look at one poller may take. One that takes longer is left alone, and its database is not asked about
the pollers that were not begun."""
THREADS, PER_DATABASE = 16, 2
"""How many looks there are at once, and how many at one database: so that one that hangs leaves room for the others."""


class WiredApp(Protocol):
    """An application, as a round of looks sees it; `poller.app.App` is one."""

    @property
    def app_name(self) -> str: ...
    @property
    def runtime(self) -> Runtime: ...
    @property
    def store(self) -> StateStore: ...
    @property
    def pollers(self) -> Mapping[str, WiredPoller]: ...


@dataclass(frozen=True, slots=True)
class _Running:
    """A look that is on its way."""

    look: Look
    database: str
    until: float


class Looks:
    """The looks of one application. Safe to call from several threads.

    Args:
        timeout: how many seconds a look may take. monotonic: real time, which is what a database takes.
    """

    def __init__(self, *, timeout: float = LOOK_TIMEOUT, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._timeout = timeout
        self._monotonic = monotonic
        self._quick = QuickLooks(monotonic)
        self._reset_after_fork()
        forks.in_child(self._reset_after_fork)

    def _reset_after_fork(self) -> None:
        """In a child process, which has none of the threads."""
        self._lock = threading.Lock()
        self._rounds = 0
        self._hanging: dict[str, Look] = {}
        """Looks that were left alone and have not ended, by poller: its database is not asked beside them."""

    def all(self, app: WiredApp, names: Sequence[str], now: Callable[[], datetime]) -> dict[str, Looked]:
        """A look at each. `now`: the store's clock, for those whose document is not read. Raises nothing."""
        found: dict[str, Looked] = {}
        waiting: dict[str, deque[Look]] = defaultdict(deque)
        for name in names:
            try:
                poller = app.pollers[name]
            except PollerError as refused:
                found[name] = failed(name, refused, now())
                continue
            look = Look(poller, self._quick)
            if self._hangs(name):
                look.spare(self._late())
            waiting[database_of(poller)].append(look)
        with self._round():
            found |= self._run(waiting, now)
        return {name: found[name] for name in names}

    @contextmanager
    def _round(self) -> Iterator[None]:
        """Connections that are shared are closed with the last round."""
        with self._lock:
            self._rounds += 1
        try:
            yield
        finally:
            with self._lock:
                self._rounds -= 1
                last = not self._rounds
            if last:
                self._quick.close()

    def _run(self, waiting: Mapping[str, deque[Look]], now: Callable[[], datetime]) -> dict[str, Looked]:
        found: dict[str, Looked] = {}
        running: dict[str, _Running] = {}
        ended: queue.SimpleQueue[tuple[str, Looked]] = queue.SimpleQueue()
        while running or any(waiting.values()):
            self._start(waiting, running, ended)
            left = min(one.until for one in running.values()) - self._monotonic()
            try:
                name, looked = ended.get(timeout=max(0.0, left))
            except queue.Empty:
                pass
            else:
                if name in running:
                    found[name] = looked
                    del running[name]
            for name, one in [*running.items()]:
                if one.until <= self._monotonic():
                    del running[name]
                    self._leave(one.look)
                    found[name] = one.look.unanswered(self._late(), now())
                    for other in waiting[one.database]:
                        other.spare(self._late())
        return found

    def _start(
        self,
        waiting: Mapping[str, deque[Look]],
        running: dict[str, _Running],
        ended: queue.SimpleQueue[tuple[str, Looked]],
    ) -> None:
        """As many as there is room for, one database after the other."""
        for _ in range(PER_DATABASE):
            for database, looks in waiting.items():
                busy = sum(1 for one in running.values() if one.database == database)
                if not looks or len(running) >= THREADS or busy >= PER_DATABASE:
                    continue
                look = looks.popleft()
                running[look.name] = _Running(look, database, self._monotonic() + self._timeout)
                self._spawn(look, ended)

    def _spawn(self, look: Look, ended: queue.SimpleQueue[tuple[str, Looked]]) -> None:
        def work() -> None:
            try:
                ended.put((look.name, look()))
            finally:
                with self._lock:
                    look.ended = True
                    if self._hanging.get(look.name) is look:
                        del self._hanging[look.name]

        threading.Thread(target=work, name=f"poller-health-{look.name}", daemon=True).start()

    def _leave(self, look: Look) -> None:
        with self._lock:
            if not look.ended:
                self._hanging[look.name] = look

    def _hangs(self, name: str) -> bool:
        with self._lock:
            return name in self._hanging

    def _late(self) -> SourceUnavailable:
        return SourceUnavailable(f"The database did not answer within {self._timeout:g} s.")
