"""Progress on a terminal: a line per poller at work, with rows per second, lag and time left."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import tzinfo
from types import TracebackType
from typing import Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TaskID, TextColumn
from rich.text import Text

from poller.admin.peek import count_pending
from poller.config import AppConfig
from poller.model.when import span
from poller.observability import BatchCommitted, BatchStarted, PollerEvent, TickFailed, TickFinished
from poller.poller import Poller
from poller.sources.columns import parse_utc
from poller.tick.watches import PENDING_CAP
from poller_cli.terminal.layout import is_terminal, shortened
from poller_cli.terminal.pace import Pace

MOST_LINES = 20
"""Pollers that are shown, even if the screen has room for more."""
_FIGURES = 62
"""Columns that a line's figures take at most; a name has the others, and a bar where it leaves it enough."""
_BAR = 20


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        """Rows per second, over the last moments."""
        rate = task.fields["pace"].rate()
        return Text(f"{rate:,.0f} rows/s" if rate else "", no_wrap=True)


class _Left(ProgressColumn):
    def render(self, task: Task) -> Text:
        """How far behind, and how long yet."""
        pace: Pace = task.fields["pace"]
        left = pace.left()
        behind = f"{span(pace.lag)} behind" if pace.end is None and pace.lag is not None else ""
        return Text(", ".join(part for part in (behind, f"{span(left)} left" if left else "") if part), no_wrap=True)


class _Screenful(Progress):
    """Lines of those that have been at work for the longest time; the others are counted."""

    def get_renderables(self) -> Iterable[RenderableType]:
        """The lines."""
        tasks = self.tasks
        shown = tasks and tasks[: max(1, min(MOST_LINES, self.console.height - 4))]
        yield self.make_tasks_table(shown)
        if more := len(tasks) - len(shown):
            yield Text(f"  and {more:,} more at work", no_wrap=True)


class LiveProgress:
    """An observer that shows which poller is at work and how fast. A context manager: the lines live inside it.

    What is printed meanwhile, by us or by a handler, appears above the lines.

    Attributes:
        zones: of the pollers whose cursor is a time: what it means where it names no zone.
        lasting: by poller, of those whose line stays from tick to tick: how much there is to do.
    """

    def __init__(self) -> None:
        console = Console(stderr=True)
        self._name = max(8, console.width - _FIGURES)
        self._progress = _Screenful(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            *([BarColumn(bar_width=_BAR)] if self._name > 2 * _BAR else []),
            TextColumn("{task.completed:,.0f} rows"),
            _Rate(),
            _Left(),
            console=console,
            transient=True,
            redirect_stdout=is_terminal(sys.stdout),
        )
        self.zones: dict[str, tzinfo | None] = {}
        self.lasting: dict[str, Pace] = {}
        self._tasks: dict[str, tuple[TaskID, Pace]] = {}
        self._pending: dict[str, int | None] = {}
        """Rows that each poller has before it, by the last count of them, up to `PENDING_CAP`; None: not counted."""
        self._lock = threading.Lock()

    def show_times(self, config: AppConfig) -> None:
        """Know what the times of this configuration's pollers mean."""
        for name, poller in config.pollers.items():
            if poller.source.cursor_kind == "timestamp+pk":
                with suppress(ZoneInfoNotFoundError, ValueError):
                    zone = poller.source.cursor_time_zone
                    self.zones[name] = None if zone is None else ZoneInfo(zone)

    def count_pending(self, poller: Poller) -> None:
        """Count the rows that `poller` has before it, so that its first tick, too, shows how long yet. Changes nothing;
        what makes the count fail makes the tick fail, which reports it."""
        pending = count_pending(poller)
        with self._lock:
            self._pending[poller.name] = pending

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def __call__(self, event: PollerEvent) -> None:
        """Show one event, if it is about rows."""
        with self._lock:
            if isinstance(event, BatchStarted):
                self._begin(event.poller)
            elif isinstance(event, BatchCommitted) and event.poller in self._tasks:
                self._advance(event)
            elif isinstance(event, (TickFinished, TickFailed)):
                self._end(event)

    def _begin(self, poller: str) -> None:
        if poller not in self._tasks:
            pace = self.lasting.get(poller) or _pace(self._pending.get(poller))
            pace.begin(time.monotonic())
            self._tasks[poller] = (
                self._progress.add_task(shortened(poller, self._name), total=pace.total, pace=pace),
                pace,
            )

    def _advance(self, event: BatchCommitted) -> None:
        task, pace = self._tasks[event.poller]
        moment = None
        if event.poller in self.zones:
            moment = parse_utc(event.cursor.partition(" / ")[0], self.zones[event.poller])
        pace.committed(event.rows, moment, now=time.monotonic(), at=event.at)
        if pace.total is not None and pace.rows > pace.total:
            pace.total = None  # more has arrived: how much is not known
            self._progress.update(task, total=None)
        self._progress.update(task, completed=pace.rows)

    def _end(self, event: TickFinished | TickFailed) -> None:
        if isinstance(event, TickFinished):
            self._pending[event.poller] = event.pending
        shown = self._tasks.get(event.poller)
        if shown is not None and event.poller not in self.lasting:
            del self._tasks[event.poller]
            self._progress.remove_task(shown[0])


def _pace(pending: int | None) -> Pace:
    """The pace of a tick before which `pending` rows were counted. If the cap has cut the count, their times must say;
    without a count, or without a row, nothing does: a few rows' times are not enough."""
    if pending is None or pending < PENDING_CAP:
        return Pace(total=pending or None, by_times=False)
    return Pace()
