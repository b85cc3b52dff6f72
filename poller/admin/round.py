"""Looking at many pollers at once, for their health: several threads, few per database, none waited for without end."""

from __future__ import annotations

import queue
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime

from poller import forks
from poller.admin.facts import ended
from poller.admin.health import Health, worst_first
from poller.admin.look import Look, Looked
from poller.admin.memory import LookMemory
from poller.admin.quick import QuickLooks
from poller.admin.status import PollerStatus
from poller.admin.wired import WiredApp, WiredPoller, database_of
from poller.errors import PollerError, SourceUnavailable, StoreError
from poller.model.memory import PollerMemory, kept
from poller.model.view import PollerFacts, PollerLimits
from poller.observability.otel import recorded

LOOK_TIMEOUT = 10.0
"""Seconds that the check of one poller may take. One that takes longer is left alone, and its database is not asked
about the pollers that were not begun."""
THREADS, PER_DATABASE = 16, 2
"""The most checks at once, and how many at one database: so that one that hangs leaves room for the others."""


@dataclass(frozen=True, slots=True)
class _Running:
    """A check that is under way."""

    look: Look
    database: str
    until: float


class Looks:
    """The looks of one application. Safe to call from several threads.

    Args:
        timeout: the seconds that a check may take. monotonic: real time, which is what a database takes.
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

    def all(self, app: WiredApp[WiredPoller], names: Sequence[str]) -> dict[str, Looked[PollerStatus]]:
        """Check each. Raises nothing."""
        found: dict[str, Looked[PollerStatus]] = {}
        waiting: dict[str, deque[Look]] = defaultdict(deque)
        for name in names:
            try:
                poller = app.pollers[name]
            except PollerError as refused:
                found[name] = failed(app.app_name, name, refused, app.runtime.utcnow())
                continue
            look = Look(poller, quick=self._quick, beside=app.beside)
            if self._hangs(name):
                look.spare(self._late())
            waiting[database_of(poller)].append(look)
        with self._round():
            found |= self._run(waiting)
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

    def _run(self, waiting: Mapping[str, deque[Look]]) -> dict[str, Looked[PollerStatus]]:
        found: dict[str, Looked[PollerStatus]] = {}
        running: dict[str, _Running] = {}
        ended: queue.SimpleQueue[tuple[str, Looked[PollerStatus]]] = queue.SimpleQueue()
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
                    found[name] = one.look.unanswered(self._late())
                    for other in waiting[one.database]:
                        other.spare(self._late())
        return found

    def _start(
        self,
        waiting: Mapping[str, deque[Look]],
        running: dict[str, _Running],
        ended: queue.SimpleQueue[tuple[str, Looked[PollerStatus]]],
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

    def _spawn(self, look: Look, ended: queue.SimpleQueue[tuple[str, Looked[PollerStatus]]]) -> None:
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


class AppHealth:
    """The health of one application's pollers, as this process computes it. Safe to call from several threads.

    Args:
        looks: which makes them.
    """

    def __init__(self, app: WiredApp[WiredPoller], looks: Looks | None = None) -> None:
        self._app = app
        self._looks = looks or Looks()
        self._memory = LookMemory(app.store, app.app_name)
        self._reset_after_fork()
        forks.in_child(self._reset_after_fork)

    def _reset_after_fork(self) -> None:
        self._lock = threading.Lock()

    def compute(self, names: Sequence[str]) -> Health:
        """The health of these pollers now. Raises: ConfigError, for a store that cannot be made."""
        began = self._app.runtime.utcnow()
        try:
            with self._lock:
                before = self._memory.read()
        except StoreError as error:  # nothing can be said of any poller, and none of them works
            return self._of([failed(self._app.app_name, name, error, began).judged()[0] for name in names], began)
        found, seen, kept_of = list[PollerStatus](), dict[str, PollerMemory](), dict[str, PollerMemory]()
        for name, looked in self._looks.all(self._app, names).items():
            status, seen[name] = looked.judged(before.get(name))
            found.append(status)
            outlives = kept(seen[name], looked.facts)
            if outlives is not None:
                kept_of[name] = outlives
        with self._lock:
            self._memory.note(seen, kept_of, self._app.pollers)
        read = [one.seen_at for one in found if one.seen_at is not None]
        return self._of(found, max(read, default=began))

    def remembered(self) -> Mapping[str, PollerMemory]:
        """What looks remember of each poller; nothing if the store does not say. Raises: ConfigError."""
        with suppress(StoreError), self._lock:
            return self._memory.read()
        return {}

    def _of(self, pollers: Iterable[PollerStatus], at: datetime) -> Health:
        health = worst_first(self._app.app_name, at, pollers)
        for one in health.pollers:
            recorded().looked(one.name, one)
        return health


def failed(app_name: str, name: str, error: Exception, now: datetime) -> Looked[PollerStatus]:
    """A check that found nothing: a poller that cannot be made, or a store that cannot be read."""
    status = PollerStatus(name=name, app_name=app_name, document=f"state/{app_name}/{name}.json")
    facts = PollerFacts(name=name, now=now)
    return Looked(status, ended(facts, error), PollerLimits(), error)
