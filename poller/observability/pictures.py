"""Gauges of pollers' pictures (`poller.model.conditions`): what each look and each tick found last.

They are judged when metrics are collected, so that a tick costs nothing for them, and are forgotten as other gauges are
(`poller.observability.gauges`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from opentelemetry import metrics

from poller.model.conditions import worse
from poller.model.view import Severity
from poller.observability.gauges import KEPT


class JudgedCondition(Protocol):
    """One thing that is so."""

    @property
    def name(self) -> str: ...
    @property
    def severity(self) -> Severity: ...


class Picture(Protocol):
    """What is so of a poller; a `PollerView`, or the health that is made of one."""

    @property
    def severity(self) -> Severity: ...
    @property
    def conditions(self) -> Sequence[JudgedCondition]: ...


class Pictures:
    """`poller.severity` and `poller.condition` of one meter. May be used from several threads.

    Args:
        now: a monotonic clock, in seconds.
    """

    def __init__(self, meter: metrics.Meter, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._of: dict[str, tuple[float, Callable[[], Picture | None]]] = {}
        meter.create_observable_gauge(
            "poller.severity", [self._severities], description="0: well, 1: a warning, 2: unhealthy"
        )
        meter.create_observable_gauge(
            "poller.condition", [self._conditions], description="1 for each condition that is not well"
        )

    def set(self, poller: str, judge: Callable[[], Picture | None]) -> None:
        """What was found now; `judge` makes the picture of it when it is asked for: None once its poller is gone."""
        self._of[poller] = self._now(), judge

    def forget(self, poller: str) -> None:
        """Another process knows better."""
        self._of.pop(poller, None)

    def _severities(self, _: metrics.CallbackOptions) -> Iterable[metrics.Observation]:
        return [metrics.Observation(worse(one.severity), {"poller.name": name}) for name, one in self._pictures()]

    def _conditions(self, _: metrics.CallbackOptions) -> Iterable[metrics.Observation]:
        return [
            metrics.Observation(1, {"poller.name": name, "condition": one.name, "severity": one.severity})
            for name, picture in self._pictures()
            for one in picture.conditions
            if one.severity != "well"
        ]

    def _pictures(self) -> Iterator[tuple[str, Picture]]:
        oldest = self._now() - KEPT
        for name, (at, judge) in self._of.copy().items():  # in one step: a tick may set one meanwhile
            picture = judge() if at >= oldest else None
            if picture is None:
                self._of.pop(name, None)
            else:
                yield name, picture
