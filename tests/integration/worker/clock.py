"""Time for a worker's loop: it passes only while the loop waits."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

from poller.runtime import SystemRuntime

MIDNIGHT = datetime(2026, 5, 1, tzinfo=UTC)


class Clock(SystemRuntime):
    """A runtime, and the `stop` of its loop: whoever waits for that lets time pass."""

    def __init__(self) -> None:
        super().__init__()
        self.passed = 0.0
        self.waits: list[float] = []
        self._stop = threading.Event()
        self.set, self.is_set = self._stop.set, self._stop.is_set

    def wait(self, timeout: float | None = None) -> bool:
        if not self.is_set():
            self.passed += timeout or 0.0
            self.waits.append(timeout or 0.0)
        return self.is_set()

    def utcnow(self) -> datetime:
        return MIDNIGHT + timedelta(seconds=self.passed)

    def jitter(self, low: float, high: float) -> float:
        return high
