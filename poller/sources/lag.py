"""How many rows wait, and since when; and what that count spares: the page of a table where nothing waits."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import replace
from datetime import datetime

from sqlalchemy.exc import DBAPIError

from poller.model.cursor import Cursor
from poller.ports import Lag, TieAgain
from poller.sources.columns.moments import parse_utc
from poller.sources.connection import Database
from poller.sources.facts import Does, judge, refuse_changed
from poller.sources.faults import Fault
from poller.sources.inspection import Inspection
from poller.sources.keys import is_later
from poller.sources.learned import Learned
from poller.sources.options import Options
from poller.sources.page import Relation
from poller.sources.records import PROBE, refuse_null_cursors, refuse_nulls

_INCOMPARABLE = frozenset({Fault.VALUE, Fault.RANGE, Fault.OTHER})
PAGE_EVERY = 60.0
"""Seconds for which the count of the lag alone may say that there is no row: a page also shows changed types."""


class Lags(Learned):
    """A source's lag, and its rows without a cursor, which are counted with it."""

    def __init__(self, database: Database, options: Options, relation: Relation, quote: Callable[[str], str]) -> None:
        super().__init__(database, options, relation, quote)
        self._looked_through: tuple[Cursor | None, str] | None = None
        """The cursor and the bound between which the last page left no row."""
        self.lag_is_slow = False
        """True if the last count was not there in time; it is counted with no page then."""
        self._empty: tuple[Hashable, float] | None = None
        """Where and when the last page was read that had no row; None where it had some."""
        self._idle = False
        """Whether no row at all was behind it."""
        self.monotonic = time.monotonic

    def forget(self) -> None:
        """As `Learned.forget`; the next page is read."""
        super().forget()
        self._empty = None

    def lag(self, after: Cursor | None, cap: int) -> Lag:
        """See `ports.Source.lag`."""
        known = self.learn()
        if known is None:
            return self._none()
        after, _ = self._placed(known, self._settled(after, known))
        return self._lag(known, self._not_looked_through(after), cap)

    def _refuse_changed(self, cursor: Cursor | None, known: Inspection) -> None:
        """Raises: SourceError, if the cursor's text cannot have come from the columns as they are."""
        o = self.options
        refuse_changed(cursor, known.cursor, known.keys, what=o.what, is_table=o.table is not None)

    def _placed(self, known: Inspection, after: Cursor | None) -> tuple[Cursor | None, TieAgain | None]:
        """Where to begin behind a cursor whose facts may be others than the present ones. Raises: SourceUnavailable,
        until they are as they were; SourceError."""
        is_present = self._facts is not None and self.basis is self._facts[1] and self._bare is self._facts[0]
        if after is not None and self.basis is not None and self._bare is not None and not is_present:
            old, new = self.basis, replace(self._bare, guarantee=self.basis.guarantee)
            verdict = judge(old, new, after)
            if verdict.does is Does.LOOK:
                verdict = judge(old, new, after, same_row=after.tiebreaker is None or self._holds_row(after))
            if verdict.does is Does.REPEAT and verdict.cursor is not None:
                return self._settled(verdict.cursor, known), TieAgain(verdict.cursor, verdict.why, verdict.replaced)
            if verdict.does is Does.REFUSE and self._is_held(known, after):
                return after, None
            if verdict.does is not Does.GO_ON:
                self.forget()
                raise verdict.error(self.options.what)
        self._refuse_changed(after, known)
        return after, None

    def _is_held(self, known: Inspection, after: Cursor) -> bool:  # noqa: ARG002 - see Session
        """Whether a table that began anew holds all rows back until a person acts, as long as its numbers are below the
        cursor, and remembers it."""
        return False

    def _holds_row(self, after: Cursor) -> bool:
        """Whether the table holds the row at a cursor, at this cursor or a later one; or no row at or before it, so
        that none is passed. Whether it passes the filter does not matter. A table that cannot be compared with the
        cursor does not hold it; nor is a number that is the key itself any proof, unless maintenance makes a table
        another: in a table that began anew, another row has it soon."""
        statements = self.statements_of((), filtered=False)
        try:
            asked = [statements.of_key_from(after), statements.up_to(after)]
            found = [bool(self.database.run(*statements.any_of(one)).rows) for one in asked]
        except DBAPIError as error:
            if self.database.dialect.classify(error) not in _INCOMPARABLE:
                raise
            return False
        except (KeyError, ValueError):
            return False
        is_key = self.options.cursor_column in self.options.pk_columns
        proves = self._timed or not is_key or not self.database.dialect.keeps_objects
        return (found[0] and proves) or not found[1]

    def _none(self) -> Lag:
        return Lag(seconds=0.0 if self._timed else None, pending=0)

    def _lag(self, known: Inspection, after: Cursor | None, cap: int, *, with_nulls: bool = False) -> Lag:
        """`with_nulls`: in the same statement, rows without a cursor are counted, and refused."""
        count, seconds = 0, 0.0 if self._timed else None
        self._idle, self.lag_is_slow = False, True
        statements = self.statements()
        for at, interval in enumerate(statements.ranges(after, None)):
            nulls = PROBE if with_nulls and not at else None
            more, oldest, clock, *missing = self.database.run(
                *statements.lag(interval, cap + 1 - count, nulls=nulls)
            ).rows[0]
            for number in missing:
                refuse_nulls(self.options, int(number))
            if self._timed and more and not count:
                if known.cursor.form is not None and not known.cursor.form.pattern().fullmatch(str(oldest)):
                    self.forget()  # it may sort above every bound, where no page finds it: the next look refuses it
                moment = parse_utc(str(oldest), self.options.zone)
                age = None if moment is None else (datetime.fromisoformat(clock) - moment).total_seconds()
                seconds = None if age is None else max(0.0, age)
            count += int(more)
            if count > cap:
                break
        self._idle, self.lag_is_slow = not count, False
        return Lag(seconds=seconds, pending=min(count, cap), pending_capped=count > cap)

    @property
    def _timed(self) -> bool:
        return self.options.cursor_kind == "timestamp+pk"

    def _not_looked_through(self, after: Cursor | None) -> Cursor | None:
        """Right after a page that was not full: its bound, since no row was left below. With a filter that few rows
        pass, page and lag would both read all the others. Only once: without a page before it, the lag looks at
        everything."""
        seen, self._looked_through = self._looked_through, None
        if seen is None or seen[0] != after or (after is not None and not is_later(seen[1], after.value)):
            return after
        return Cursor(kind=self.options.cursor_kind, value=seen[1])

    def _is_idle(self) -> bool:
        """Whether the last page of this place was empty, a moment ago, and nothing was behind it."""
        if self._empty is None or not self._idle:
            return False
        place, at = self._empty
        return place == self.database.place() and self.monotonic() - at < PAGE_EVERY

    def _lag_of_page(self, known: Inspection, after: Cursor | None, cap: int, *, with_nulls: bool) -> Lag | None:
        """The lag that is asked for next, counted now: it says as much as a page where it is none, and with NULLs in
        one statement. None: what waits cannot be counted in time (a page leaves out what is not committed yet)."""
        try:
            return self._lag(known, after, cap, with_nulls=with_nulls)
        except DBAPIError as error:
            if self.database.dialect.classify(error) is not Fault.TIMEOUT:
                raise
            return None

    def _refuse_nulls(self) -> None:
        """`on_null_cursor`: checked at the first page and at every page that is not full; costs nothing for a column
        that is NOT NULL."""
        if self._nulls_matter:
            refuse_null_cursors(self.database, self.options, self.statements())

    @property
    def _nulls_matter(self) -> bool:
        return not (self.options.skip_nulls or (self._known is not None and self._known.cursor.nullable is False))
