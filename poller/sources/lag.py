"""The number of rows that wait, and since when; and what that count spares: the page of a table if nothing waits."""

from __future__ import annotations

import time
from collections.abc import Hashable
from datetime import datetime

from sqlalchemy.exc import DBAPIError

from poller.model.cursor import Cursor
from poller.ports import Lag, Page
from poller.sources.columns import parse_utc
from poller.sources.facts import Inspection
from poller.sources.faults import Fault
from poller.sources.records import PROBE, refuse_nulls
from poller.sources.rows import is_later
from poller.sources.table import Learned

PAGE_EVERY = 60.0
"""Seconds for which the count of the lag alone may say that there is no row: a page also shows changed types."""


class Lags:
    """A source's lag, and its rows without a cursor, which are counted with it."""

    def __init__(self, table: Learned) -> None:
        self._table = table
        self._options = table.options
        self._database = table.database
        self._looked_through: tuple[Cursor | None, str] | None = None
        """The cursor and the bound between which the last page left no row."""
        self.is_slow = False
        """True if the last count was not there in time; it is counted with no page then."""
        self._empty: tuple[Hashable, float] | None = None
        """Where and when the last page was read that had no row; None if it had some."""
        self.none_behind = False
        """True if the last count found no row at all."""
        self.monotonic = time.monotonic

    def begin(self) -> None:
        """A page begins: what the last one left no row in says nothing any more."""
        self._looked_through = None

    def saw(self, page: Page, limit: int, after: Cursor | None, until: Cursor | None) -> None:
        """What a page says of the count after it: where it left no row."""
        rows, cursors, bound = page.rows, page.cursors, page.bound
        self._empty = None if rows else (self._place(), self.monotonic())
        if len(rows) < limit and until is None and bound.value is not None and not bound.inclusive:
            self._looked_through = cursors[-1] if rows else after, bound.value

    def none(self) -> Lag:
        """Where no row waits."""
        return Lag(seconds=0.0 if self._options.is_timed else None, pending=0)

    def count(self, known: Inspection, after: Cursor | None, cap: int, *, with_nulls: bool = False) -> Lag:
        """The lag behind a cursor. `with_nulls`: in the same statement, rows without a cursor are counted, and refused.
        Raises what the driver raises; SourceError."""
        after = self._not_looked_through(after)
        timed, count = self._options.is_timed, 0
        seconds = 0.0 if timed else None
        self.none_behind, self.is_slow = False, True
        statements = self._table.statements()
        for at, interval in enumerate(statements.ranges(after, None)):
            nulls = PROBE if with_nulls and not at else None
            more, oldest, clock, *missing = self._database.run(
                *statements.lag(interval, cap + 1 - count, nulls=nulls)
            ).rows[0]
            for number in missing:
                refuse_nulls(self._options, int(number))
            if timed and more and not count:
                if known.cursor.form is not None and not known.cursor.form.pattern().fullmatch(str(oldest)):
                    self._table.forget()  # it may sort above every bound, where no page finds it: see the next look
                moment = parse_utc(str(oldest), self._options.zone)
                age = None if moment is None else (datetime.fromisoformat(clock) - moment).total_seconds()
                seconds = None if age is None else max(0.0, age)
            count += int(more)
            if count > cap:
                break
        self.none_behind, self.is_slow = not count, False
        return Lag(seconds=seconds, pending=min(count, cap), pending_capped=count > cap)

    def count_in_time(self, known: Inspection, after: Cursor | None, cap: int, *, with_nulls: bool) -> Lag | None:
        """As `count`: it says as much as a page where it is none, and with NULLs in one statement. None: what waits
        cannot be counted in time (a page leaves out what is not committed yet)."""
        try:
            return self.count(known, after, cap, with_nulls=with_nulls)
        except DBAPIError as error:
            if self._database.dialect.classify(error) is not Fault.TIMEOUT:
                raise
            return None

    def spares_page(self) -> bool:
        """True if the last page of this place was empty, a moment ago, and nothing was behind it."""
        if self._empty is None or not self.none_behind:
            return False
        place, at = self._empty
        return place == self._place() and self.monotonic() - at < PAGE_EVERY

    def _place(self) -> Hashable:
        return self._database.place(), self._table.looks

    def _not_looked_through(self, after: Cursor | None) -> Cursor | None:
        """Right after a page that was not full: its bound, since no row was left below. With a filter that few rows
        pass, page and lag would both read all the others. Only once: without a page before it, the lag looks at
        everything."""
        seen, self._looked_through = self._looked_through, None
        if seen is None or seen[0] != after or (after is not None and not is_later(seen[1], after.value)):
            return after
        return Cursor(kind=self._options.cursor_kind, value=seen[1])

    def refuse_nulls(self) -> None:
        """`on_null_cursor`: checked at the first page and at every page that is not full; costs nothing for a column
        that is NOT NULL. Raises: SourceError."""
        if self.nulls_matter:
            found = self._database.run(*self._table.statements().nulls(PROBE))
            refuse_nulls(self._options, int(found.rows[0][0]))

    @property
    def nulls_matter(self) -> bool:
        """True if a row without a cursor is an error, and there may be one."""
        known = self._table.known
        return not (self._options.skip_nulls or (known is not None and known.cursor.nullable is False))
