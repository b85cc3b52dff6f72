"""How often processes that share idle pollers look, and what their hints cost: on a clock that is moved by hand, with a
store in memory. The hints are the real ones; a look is counted, not made."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from poller.ports import Found, Listed, Missing, Timeout, Unchanged, Written
from poller.runtime import SystemRuntime
from poller.stores import MemoryStore
from poller.worker import Replicas

SETTLED = 2
"""Minutes until everybody knows everybody; they do not count."""


class Clock(SystemRuntime):
    """Time that is moved by hand, and chance with a seed."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self._chance = random.Random(1)

    def monotonic(self) -> float:
        """Seconds since the start."""
        return self.now

    def utcnow(self) -> datetime:
        """The same as a date."""
        return datetime(2026, 5, 1, tzinfo=UTC) + timedelta(seconds=self.now)

    def jitter(self, low: float, high: float) -> float:
        """The same in every run."""
        return self._chance.uniform(low, high)


class Counted(MemoryStore):
    """How often it was asked what, and how long all hints are that were read."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.asked = {"read": 0, "write": 0, "list": 0}

    def read(
        self, name: str, *, unless: str | None = None, timeout: Timeout | None = None
    ) -> Found | Unchanged | Missing:
        """Counted."""
        self.asked["read"] += 1
        return super().read(name, unless=unless, timeout=timeout)

    def write(self, name: str, body: bytes, *, if_tag: str | None, timeout: Timeout | None = None) -> Written:
        """Counted."""
        self.asked["write"] += 1
        return super().write(name, body, if_tag=if_tag, timeout=timeout)

    def listed(self, prefix: str, *, timeout: Timeout | None = None) -> Iterator[Listed]:
        """Counted."""
        self.asked["list"] += 1
        return super().listed(prefix, timeout=timeout)


def count(replicas: int, pollers: int, *, interval: int, minutes: int) -> dict[str, Any]:
    """Looks and requests in a minute, of all processes together. Each look is one conditional GET of a document."""
    clock = Clock()
    store = Counted(clock)
    names = [f"p{number}" for number in range(pollers)]
    processes = [Replicas(store, "shop", runtime=clock) for _ in range(replicas)]
    for process in processes:
        process.begin(names, pollers * 60 / interval)
    looks, none, seldom = 0, 0, [0] * pollers
    for second in range((minutes + SETTLED) * 60):
        clock.now = float(second)
        if second == SETTLED * 60:
            looks, none, seldom = 0, 0, [0] * pollers
            store.asked = dict.fromkeys(store.asked, 0)
        for process in processes:
            if process.left() == 0:
                process.step()
        if second % interval:
            continue
        for position, name in enumerate(names):
            found = sum(process.wants(name, lambda: float(interval)) for process in processes)
            looks += found
            none += not found
            seldom[position] += bool(found)
    per_minute = {what: round(times / minutes, 1) for what, times in store.asked.items()}
    return {
        "replicas": replicas, "pollers": pollers, "interval_s": interval, "looks": round(looks / minutes),
        "unshared": round(replicas * pollers * 60 / interval), "moments_without_a_look": none,
        "hint_reads": per_minute["read"], "hint_writes": per_minute["write"], "hint_lists": per_minute["list"],
    }  # fmt: skip
