"""Looking at pollers and their backfills again and again: where each stands, and how fast it moves.

The models are what `poller watch --json` prints.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from poller.admin.status import PollerStatus
from poller.admin.wired import WiredPoller
from poller.backfill.documents import Document
from poller.backfill.listing import Backfills
from poller.backfill.status import BackfillStatus
from poller.backfill.survey import Survey, survey
from poller.backfill.wired import LivePoller
from poller.errors import PollerError, SourceError
from poller.model.cursor import Cursor
from poller.model.memory import PollerMemory
from poller.model.result import ResultModel
from poller.model.stamps import Stamp
from poller.ports import InspectableSource

PASSED_CAP = 100_000
"""Rows between two looks are counted up to here; more show as so many."""


class WatchedPoller(ResultModel):
    """One poller as `poller watch` sees it."""

    status: PollerStatus
    rows_per_second: float | None
    """Rows that the checkpoint passed since the sample before; null if the database did not say, and in the first
    sample."""


class WatchedBackfill(ResultModel):
    """One backfill, or one part of it, as `poller watch` sees it."""

    status: BackfillStatus
    rows_per_second: float | None
    """As of a poller."""


class WatchOutput(ResultModel):
    """One line of `poller watch --json`."""

    at: Stamp
    """By this machine's clock."""
    pollers: list[WatchedPoller]
    backfills: list[WatchedBackfill] | None
    """Theirs that are not finished, and those that were named; null if the store did not list its documents."""


@dataclass(frozen=True, slots=True)
class BackfillSample:
    """One look at all of them.

    Attributes:
        survey: where they stand. failures: why backfills that were asked for by name could not be read again.
    """

    output: WatchOutput
    survey: Survey
    failures: Sequence[PollerError]


class Watcher:
    """Takes samples of some pollers and of their backfills. Not for several threads at once.

    Args:
        named: backfills that were asked for by name. seen: what earlier looks remember of each poller.
        clock: seconds on a clock that only goes forward. utcnow: this machine's clock.
    """

    def __init__(
        self,
        pollers: Sequence[LivePoller],
        backfills: Backfills,
        named: Sequence[Document] = (),
        *,
        seen: Mapping[str, PollerMemory] | None = None,
        clock: Callable[[], float] = time.monotonic,
        utcnow: Callable[[], datetime] = partial(datetime.now, UTC),
    ) -> None:
        self._pollers = list(pollers)
        self._backfills = backfills
        self._named = {one.name: one for one in named}
        self._clock = clock
        self._before: dict[str, tuple[float, bool | None, Cursor | None]] = {}
        """When each was looked at last, and where it stood."""
        self._utcnow = utcnow
        self._seen = {} if seen is None else {**seen}

    def sample(self) -> BackfillSample:
        """Look now. Raises as `survey`: what cannot be read is in each status."""
        failures = self._read_again()
        looked = survey(self._pollers, self._backfills, list(self._named.values()), seen=self._seen)
        pollers = [
            WatchedPoller(status=one, rows_per_second=self._rate(poller, one))
            for poller, one in zip(self._pollers, looked.pollers, strict=True)
        ]
        backfills = None if looked.backfills is None else [self._watched(one, failures) for one in looked.backfills]
        output = WatchOutput(at=self._utcnow(), pollers=pollers, backfills=backfills)
        return BackfillSample(output, looked, list(failures.values()))

    def _watched(self, status: BackfillStatus, failures: dict[str, PollerError]) -> WatchedBackfill:
        if status.name in failures:
            status = status.failed(failures[status.name])
        rate = self._rate(self._backfills.pollers[status.poller], status)
        return WatchedBackfill(status=status, rows_per_second=rate)

    def _rate(self, poller: WiredPoller, status: PollerStatus) -> float | None:
        """Rows per second that the checkpoint passed since the last look; None if that is not known, and at the first
        look."""
        before = self._before.pop(status.name, None)
        if status.error is not None:
            return None
        now = self._clock()
        self._before[status.name] = (now, status.exists, status.cursor)
        if before is None or not before[1] or now <= before[0]:
            return None
        if before[2] == status.cursor:
            return 0.0
        with poller.alone():
            if not isinstance(poller.source, InspectableSource):
                return None
            try:
                rows, _ = poller.source.count_between(before[2], status.cursor, cap=PASSED_CAP)
            except SourceError:
                return None
        return rows / (now - before[0])

    def _read_again(self) -> dict[str, PollerError]:
        """The documents of those that were named, as they are now; where one cannot be read, the former one and why."""
        failures: dict[str, PollerError] = {}
        for name, document in self._named.items():
            try:
                self._named[name] = self._backfills.read(name) or document
            except PollerError as error:
                failures[name] = error
        return failures
