"""Lines of bars: how a figure developed over the last samples."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from poller.backfill.watch import WatchedBackfill, WatchedPoller

KEPT = 120
"""Samples that a line may show."""
LEVELS, PLAIN_LEVELS = "▁▂▃▄▅▆▇█", "_.-=+*%#"


@dataclass(slots=True)
class History:
    """Of one poller, oldest first: rows per second, and the lag in seconds."""

    rates: deque[float | None] = field(default_factory=lambda: deque(maxlen=KEPT))
    lags: deque[float | None] = field(default_factory=lambda: deque(maxlen=KEPT))

    def add(self, watched: WatchedPoller | WatchedBackfill) -> None:
        """Take in one sample."""
        status = watched.status
        self.rates.append(watched.rows_per_second)
        self.lags.append(None if status.error else status.lag_seconds if status.pending else 0.0)


def sparkline(values: Sequence[float | None], width: int, *, plain: bool = False) -> str:
    """The last `width` values as a line of bars, the highest one full; a gap where nothing was known."""
    levels = PLAIN_LEVELS if plain else LEVELS
    shown = list(values)[-width:] if width > 0 else []
    top = max((value for value in shown if value is not None), default=0.0)
    bars = [
        " " if value is None else levels[0 if top <= 0 else min(len(levels) - 1, int(value / top * len(levels)))]
        for value in shown
    ]
    return "".join(bars)
