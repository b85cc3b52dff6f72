"""What `watch` sees: the status of each poller again and again, and how fast its checkpoint moved in between."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

from poller.errors import PollerError, SourceError
from poller.model.cursor import Cursor
from poller_cli import exits
from poller_cli.output.watch_models import WatchedBackfill, WatchedPoller, WatchOutput
from poller_cli.survey import survey

if TYPE_CHECKING:
    from poller.admin.status import PollerStatus
    from poller.app import Poller
    from poller.backfill.documents import Document
    from poller.ports import InspectableSource
    from poller_cli.naming import ConsoleApp

PASSED_CAP = 100_000
"""Rows between two samples are counted up to here; more show as so many."""
KEPT = 120
"""Samples that a sparkline may show."""
LEVELS, PLAIN_LEVELS = "▁▂▃▄▅▆▇█", "_.-=+*%#"


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at all of them, and what it contributes to the exit code."""

    output: WatchOutput
    code: int


class Watcher:
    """Takes samples of some pollers and of their backfills. Not for several threads at once.

    Args:
        named: backfills that were asked for by name.
    """

    def __init__(
        self,
        app: ConsoleApp,
        pollers: Sequence[Poller],
        named: Sequence[Document] = (),
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._pollers = list(pollers)
        self._named = list(named)
        self._clock = clock
        self._before: dict[str, tuple[float, bool | None, Cursor | None]] = {}

    def sample(self) -> Sample:
        """Look now. Raises nothing that is a PollerError: what cannot be told stands in each status."""
        failures = self._read_again()
        surveyed = survey(self._app, self._pollers, self._named, nulls=False)
        output = surveyed.output()
        codes = [surveyed.code, *(error.exit_code for error in failures.values())]
        watched = [
            WatchedPoller(status=one, rows_per_second=self._rate(poller, one))
            for poller, one in zip(self._pollers, output.pollers, strict=True)
        ]
        backfills = None
        if output.backfills is not None:
            backfills = []
            for one in output.backfills:
                told = {"error": str(failures[one.name])} if one.name in failures else {}
                status = one.model_copy(update=told)
                rate = self._rate(self._app.poller(one.poller), status)
                backfills.append(WatchedBackfill(status=status, rows_per_second=rate))
        looked = WatchOutput(at=datetime.now(UTC), pollers=watched, backfills=backfills)
        return Sample(looked, exits.worst(codes))

    def _read_again(self) -> dict[str, PollerError]:
        """The documents of those that were named, as they are now; where one cannot be read, the former one and why."""
        failures: dict[str, PollerError] = {}
        for number, document in enumerate(self._named):
            try:
                self._named[number] = self._app.backfills.read(document.name) or document
            except PollerError as error:
                failures[document.name] = error
        return failures

    def _rate(self, poller: Poller, status: PollerStatus) -> float | None:
        """Rows that the checkpoint passed since the last sample, per second; None where nobody can tell."""
        if status.error is not None:
            self._before.pop(status.name, None)
            return None
        now, before = self._clock(), self._before.get(status.name)
        self._before[status.name] = (now, status.exists, status.cursor)
        if before is None or not before[1] or now <= before[0]:
            return None
        if before[2] == status.cursor:
            return 0.0
        source = cast("InspectableSource", poller.source)
        try:
            rows, _ = source.count_between(before[2], status.cursor, cap=PASSED_CAP)
        except SourceError:
            return None
        return rows / (now - before[0])


def in_order(output: WatchOutput) -> list[WatchedPoller | WatchedBackfill]:
    """Each poller with its backfills after it, and last the backfills of pollers that are not watched."""
    backfills = output.backfills or []
    shown: list[WatchedPoller | WatchedBackfill] = []
    for one in output.pollers:
        shown += [one, *(inner for inner in backfills if inner.status.poller == one.status.name)]
    watched = {one.status.name for one in output.pollers}
    return shown + [one for one in backfills if one.status.poller not in watched]


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


class Ended(Exception):
    """There are no further samples."""


class Sampler:
    """Takes a sample per interval on a thread of its own, so that keys are heeded while a database does not answer."""

    def __init__(self, watcher: Watcher, interval: float, count: int | None) -> None:
        self._watcher = watcher
        self._interval = interval
        self._count = count
        self._stop = threading.Event()
        self._samples: queue.Queue[Sample | BaseException | None] = queue.Queue()
        self._thread = threading.Thread(target=self._run, name="poller-watch", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Take no further one; waits for the one under way, for a moment."""
        self._stop.set()
        self._thread.join(2.0)

    def next(self, timeout: float) -> Sample | None:
        """The next sample, or None within `timeout` seconds. Raises: Ended after the last one."""
        try:
            sample = self._samples.get(timeout=timeout)
        except queue.Empty:
            return None
        if isinstance(sample, BaseException):
            raise sample
        if sample is None:
            raise Ended
        return sample

    def _run(self) -> None:
        taken = 0
        try:
            while not self._stop.is_set():
                began = time.monotonic()
                self._samples.put(self._watcher.sample())
                taken += 1
                if self._count is not None and taken >= self._count:
                    break
                self._stop.wait(max(0.0, began + self._interval - time.monotonic()))
            self._samples.put(None)
        except Exception as error:  # noqa: BLE001 - told where the samples are shown
            self._samples.put(error)
