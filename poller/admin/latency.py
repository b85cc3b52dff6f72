"""`poller check --latency`: how late rows become visible on this server, and which `settle` covers that.

A row takes its timestamp before its transaction ends, and other sessions see it only afterwards. For a while the newest
rows are read again and again, whatever the bound is; for each that was not there before, the database's clock says how
old its timestamp is by then. That is at most one look more than its true age, and never less.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import ExitStack
from datetime import timedelta

from poller.admin.wired import WiredPoller
from poller.errors import PollerError
from poller.model.cursor import Cursor
from poller.model.durations import format_duration
from poller.model.finding import Finding, error, ok, warn
from poller.model.when import took
from poller.ports import Bound, InspectableSource, Runtime

CHECK = "latency"
"""The check of these findings."""
LASTS = timedelta(seconds=60)
"""The time for which rows are watched."""
EVERY = 0.05
"""Seconds between two looks."""
REACH = timedelta(seconds=60)
"""A row is seen if it becomes visible at most this long after its timestamp, unless too many others are as new."""
MOST_ROWS = 2_000
"""Rows that one look reads. If there are more, the older half is watched no longer."""
STEPS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0)
"""The seconds that may be suggested."""


def enough(latest: float) -> timedelta:
    """A `settle` of at least twice what was seen, or the longest of `STEPS`."""
    return timedelta(seconds=next((step for step in STEPS if step >= 2 * latest), STEPS[-1]))


class LateWatch:
    """The newest rows of one source.

    Attributes:
        source: whose rows.
        late: of each row that came, how many seconds after its timestamp it was seen.
        reach: rows that come later than this many seconds after their timestamps are not seen.
    """

    def __init__(self, source: InspectableSource) -> None:
        self.late: list[float] = []
        self.reach = REACH.total_seconds()
        self.source = source
        self._low: Cursor | None = None
        self._known: set[Hashable] = set()

    def begin(self) -> bool:
        """Note what is there; False if rows have no timestamps, or there is none. Raises: SourceError."""
        clock = self.source.clock()
        self._low = None if clock is None else self.source.cursor_before(clock - REACH)
        if self._low is None:
            return False
        self._known = {_key(one) for one in self._newest()}
        return True

    def look(self) -> None:
        """Note the rows that have come since. Raises: SourceError."""
        newest = self._newest()
        new = [one for one in newest if _key(one) not in self._known]
        clock = self.source.clock() if new else None
        if clock is None:
            return
        self._known = {_key(one) for one in newest}
        stamps = [stamp for one in new if (stamp := self.source.dated(one)) is not None]
        self.late += [max(0.0, (clock - stamp).total_seconds()) for stamp in stamps]

    def _newest(self) -> Sequence[Cursor]:
        """The cursors of the rows that are watched."""
        while True:
            cursors = list(self.source.span(self._low, None, MOST_ROWS).cursors)
            if len(cursors) < MOST_ROWS:
                return cursors
            self._low = cursors[MOST_ROWS // 2]
            clock, first = self.source.clock(), self.source.dated(self._low)
            if clock is not None and first is not None:
                self.reach = min(self.reach, max(0.0, (clock - first).total_seconds()))


def _key(cursor: Cursor) -> Hashable:
    return cursor.value, tuple(sorted((name, str(value)) for name, value in (cursor.tiebreaker or {}).items()))


def measure(pollers: Sequence[WiredPoller], runtime: Runtime, lasts: timedelta = LASTS) -> list[Finding]:
    """One finding for each poller, whose rows are watched at the same time. Reads only; raises no PollerError but
    LeaseHeld, if a batch of one runs in this process."""
    found: dict[int, Finding] = {}
    watches: dict[int, LateWatch] = {}
    with ExitStack() as alone:
        for place, poller in enumerate(pollers):
            alone.enter_context(poller.alone())
            try:
                source = poller.source
                watch = LateWatch(source) if isinstance(source, InspectableSource) else None
                if watch is not None and watch.begin():
                    watches[place] = watch
                else:
                    found[place] = _not_measured(poller)
            except PollerError as refused:
                found[place] = error(CHECK, refused.message, refused.next_step)
        began, pause = runtime.monotonic(), runtime.event()
        while watches and runtime.monotonic() - began < lasts.total_seconds():
            pause.wait(EVERY)
            for place, watch in list(watches.items()):
                try:
                    watch.look()
                except PollerError as refused:
                    found[place] = error(CHECK, refused.message, refused.next_step)
                    del watches[place]
        for place, watch in watches.items():
            try:
                found[place] = _judged(watch, watch.source.bound(), lasts)
            except PollerError as refused:
                found[place] = error(CHECK, refused.message, refused.next_step)
    return [found[place] for place in range(len(pollers))]


def _not_measured(poller: WiredPoller) -> Finding:
    kind = poller.source.describe().cursor_kind
    if kind == "timestamp+pk":
        return warn(CHECK, "There is no row yet, so how late rows become visible is not known.")
    return ok(CHECK, f"not measured: a cursor of kind {kind} does not say when a row was written")


def _judged(watch: LateWatch, bound: Bound, lasts: timedelta) -> Finding:
    """What the rows that came say of a source with this bound."""
    while_, late = format_duration(lasts), sorted(watch.late)
    if not late:
        return warn(
            CHECK,
            f"No row came within {while_}, so how late rows become visible is not known.",
            "Run it while the application writes.",
        )
    latest, enough_for_all = late[-1], enough(late[-1])
    rows = f"{len(late):,} row{'s' if len(late) != 1 else ''} that came within {while_}"
    often = f"half of them within {took(late[len(late) // 2])}, 99 % within {took(late[int(len(late) * 0.99)])}"
    message = (
        f"Of {rows} the latest became visible {took(latest)} after its timestamp ({often}): settle ="
        f' "{format_duration(enough_for_all)}" would do, if no transaction is longer than those of this time.'
        f" Rows that came more than {took(watch.reach)} late were not seen."
    )
    fix = f'settle = "{format_duration(enough_for_all)}"'
    if bound.kind == "heuristic" and bound.age_seconds is not None and latest > bound.age_seconds:
        return warn(CHECK, f"{message} The bound is a delay of {took(bound.age_seconds)}: rows can be missed.", fix)
    return Finding(CHECK, "ok", message, fix)
