"""The looks between two moments of a schedule: soon after a row, then after pauses that double. Pure.

A row that comes is seldom the last. So after one the source is looked at again `FIRST` seconds later, and while nothing
comes each pause is twice as long as the one before. Where a pause would end after the schedule's next moment that one
counts, so the schedule bounds what a quiet table costs. `LONGEST` seconds after the last row nothing but the schedule
counts: pauses that double from 20 ms are about eleven looks in that minute.

A row that waits for nothing but `settle` is looked for when it is old enough. One that an open transaction holds back
counts as none: how long that lasts is not known.
"""

from __future__ import annotations

from dataclasses import dataclass

from poller.tick.result import TickResult

FIRST = 0.02
"""Seconds from a row to the next look."""
LONGEST = 60.0
"""Seconds after the last row after which no look is made but those of the schedule."""
_SLACK = 1.0
"""Seconds for which a row that should be old enough is still waited for: bound and age are of two moments."""


@dataclass(frozen=True, slots=True)
class Awake:
    """Between two looks beside the schedule. `since`: when the last row came; `pause`: seconds until the next look."""

    since: float
    pause: float


def after_look(before: Awake | None, result: TickResult, now: float) -> Awake | None:
    """The wait after a tick that came to `result`; None: until the schedule's next moment.

    `before`: what this returned after the last tick. `now`: seconds on a clock that only goes forward.
    """
    if result.outcome == "delivered" and result.rows:
        return Awake(now, FIRST)
    if result.outcome not in ("idle", "held_elsewhere"):
        return None
    ready = ready_in(result)
    if ready is not None:
        return Awake(now, max(FIRST, ready))
    if before is None or now + 2 * before.pause > before.since + LONGEST:
        return None
    return Awake(before.since, 2 * before.pause)


def ready_in(result: TickResult) -> float | None:
    """Seconds until the oldest row that waits is old enough; None if no row waits, or not for its age alone."""
    bound, age = result.bound, result.lag_seconds
    if result.outcome != "idle" or not result.pending or bound is None or age is None or bound.age_seconds is None:
        return None
    if bound.held_by is not None or bound.clock_went_back or bound.below_checkpoint:
        return None
    left = bound.age_seconds - age
    return left if left > -_SLACK else None
