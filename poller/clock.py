"""The real runtime: this machine's clocks, threads and randomness."""

from __future__ import annotations

import contextvars
import random
import secrets
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime

from poller.ports import Event, Lock, Task

_BOOT = getattr(time, "CLOCK_BOOTTIME", None)
_chance = random.SystemRandom()


class SystemRuntime:
    """What `poller.ports.Runtime` asks for, from the operating system.

    `monotonic` adds up, from call to call, whichever of CLOCK_MONOTONIC and CLOCK_BOOTTIME went further: so a deadline
    is judged by the earlier of the two (protocol 3), and time that the machine slept counts.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._readings = self._read()
        self._elapsed = 0.0

    @staticmethod
    def _read() -> tuple[float, float]:
        running = time.monotonic()
        return running, running if _BOOT is None else time.clock_gettime(_BOOT)

    def monotonic(self) -> float:
        """Seconds since this runtime was made, suspended time included."""
        with self._guard:
            before, now = self._readings, self._read()
            self._readings = now
            self._elapsed += max(now[0] - before[0], now[1] - before[1], 0.0)
            return self._elapsed

    def utcnow(self) -> datetime:
        """The wall clock, for people and schedules."""
        return datetime.now(UTC)

    def sleep(self, seconds: float) -> None:
        """Do nothing for so long."""
        time.sleep(max(0.0, seconds))

    def event(self) -> Event:
        """A new `threading.Event`."""
        return threading.Event()

    def lock(self) -> Lock:
        """A new `threading.Lock`."""
        return threading.Lock()

    def spawn(self, target: Callable[[], None], name: str) -> Task:
        """Start a thread that does not keep the process alive. It starts in a copy of the caller's context, so that
        what it logs belongs to the same Functions invocation and the same trace."""
        thread = threading.Thread(target=contextvars.copy_context().run, args=(target,), name=name, daemon=True)
        thread.start()
        return thread

    def jitter(self, low: float, high: float) -> float:
        """A random number between the two, different in every process."""
        return _chance.uniform(low, high)

    def new_id(self) -> str:
        """128 random bits as 32 hexadecimal digits."""
        return secrets.token_hex(16)
