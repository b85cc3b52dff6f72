"""How fast a poller works, how far behind it is and how long it will yet take. Time is an argument."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from datetime import datetime

WINDOW = 30.0
"""Seconds that a rate is taken over."""


@dataclass(slots=True)
class Pace:
    """The pace of one poller, from each batch that it commits.

    Attributes:
        total: rows to be delivered, if that is known.
        end: the moment that its rows' times run up to; None: the present, which moves on meanwhile.
        by_times: whether, where `total` is not known, the rows' times may say how long it will take.
        rows: delivered so far. lag: how many seconds the last row was old when it was committed.
    """

    total: int | None = None
    end: datetime | None = None
    by_times: bool = True
    rows: int = 0
    lag: float | None = None
    _seen: deque[tuple[float, int, datetime | None]] = field(default_factory=deque)

    def begin(self, now: float) -> None:
        """Work begins. `now`: seconds on any clock that only goes forward."""
        if not self._seen:
            self._seen.append((now, 0, None))

    def committed(self, rows: int, moment: datetime | None, *, now: float, at: datetime) -> None:
        """A batch was committed: its last row is of `moment`, and it is `at` now."""
        self.begin(now)
        self.rows += rows
        self.lag = None if moment is None else max(0.0, (at - moment).total_seconds())
        self._seen.append((now, self.rows, moment))
        while len(self._seen) > 2 and now - self._seen[1][0] > WINDOW:
            self._seen.popleft()

    def rate(self) -> float | None:
        """Rows per second, over the last moments."""
        if not self._seen:
            return None
        (first, before, _), (last, after, _) = self._seen[0], self._seen[-1]
        return (after - before) / (last - first) if last > first else None

    def left(self) -> float | None:
        """Seconds until it has caught up, if that is known: by the rows that are left, else by how much faster than
        time itself the rows' times pass."""
        rate = self.rate()
        if self.total is not None and self.total >= self.rows:
            return (self.total - self.rows) / rate if rate else None
        if not self.by_times:
            return None
        timed = [(at, moment) for at, _, moment in self._seen if moment is not None]
        if len(timed) < 2 or self.lag is None:
            return None
        (first, begun), (last, reached) = timed[0], timed[-1]
        if last <= first:
            return None
        speed = (reached - begun).total_seconds() / (last - first)
        if self.end is not None:
            return max(0.0, (self.end - reached).total_seconds()) / speed if speed > 0 else None
        return self.lag / (speed - 1) if speed > 1 else None
