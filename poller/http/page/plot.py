"""Where bars, points and lanes are in a drawing of five hours. Pure: it knows numbers, and no HTML.

A drawing is `WIDTH` by `HEIGHT` units, stretched to the place that it gets; texts are beside it, not in it, and so
keep their size on a phone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from poller.model.when import in_utc

SLOT = timedelta(minutes=5)
SLOTS = 60
"""So many slots are drawn: five hours."""
WIDTH, HEIGHT = 600.0, 100.0
_STEP = WIDTH / SLOTS
_GAP = 1.5
"""Units between two bars."""
_LEAST = 1.5
"""Units: a bar of something is not invisible."""
_COUNTS = (2, 4, 6, 8)
"""Ends of an axis whose halves are round, too."""
_TINY, _HUGE = 1e-9, 1e300
"""Beyond these nothing is drawn to scale: another program has written them."""
_SPANS = (*(60.0 * n for n in (2, 4, 10, 20, 60)), *(3600.0 * n for n in (2, 4, 12)), *(86400.0 * n for n in (1, 2)))


@dataclass(frozen=True, slots=True)
class Bar:
    """A rectangle."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class PlotWindow:
    """The five hours that are drawn, up to the end of the running slot."""

    begin: datetime

    @classmethod
    def until(cls, now: datetime) -> PlotWindow:
        """The one in which `now` is in the last slot."""
        at = in_utc(now)
        running = datetime.fromtimestamp(math.floor(at.timestamp() / SLOT.total_seconds()) * SLOT.total_seconds(), UTC)
        return cls(running - (SLOTS - 1) * SLOT)

    @property
    def ticks(self) -> list[datetime]:
        """Each full distance of an hour, its two ends included."""
        return [self.begin + timedelta(hours=hour) for hour in range(SLOTS // 12 + 1)]

    def place(self, at: datetime) -> int | None:
        """The number of the slot in which a moment lies; None outside."""
        found = math.floor((in_utc(at) - self.begin) / SLOT)
        return found if 0 <= found < SLOTS else None


def end_of_axis(most: float) -> float:
    """The smallest round number that is not a less, and whose half is round."""
    if not _TINY < most < _HUGE:
        return 2.0
    power = 10.0 ** math.floor(math.log10(most))
    return next(step * power for step in (*_COUNTS, 10, 20) if step * power >= most * (1 - 1e-9))


def end_of_times(most: float) -> float:
    """The same for seconds: above a minute in minutes, hours and days."""
    if most <= 20:
        return end_of_axis(most)
    if most <= 60:
        return 40.0 if most <= 40 else 60.0
    found = next((step for step in _SPANS if step >= most), None)
    return found if found is not None else end_of_axis(most / 86400.0) * 86400.0


def bars(values: Sequence[float | None], end: float) -> list[Bar]:
    """A bar for each value that is something, by its place; `end`: of the axis."""
    found = []
    for place, value in enumerate(values):
        if value:
            height = max(_LEAST, min(1.0, value / end) * HEIGHT)
            found.append(Bar(_round(place * _STEP + _GAP / 2), _round(HEIGHT - height), _STEP - _GAP, _round(height)))
    return found


def line(values: Sequence[float | None], end: float) -> str:
    """The path through all values that stand side by side: a place without one is a gap."""
    path, drawing = [], False
    for place, value in enumerate(values):
        if value is not None and not _alone(values, place):
            path.append(f"{'L' if drawing else 'M'}{_point(place, value, end)}")
        drawing = value is not None
    return "".join(path)


def dots(values: Sequence[float | None], end: float) -> str:
    """The path of the values that stand alone: lines without length, whose round ends are seen."""
    return "".join(
        f"M{_point(place, value, end)}h0"
        for place, value in enumerate(values)
        if value is not None and _alone(values, place)
    )


def _alone(values: Sequence[float | None], place: int) -> bool:
    before = values[place - 1] if place else None
    after = values[place + 1] if place + 1 < len(values) else None
    return before is None and after is None


def _point(place: int, value: float, end: float) -> str:
    height = min(1.0, max(0.0, value / end)) * HEIGHT
    return f"{_round((place + 0.5) * _STEP):g} {_round(HEIGHT - height):g}"


def runs(places: Sequence[bool]) -> list[Bar]:
    """One bar for each unbroken run of places, as high as the drawing."""
    found, begin = [], None
    for place, held in enumerate([*places, False]):
        if held and begin is None:
            begin = place
        elif not held and begin is not None:
            found.append(Bar(_round(begin * _STEP), 0.0, _round((place - begin) * _STEP), HEIGHT))
            begin = None
    return found


def _round(value: float) -> float:
    return round(value, 2)
