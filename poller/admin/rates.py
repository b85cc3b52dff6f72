"""How fast checkpoints move between two looks at pollers. Takes no lease, changes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable

from poller.admin.status import PollerStatus
from poller.errors import SourceError
from poller.model.cursor import Cursor
from poller.ports import InspectableSource, Source

PASSED_CAP = 100_000
"""Rows between two looks are counted up to here; more show as so many."""


class Rates:
    """Remembers each poller's place, to compare it with the next. Not for several threads at once.

    Args:
        clock: seconds on a clock that only goes forward.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._before: dict[str, tuple[float, bool | None, Cursor | None]] = {}

    def rows_per_second(self, source: Source, status: PollerStatus) -> float | None:
        """Rows that the checkpoint passed since the last look; None if that is not known, and at the first look.

        `source`: of the poller, to count in.
        """
        if status.error is not None:
            self._before.pop(status.name, None)
            return None
        now, before = self._clock(), self._before.get(status.name)
        self._before[status.name] = (now, status.exists, status.cursor)
        if before is None or not before[1] or now <= before[0]:
            return None
        if before[2] == status.cursor:
            return 0.0
        if not isinstance(source, InspectableSource):
            return None
        try:
            rows, _ = source.count_between(before[2], status.cursor, cap=PASSED_CAP)
        except SourceError:
            return None
        return rows / (now - before[0])
