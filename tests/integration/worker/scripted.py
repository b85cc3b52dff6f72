"""A poller whose ticks are given, for `poller.worker.run`. Time is passed in."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from poller import Handler, TickResult
from poller.config import PollerOptions
from poller.observability import PollerEvent
from poller.tick import Outcome
from tests.integration.worker.clock import MIDNIGHT, Clock

IDLE = TickResult(outcome="idle")


class Scripted:
    """A poller whose ticks are these, one after the other, and the last one again and again until `enough`."""

    name = "orders"
    options = PollerOptions(schedule="*/5 * * * * *")

    def __init__(self, results: Sequence[TickResult], enough: int) -> None:
        self.runtime = Clock()
        self.ticks: list[float] = []
        self._results, self._enough = list(results), enough

    @property
    def handler(self) -> Handler:
        return lambda batch: None

    def tick(self, handler: Handler | None = None, *, stop: Any = None) -> TickResult:
        self.ticks.append(self.runtime.passed)
        if len(self.ticks) == self._enough:
            self.runtime.stop.set()
        return self._results.pop(0) if len(self._results) > 1 else self._results[0]

    def emit(self, event: PollerEvent) -> None:
        raise AssertionError(event)


def waiting(seconds: float, outcome: Outcome = "backing_off") -> TickResult:
    return TickResult(
        outcome=outcome, retry_at=MIDNIGHT + timedelta(seconds=seconds), error="row orders/17 failed: ValueError: no"
    )
