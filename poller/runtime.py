"""The real runtime: this machine's clocks, threads and randomness."""

from __future__ import annotations

import contextvars
import gc
import random
import secrets
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime

from poller import forks
from poller.ports import Event, Lock, Task

_BOOT = getattr(time, "CLOCK_BOOTTIME", None)
_chance = random.SystemRandom()

STALL = 0.05
"""Seconds: a lag of CLOCK_BOOTTIME below this may only mean that the thread was delayed between two readings."""

_ALLOCATIONS = 50_000
"""Beyond those that were freed: after so many the collector looks for cycles. Python's 700 are reached several times
per page of rows, which form none."""


def collect_less() -> None:
    """For a process that only delivers rows, once its modules are loaded: the collector no longer looks at those, and
    looks more rarely. Half of the time that small rows take (benchmarks). A library leaves that to the program."""
    first, *rest = gc.get_threshold()
    if 0 < first < _ALLOCATIONS:  # 0: the program has switched it off
        gc.set_threshold(_ALLOCATIONS, *rest)
    gc.freeze()


class _Task:
    """A thread that ends when its target returns, and not before: a `threading.Thread` counts as ended once an
    interrupt (Ctrl-C) ended a `join`, although it runs (Python 3.11 and 3.12). In a child process after `os.fork()` it
    does not run."""

    def __init__(self, context: contextvars.Context, target: Callable[[], None], name: str) -> None:
        self._over = threading.Event()
        self._process = forks.generation()
        self._thread = threading.Thread(target=self._run, args=(context, target), name=name, daemon=True)
        self._thread.start()

    def _run(self, context: contextvars.Context, target: Callable[[], None]) -> None:
        try:
            context.run(target)
        finally:
            self._over.set()

    def join(self, timeout: float | None = None) -> None:
        """See `Task`."""
        if self.is_alive() and not self._over.wait(timeout):
            return
        self._thread.join()

    def is_alive(self) -> bool:
        """See `Task`."""
        return self._process == forks.generation() and not self._over.is_set()


class SystemRuntime:
    """`poller.ports.Runtime` by the operating system.

    `monotonic` follows whichever of CLOCK_MONOTONIC and CLOCK_BOOTTIME advanced more: so a deadline is judged by the
    earlier of the two (protocol 3), and suspended time counts. Between two calls it never advances less than either
    clock, and frequent calls do not make it fast.
    """

    def __init__(self) -> None:
        self._reset_after_fork()
        forks.in_child(self._reset_after_fork)
        self._running, boot = self._read()
        self._ahead = boot - self._running
        self._elapsed = 0.0

    def _reset_after_fork(self) -> None:
        self._guard = threading.Lock()

    @staticmethod
    def _read() -> tuple[float, float]:
        """CLOCK_MONOTONIC and CLOCK_BOOTTIME. The latter is read first: if this thread is delayed in between, it seems
        less far ahead than it is, which the next call corrects."""
        boot = None if _BOOT is None else time.clock_gettime(_BOOT)
        running = time.monotonic()
        return running, running if boot is None else boot

    def monotonic(self) -> float:
        """See `Runtime.monotonic`."""
        with self._guard:
            running, boot = self._read()
            if boot - running < self._ahead - STALL:
                running, boot = self._read()
                if boot - running < self._ahead - STALL:
                    self._ahead = boot - running  # CLOCK_BOOTTIME really lags: its gain from here on counts
            self._elapsed += max(running - self._running, 0.0) + max(boot - running - self._ahead, 0.0)
            self._ahead = max(self._ahead, boot - running)
            self._running = running
            return self._elapsed

    def utcnow(self) -> datetime:
        """See `Runtime.utcnow`."""
        return datetime.now(UTC)

    def sleep(self, seconds: float) -> None:
        """Sleep; not at all for a negative number."""
        time.sleep(max(0.0, seconds))

    def event(self) -> Event:
        """A new `threading.Event`."""
        return threading.Event()

    def lock(self) -> Lock:
        """A new `threading.Lock`."""
        return threading.Lock()

    def spawn(self, target: Callable[[], None], name: str) -> Task:
        """Start a daemon thread in a copy of the caller's context, so that its logs belong to the same Functions
        invocation and the same trace."""
        return _Task(contextvars.copy_context(), target, name)

    def jitter(self, low: float, high: float) -> float:
        """A random number between the two, different in every process."""
        return _chance.uniform(low, high)

    def new_id(self) -> str:
        """128 random bits as 32 hexadecimal digits."""
        return secrets.token_hex(16)
