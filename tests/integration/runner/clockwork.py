"""A runtime whose time is moved by hand: threads take turns, and time passes only while all of them wait.

So a test that spans ten leases takes no time, and runs the same way every time: a thread keeps its turn until it waits
for something; then the one that has waited longest for what is now there goes on; when nobody can, time jumps to the
next moment that somebody waits for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from poller.ports import Event, Lock, Task

MIDNIGHT = datetime(2026, 5, 1, tzinfo=UTC)


class Ended(BaseException):
    """Raised in a thread that still waits when the test is over."""


class Stuck(AssertionError):
    """Everybody waits for something that nobody will bring about."""


@dataclass(eq=False)
class _Waiter:
    ready: Callable[[], bool]
    until: float | None
    gate: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))


class Clockwork:
    """A `poller.ports.Runtime` for tests. `wall_error`: how far this machine's wall clock is off, in seconds."""

    def __init__(self, start: datetime = MIDNIGHT) -> None:
        self.errors: list[BaseException] = []
        self.wall_error = 0.0
        self._start = start
        self._now = 0.0
        self._ids = 0
        self._waiters: list[_Waiter] = []
        self._threads: list[threading.Thread] = []
        self._over = False
        self._stuck = False

    # --- what a runtime is

    def monotonic(self) -> float:
        return self._now

    def utcnow(self) -> datetime:
        return self._start + timedelta(seconds=self._now + self.wall_error)

    def sleep(self, seconds: float) -> None:
        self.wait(lambda: False, max(0.0, seconds))

    def event(self) -> Event:
        return _Event(self)

    def lock(self) -> Lock:
        return _Lock(self)

    def spawn(self, target: Callable[[], None], name: str) -> Task:
        return self.start(target, name)

    def jitter(self, low: float, high: float) -> float:
        return (low + high) / 2

    def new_id(self) -> str:
        self._ids += 1
        return f"{self._ids:08x}" + "0" * 24

    # --- what tests use

    def start(self, target: Callable[[], object], name: str = "other") -> _Task:
        """Begin a thread; it gets its first turn when the caller waits for something."""
        task = _Task(self)
        born = _Waiter(lambda: True, None)

        def run() -> None:
            born.gate.acquire()
            try:
                if not self._over:
                    target()
            except Ended:
                pass
            except BaseException as error:  # noqa: BLE001 - raised by `close`
                self.errors.append(error)
            task.done = True
            if not self._over:
                self._pass_on(None)

        self._waiters.append(born)
        thread = threading.Thread(target=run, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()
        return task

    def wait(self, ready: Callable[[], bool], timeout: float | None) -> bool:
        """Let the others go on until `ready()` or until so many seconds have passed; whether it was the former."""
        if ready():
            return True
        me = _Waiter(ready, None if timeout is None else self._now + timeout)
        self._waiters.append(me)
        self._pass_on(me)
        return ready()

    def close(self) -> None:
        """End every thread that still waits, and raise what one of them raised."""
        self._over = True
        for waiter in self._waiters:
            waiter.gate.release()
        for thread in self._threads:
            thread.join(10)
        if self.errors:
            raise self.errors[0]

    def _pass_on(self, me: _Waiter | None) -> None:
        chosen = next((waiter for waiter in self._waiters if waiter.ready()), None)
        if chosen is None:
            timed = [waiter for waiter in self._waiters if waiter.until is not None]
            if not timed:
                if not self._waiters:
                    return
                self._stuck = True
                chosen = self._waiters[0]
            else:
                chosen = min(timed, key=lambda waiter: waiter.until or 0.0)
                self._now = max(self._now, chosen.until or 0.0)
        self._waiters.remove(chosen)
        if chosen is not me:
            chosen.gate.release()
            if me is None:
                return
            me.gate.acquire()
        if self._over:
            raise Ended
        if self._stuck:
            raise Stuck("every thread waits, and none for a time")


class _Event:
    def __init__(self, world: Clockwork) -> None:
        self._world = world
        self._set = False

    def set(self) -> None:
        self._set = True

    def is_set(self) -> bool:
        return self._set

    def wait(self, timeout: float | None = None) -> bool:
        return self._world.wait(lambda: self._set, timeout)


class _Lock:
    def __init__(self, world: Clockwork) -> None:
        self._world = world
        self._held = False

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if self._held and blocking:
            self._world.wait(lambda: not self._held, None if timeout < 0 else timeout)
        if self._held:
            return False
        self._held = True
        return True

    def release(self) -> None:
        assert self._held, "released what was not held"
        self._held = False


class _Task:
    def __init__(self, world: Clockwork) -> None:
        self._world = world
        self.done = False

    def join(self, timeout: float | None = None) -> None:
        self._world.wait(lambda: self.done, timeout)

    def is_alive(self) -> bool:
        return not self.done
