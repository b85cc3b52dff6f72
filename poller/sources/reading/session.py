"""The reads: pages, counts and single rows, under the bound in force.

Errors of the driver leave this module as they are; `poller.sources.SqlSource` translates them, in one place.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from poller.errors import SourceUnavailable
from poller.model.cursor import Cursor
from poller.ports import Bound, Lag, Page
from poller.sources import bounds
from poller.sources.columns import NUMBERS, Column, Family
from poller.sources.columns.exact import Exact
from poller.sources.columns.moments import parse_utc
from poller.sources.connection import Database
from poller.sources.dialects.base import Records
from poller.sources.dialects.unreadable import CONVERSION_ERRORS
from poller.sources.options import Options
from poller.sources.reading.blame import unreadable
from poller.sources.reading.continuity import refuse_changed
from poller.sources.reading.current_bound import CurrentBound
from poller.sources.reading.forms import FormWatch
from poller.sources.reading.inspection import Inspection
from poller.sources.reading.keys import LazyCursors, LazyOrdering, is_later
from poller.sources.reading.learned import Learned, TypesChanged
from poller.sources.reading.page import Range, Relation
from poller.sources.reading.parsing import parse_keys
from poller.sources.reading.records import (
    PROBE,
    refuse_bad_records,
    refuse_escaped,
    refuse_null_cursors,
    refuse_nulls,
)
from poller.sources.reading.rows import rows_of

LAG_KEPT = 1.0
"""Seconds: how old a lag may be that was counted with an empty page."""


@dataclass(frozen=True, slots=True)
class _TakenLag:
    """A lag that was counted with an empty page: for which cursor and cap, and when, by the monotonic clock."""

    of: tuple[Cursor | None, int]
    at: float
    lag: Lag


class Session(Learned):
    """A source's reads, over what was learned of its table."""

    def __init__(self, database: Database, options: Options, relation: Relation, quote: Callable[[str], str]) -> None:
        super().__init__(database, options, relation, quote)
        self._looked_through: tuple[Cursor | None, str] | None = None
        """The cursor and the bound between which the last page left no row."""
        self._lag_cap: int | None = None
        """Of the last question for the lag; None while nobody asks for it."""
        self._taken_lag: _TakenLag | None = None
        self.monotonic = time.monotonic
        self.bounding = CurrentBound(database, options)
        self.forms = FormWatch(database, options, relation, quote)
        self.error_text = True
        """Whether messages may quote what a row holds."""

    def forget(self) -> None:
        """As `Learned.forget`; the last bound serves no other page."""
        super().forget()
        self.bounding.drop()

    def page(self, after: Cursor | None, limit: int, until: Cursor | None = None, *, again: bool = False) -> Page:
        """See `ports.Source.page`; `until`: no row beyond it; `again`: below the last bound where it may serve again
        (`ports.ReusingSource.next_page`)."""
        return self._anew(lambda: self._page(after, limit, until, again=again))

    def _anew(self, work: Callable[[], Page]) -> Page:
        try:
            return work()
        except TypesChanged:
            self.forget()
            return work()

    def _page(self, after: Cursor | None, limit: int, until: Cursor | None, *, again: bool = False) -> Page:
        self._looked_through = self._taken_lag = None
        asked = after
        known = self.learn()
        if known is None:
            self._refuse_nulls()
            return Page(rows=[], cursors=[], bound=self.to_come(after))
        after, until = self._settled(after, known), self._settled(until, known)
        refuse_changed(after, known, self.options)
        self.forms.look_at_times(known.cursor, after)
        reused = self.bounding.again(known) if again else None
        bound = reused or self.sample(known, after)
        if bound.value is None and bound.kind != "none":
            self._refuse_nulls()
            bound = self.bounding.wait(bound, known, self.statements(), lambda: self._waiting(after))
        if bound.value is None and bound.kind != "none":
            return Page(rows=[], cursors=[], bound=bound)
        intervals = self.statements().ranges(after, bound.value, inclusive=bound.inclusive, until=until)
        page = self._read(known, intervals, limit, bound)
        rows, cursors = page.rows, page.cursors
        if reused is not None and len(rows) < limit:
            return self._page(after, limit, until)  # rows that became ready since must not wait
        if len(rows) < limit and until is None and bound.value is not None and not bound.inclusive:
            self._looked_through = cursors[-1] if rows else after, bound.value
        if rows or until is not None or self._lag_cap is None or not self._nulls_matter:
            if len(rows) < limit or after is None:
                self._refuse_nulls()
            return page
        cap = self._lag_cap  # the lag is asked for next: both counts in one statement
        at = self.monotonic()
        lag = self._lag(known, self._not_looked_through(after), cap, with_nulls=True)
        self._taken_lag = _TakenLag((asked, cap), at, lag)
        return page

    def span(self, low: Cursor | None, high: Cursor | None, limit: int) -> Page:
        """See `ports.InspectableSource.span`."""

        def work() -> Page:
            known = self.learn()
            if known is None:
                return Page(rows=[], cursors=[], bound=Bound("none"))
            first, last = self._settled(low, known), self._settled(high, known)
            for end in (first, last):
                refuse_changed(end, known, self.options)
            return self._read(known, self.statements().ranges(first, None, until=last), limit, Bound("none"))

        return self._anew(work)

    def row_of(self, pk: Mapping[str, str]) -> Page:
        """See `SqlSource.row_of`."""

        def work() -> Page:
            known = self.learn()
            if known is None:
                return Page(rows=[], cursors=[], bound=Bound("none"))
            key = parse_keys(self._column_reader(), known, pk)
            return self._read(known, [self.statements().of_key(key)], 2, Bound("none"))

        return self._anew(work)

    def _read(self, known: Inspection, intervals: Sequence[Range], limit: int, bound: Bound) -> Page:
        """Up to `limit` rows of some intervals, one after the other, each with the cursor right after it. Where the
        text of a cursor cannot be made of the driver's value, the database renders those of the page."""
        exact = self.exact(known)
        records, names = self._collect(known, intervals, limit, exact)
        plan = self.plan(names, exact)
        if exact is not None and not exact.covers(records, plan.text_at):
            records, names = self._collect(known, intervals, limit, None)
            plan = self.plan(names)
        refuse_bad_records(known, self.options, self.database.dialect, records, plan, names)
        return Page(
            rows=rows_of(records, names[: plan.width]),
            cursors=LazyCursors(records, plan),
            bound=bound,
            ordering=LazyOrdering(records, self.ordering) if known.ordering else None,
        )

    def _collect(
        self, known: Inspection, intervals: Sequence[Range], limit: int, exact: Exact | None
    ) -> tuple[list[Sequence[Any]], tuple[str, ...]]:
        """The records, and the names of their columns without the ordering key's."""
        records: list[Sequence[Any]] = []
        names: tuple[str, ...] = ()
        any_text = False
        for interval in intervals:
            found = self._select(known, interval, limit - len(records), exact is not None)
            names = found.names[: len(found.names) - len(known.ordering)]
            self._refuse_changed_types(found)
            any_text = any_text or found.any_text
            if found.escaped:
                refuse_escaped(self.options, found, self.plan(names))
            records.extend(found.rows)
            if len(records) >= limit:
                break
        self.database.page_held_text = any_text or bool(self.database.page_held_text)
        return records, names

    def _select(self, known: Inspection, interval: Range, limit: int, exact: bool) -> Records:
        """Up to `limit` rows of an interval. Raises: SourceError naming a value that cannot be read even as text."""
        try:
            return self.database.run(*self.statements().select(interval, limit, exact=exact))
        except (SQLAlchemyError, *CONVERSION_ERRORS) as error:
            if not self.database.lenient or not self.database.dialect.unreadable(error):
                raise

            def read(columns: Sequence[str], rows: int) -> Records:
                return self.database.run(*self.statements_of(columns).select(interval, rows))

            raise unreadable(
                self.database, self.options, known.names, limit, error, read=read, plan=self.plan
            ) from None

    def lag(self, after: Cursor | None, cap: int) -> Lag:
        """See `ports.Source.lag`."""
        taken, self._taken_lag, self._lag_cap = self._taken_lag, None, cap
        if taken is not None and taken.of == (after, cap) and self.monotonic() - taken.at < LAG_KEPT:
            return taken.lag
        known = self.learn()
        if known is None:
            return Lag(seconds=0.0 if self._timed else None, pending=0)
        after = self._settled(after, known)
        refuse_changed(after, known, self.options)
        return self._lag(known, self._not_looked_through(after), cap)

    def _lag(self, known: Inspection, after: Cursor | None, cap: int, *, with_nulls: bool = False) -> Lag:
        """`with_nulls`: in the same statement, rows without a cursor are counted, and refused."""
        count, seconds = 0, 0.0 if self._timed else None
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

    def count_between(self, low: Cursor | None, high: Cursor, cap: int) -> tuple[int, bool]:
        """See `ports.InspectableSource.count_between`."""
        known = self.learn()
        if known is None:
            return 0, False
        first, last = self._settled(low, known), self._settled(high, known) or high
        count = int(self.database.run(*self.statements().between(first, last, cap + 1)).rows[0][0])
        return min(count, cap), count > cap

    def cursor_at(self, low: Cursor | None, high: Cursor, number: int) -> Cursor | None:
        """See `SqlSource.cursor_at`."""
        known = self.learn()
        if known is None:
            return None
        first, last = self._settled(low, known), self._settled(high, known) or high
        found = self.database.run(*self.statements_of(()).at(first, last, number))
        return LazyCursors(found.rows, self.plan(found.names))[0] if found.rows else None

    def null_cursors(self, cap: int) -> int:
        """See `ports.InspectableSource.null_cursors`."""
        known = self.learn()
        if known is not None and known.cursor.nullable is False:
            return 0
        return int(self.database.run(*self.statements().nulls(cap)).rows[0][0])

    def now(self) -> Cursor | None:
        """The present bound as a cursor; None (the beginning) while no row shows the form of its values."""
        known = self.learn()
        if known is None:
            return None
        timed = self.options.cursor_kind == "timestamp+pk"
        bound = self.bounding.wait(self.sample(known), known, self.statements(), lambda: True)
        value = bound.value
        if bound.kind == "none" and timed:
            clock = self.database.run(self.statements().clock()).rows[0][0]
            value = self.bounding.context(known, self.statements()).render(datetime.fromisoformat(clock))
        elif not timed and (bound.inclusive or bound.kind in {"none", "heuristic"}):
            rows = self.database.run(self.statements().highest()).rows
            if not rows:
                return None
            value = str(rows[0][0])
            if known.cursor.family in NUMBERS and re.fullmatch(r"-?\d+", value):
                value = str(int(value) + 1)
        if value is None:
            raise SourceUnavailable(
                f"{self.options.what}: the present bound is not known: {bound.reason}.",
                table=self.options.what,
                next_step="Try again, or set `start_from` to a value.",
            )
        return Cursor(kind=self.options.cursor_kind, value=value)

    def sample(self, known: Inspection, after: Cursor | None = None) -> Bound:
        """See `CurrentBound.sample`."""
        return self.bounding.sample(known, self.statements(), after)

    def to_come(self, after: Cursor | None = None) -> Bound:
        """The kind that the bound will have, while no row shows the form of the cursor's values. Where there is a
        checkpoint, `after`, the bound says whether the server is below it: once there are rows again, it may have
        passed it."""
        kind: str = self.options.bound
        known = Inspection(names=(), cursor=Column(self.options.cursor_column, Family.TEXT), keys=(), provable=False)
        if after is not None and self.options.cursor_kind != "timestamp+pk":
            bound = self.sample(known, after)
            if bound.below_checkpoint:
                return bound
        if kind == "auto":
            connection = self.database.connection()
            kind = bounds.choose(kind, self.bounding.context(known, self.statements()), connection).kind
        return Bound(kind=kind, reason="no rows yet")

    def _waiting(self, after: Cursor | None) -> bool:
        """Whether there is any row after `after`, whatever the bound is."""
        statements = self.statements()
        return any(
            self.database.run(*statements.lag(interval, 1)).rows[0][0] for interval in statements.ranges(after, None)
        )

    def _refuse_nulls(self) -> None:
        """`on_null_cursor`: checked at the first page and at every page that is not full; costs nothing for a column
        that is NOT NULL."""
        if self._nulls_matter:
            refuse_null_cursors(self.database, self.options, self.statements())

    @property
    def _nulls_matter(self) -> bool:
        return not (self.options.skip_nulls or (self._known is not None and self._known.cursor.nullable is False))
