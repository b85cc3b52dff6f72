"""Gauges that forget: a value that this process has not seen for a while is no longer reported.

Several workers may take turns with one poller. With an ordinary gauge each of them would report for ever what it saw
last, a lag of an hour long after another worker delivered the rows. These are observed when metrics are collected, so
that an alert may take the highest value of all workers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from opentelemetry import metrics

KEPT = 15 * 60.0
"""Seconds after which a value is forgotten. Values of a poller whose lease another worker has are forgotten at once."""

Labels: TypeAlias = tuple[tuple[str, str], ...]


class Gauges:
    """Gauges of one meter, each by its name. May be used from several threads.

    Args:
        now: a monotonic clock, in seconds.
    """

    def __init__(self, meter: metrics.Meter, now: Callable[[], float] = time.monotonic) -> None:
        self._meter = meter
        self._now = now
        self._values: dict[str, dict[Labels, tuple[float, float]]] = {}

    def add(self, name: str, *, unit: str = "", description: str = "") -> None:
        """Make one."""
        values: dict[Labels, tuple[float, float]] = {}
        self._values[name] = values

        def observe(_: metrics.CallbackOptions) -> Iterable[metrics.Observation]:
            oldest = self._now() - KEPT
            seen = values.copy()  # in one step: a tick may set a value meanwhile
            for labels in [labels for labels, (_, at) in seen.items() if at < oldest]:
                values.pop(labels, None)
            return [metrics.Observation(value, dict(labels)) for labels, (value, at) in seen.items() if at >= oldest]

        self._meter.create_observable_gauge(name, [observe], unit=unit, description=description)

    def set(self, name: str, value: float | None, labels: Mapping[str, str]) -> None:
        """What it is now; None: not known, so that what was known stays."""
        if value is not None:
            self._values[name][tuple(labels.items())] = value, self._now()

    def forget(self, label: tuple[str, str]) -> None:
        """Report nothing that has this label: another process knows better."""
        for values in self._values.values():
            for labels in [one for one in values.copy() if label in one]:
                values.pop(labels, None)
