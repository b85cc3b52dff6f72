"""Gauges of pollers' pictures (`poller.model.conditions`): what each look and each tick found last.

A tick's are judged when metrics are collected, so that a tick costs nothing for them. They are forgotten as other
gauges are (`poller.observability.gauges`), those of a tick once the next one is overdue.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
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


ONLY_LOOKS = frozenset({"unread", "two_apps"})
"""Conditions that a tick cannot see: those of the last look stay."""
LONGEST = 3600.0
"""Seconds, beside `KEPT`, that a tick's picture is kept at most, until the next tick is due."""


@dataclass(frozen=True, slots=True)
class _Both:
    """What a tick found, beside what only the look before it could see."""

    severity: Severity
    conditions: Sequence[JudgedCondition]


class Pictures:
    """`poller.severity` and `poller.condition` of one meter. May be used from several threads.

    Args:
        now: a monotonic clock, in seconds.
    """

    def __init__(self, meter: metrics.Meter, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._looks: dict[str, tuple[float, Picture]] = {}
        self._ticks: dict[str, tuple[float, Callable[[], Picture | None], Callable[[], float]]] = {}
        meter.create_observable_gauge(
            "poller.severity", [self._severities], description="0: well, 1: a warning, 2: unhealthy"
        )
        meter.create_observable_gauge(
            "poller.condition", [self._conditions], description="1 for each condition that is not well"
        )

    def looked(self, poller: str, picture: Picture) -> None:
        """Note what a check found now."""
        self._ticks.pop(poller, None)
        self._looks[poller] = self._now(), picture

    def ticked(self, poller: str, judge: Callable[[], Picture | None], due: Callable[[], float]) -> None:
        """What a tick found now.

        Args:
            judge: makes the picture of it when it is asked for: None once its poller is gone. due: in how many seconds,
                from now, the next tick is.
        """
        self._ticks[poller] = self._now(), judge, due

    def forget(self, poller: str) -> None:
        """Another process knows better."""
        self._looks.pop(poller, None)
        self._ticks.pop(poller, None)

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
        looks, ticks = self._looks.copy(), self._ticks.copy()  # in one step: a tick may set one meanwhile
        for name in {**looks, **ticks}:
            look = self._look(name)
            tick = self._tick(name)
            if look is not None and tick is not None:
                more = [one for one in look.conditions if one.name in ONLY_LOOKS and one.severity != "well"]
                worst = max((tick.severity, *(one.severity for one in more)), key=worse)
                yield name, _Both(worst, [*tick.conditions, *more])
            elif look is not None or tick is not None:
                yield name, tick or look  # type: ignore[misc]  # one of them is one

    def _look(self, name: str) -> Picture | None:
        found = self._looks.get(name)
        if found is None or found[0] >= self._now() - KEPT:
            return None if found is None else found[1]
        self._looks.pop(name, None)
        return None

    def _tick(self, name: str) -> Picture | None:
        found = self._ticks.get(name)
        if found is None:
            return None
        at, judge, due = found
        age = self._now() - at
        picture = None if age > KEPT and age > KEPT + min(LONGEST, due()) else judge()
        if picture is None:
            self._ticks.pop(name, None)
        return picture
