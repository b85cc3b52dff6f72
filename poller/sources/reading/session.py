"""Everything that needs the database: what was learned of the table, the bound in force, and the reads themselves.

Errors of the driver leave this module as they are; `sqlalchemy.SqlSource` translates them, in one place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy.engine import Connection
from sqlalchemy.exc import SQLAlchemyError

from poller.errors import SourceUnavailable
from poller.model.cursor import Cursor
from poller.ports import Bound, Lag, Page, Row
from poller.sources import bounds
from poller.sources.columns import NUMBERS, Column, Family
from poller.sources.columns.moments import parse_utc
from poller.sources.connection import Database
from poller.sources.dialects.base import Records
from poller.sources.dialects.unreadable import CONVERSION_ERRORS
from poller.sources.options import Options
from poller.sources.reading.blame import unreadable
from poller.sources.reading.continuity import refuse_changed
from poller.sources.reading.current_bound import CurrentBound
from poller.sources.reading.forms import FormWatch
from poller.sources.reading.inspection import Inspection, inspect_source
from poller.sources.reading.keys import KeyReader, LazyCursors, ReadPlan, is_later, row_maker
from poller.sources.reading.page import Range, Relation, Statements
from poller.sources.reading.parsing import ColumnReader, parse_cursor, settle
from poller.sources.reading.records import (
    PROBE,
    refuse_bad_keys,
    refuse_bad_records,
    refuse_escaped,
    refuse_null_cursors,
)
from poller.sources.reading.whereabouts import Whereabouts, ask


class _TypesChanged(Exception):
    """A column that the cursor rests on has another type than it had at the last page."""


class Session:
    """The source's side of the database."""

    def __init__(self, database: Database, options: Options, relation: Relation, quote: Callable[[str], str]) -> None:
        self.database = database
        self.options = options
        self.relation = relation
        self.quote = quote
        self._known: Inspection | None = None
        self._statements: Statements | None = None
        self._reader: KeyReader | None = None
        self._types: tuple[Any, ...] | None = None
        self._looked_through: tuple[Cursor | None, str] | None = None
        """After which cursor the last page left no row below which bound."""
        self._settled_last: tuple[tuple[Column, str], Cursor] | None = None
        self.bounding = CurrentBound(database, options)
        self.whereabouts: Whereabouts | None = None
        self._asked: Connection | None = None
        self.forms = FormWatch(database, options, relation, quote)
        self.error_text = True
        """Whether what is said may quote what a row holds."""

    # ------------------------------------------------------------------------------------------------ what is known

    @property
    def known(self) -> Inspection | None:
        """What was learned so far, without asking."""
        return self._known

    def forget(self) -> None:
        """Learn anew at the next read. The bound in force is not forgotten: it never moves back."""
        self._known = self._statements = self._reader = self._types = None

    def learn(self) -> Inspection | None:
        """What the database says of the table, asked once; None while there is no row to tell from."""
        if self._known is None:
            known = inspect_source(self.database, self.options, self.relation, self.quote)
            if known is not None:
                self._refuse_bad_keys(known)
            self._known = known
        self.locate()
        return self._known

    def locate(self) -> None:
        """Ask the server what the configuration leaves to it, once per connection: another may mean other names."""
        connection = self.database.connection()
        if self._asked is not connection:
            self.whereabouts = ask(self.database, self.options)
            self._asked = connection

    def statements(self) -> Statements:
        """The statements over what is known; while nothing is, only those that need no types."""
        if self._statements is None:
            statements = self.statements_of(self.options.columns)
            if self._known is None:
                return statements
            self._statements = statements
        return self._statements

    def statements_of(self, columns: Sequence[str] | None, *, filtered: bool = True) -> Statements:
        """The same over other columns than are configured; None: all. Not `filtered`: over all rows, whatever the
        filter takes of them."""
        relation = self.relation if filtered else replace(self.relation, condition=None)
        known, options = self._known, self.options
        cursor = Column(options.cursor_column, Family.TEXT) if known is None else known.cursor
        keys = [Column(name, Family.TEXT) for name in options.pk_columns] if known is None else known.keys
        reader = KeyReader(options.cursor_kind, options.what, cursor, keys)
        projection = None
        if columns is not None:
            projection = tuple(dict.fromkeys([*columns, options.cursor_column, *options.pk_columns]))
        if known is not None:
            self._reader = reader
        return Statements(self.database.dialect, self.quote, relation, cursor, keys, projection, reader.helpers)

    def parse_cursor(self, value: str, pk: Mapping[str, str] | None) -> Cursor:
        """See `parsing.parse_cursor`."""
        known = self.learn()
        return parse_cursor(self._column_reader(), known, value, pk)

    def _column_reader(self) -> ColumnReader:
        return ColumnReader(self.database, self.options, self.statements())

    def plan(self, names: Sequence[str]) -> ReadPlan:
        """Where the cursor's parts stand in a page's records."""
        assert self._reader is not None  # noqa: S101 - statements() made it
        return self._reader.plan(names[: len(names) - 1 - len(self._reader.helpers)])

    # -------------------------------------------------------------------------------------------------------- reads

    def page(self, after: Cursor | None, limit: int, until: Cursor | None = None) -> Page:
        """See `ports.Source.page`; `until`: no row beyond it."""
        return self._anew(lambda: self._page(after, limit, until))

    def _anew(self, work: Callable[[], Page]) -> Page:
        try:
            return work()
        except _TypesChanged:  # what was learned of the table is out of date
            self.forget()
            return work()

    def _page(self, after: Cursor | None, limit: int, until: Cursor | None) -> Page:
        self._looked_through = None
        known = self.learn()
        if known is None:
            self._refuse_nulls()
            return Page(rows=[], cursors=[], bound=self.to_come(after))
        after, until = self._settled(after, known), self._settled(until, known)
        refuse_changed(after, known, self.options)
        self.forms.look_at_times(known.cursor, after)
        bound = self.sample(known, after)
        if bound.value is None and bound.kind != "none":
            self._refuse_nulls()
            bound = self.bounding.wait(bound, known, self.statements(), lambda: self._waiting(after))
        if bound.value is None and bound.kind != "none":
            return Page(rows=[], cursors=[], bound=bound)
        stretches = self.statements().ranges(after, bound.value, inclusive=bound.inclusive, until=until)
        rows, cursors = self._read(known, stretches, limit)
        if len(rows) < limit or after is None:
            self._refuse_nulls()
        if len(rows) < limit and until is None and bound.value is not None and not bound.inclusive:
            self._looked_through = cursors[-1] if rows else after, bound.value
        return Page(rows=rows, cursors=cursors, bound=bound)

    def span(self, low: Cursor | None, high: Cursor | None, limit: int) -> Page:
        """Up to `limit` rows after `low` and, where it is given, up to `high`, whatever the bound is: for looking back
        over what was delivered, never for delivering."""

        def work() -> Page:
            known = self.learn()
            if known is None:
                return Page(rows=[], cursors=[], bound=Bound("none"))
            first, last = self._settled(low, known), self._settled(high, known)
            for end in (first, last):
                refuse_changed(end, known, self.options)
            rows, cursors = self._read(known, self.statements().ranges(first, None, until=last), limit)
            return Page(rows=rows, cursors=cursors, bound=Bound("none"))

        return self._anew(work)

    def _settled(self, cursor: Cursor | None, known: Inspection) -> Cursor | None:
        """See `parsing.settle`; asked once per cursor."""
        if cursor is None or cursor.tiebreaker is not None:
            return cursor
        key = (known.cursor, cursor.value)
        if self._settled_last is None or self._settled_last[0] != key:
            self._settled_last = key, settle(self._column_reader(), cursor, known.cursor)
        return self._settled_last[1]

    def _read(
        self, known: Inspection, stretches: Sequence[Range], limit: int
    ) -> tuple[Sequence[Row], Sequence[Cursor]]:
        """Up to `limit` rows of some stretches, one after the other, each with the cursor right after it."""
        records: list[Sequence[Any]] = []
        names: tuple[str, ...] = ()
        any_text = False
        for stretch in stretches:
            found = self._select(known, stretch, limit - len(records))
            names = found.names
            self._refuse_changed_types(found)
            any_text = any_text or found.any_text
            if found.escaped:
                refuse_escaped(self.options, found, self.plan(names))
            records.extend(found.rows)
            if len(records) >= limit:
                break
        self.database.page_held_text = any_text or bool(self.database.page_held_text)
        plan = self.plan(names)
        refuse_bad_records(known, self.options, self.database.dialect, records, plan, names)
        make = row_maker(names[: plan.text_at])
        return [make(record) for record in records], LazyCursors(records, plan)

    def _select(self, known: Inspection, stretch: Range, limit: int) -> Records:
        """Up to `limit` rows of a stretch. Raises: SourceError naming a value that cannot be read as text either."""
        try:
            return self.database.run(*self.statements().select(stretch, limit))
        except (SQLAlchemyError, *CONVERSION_ERRORS) as error:
            if not self.database.lenient or not self.database.dialect.unreadable(error):
                raise

            def read(columns: Sequence[str], rows: int) -> Records:
                return self.database.run(*self.statements_of(columns).select(stretch, rows))

            raise unreadable(
                self.database, self.options, known.names, limit, error, read=read, plan=self.plan
            ) from None

    def _refuse_changed_types(self, found: Records) -> None:
        """A column's type that was changed under way raises no error in the database: the driver tells it."""
        wanted = {self.options.cursor_column, *self.options.pk_columns}
        described = zip(found.names, found.description, strict=False)
        types = tuple((name, one[1], *one[4:6]) for name, one in described if name in wanted)
        if self._types is not None and types != self._types:
            raise _TypesChanged
        self._types = types

    def lag(self, after: Cursor | None, cap: int) -> Lag:
        """See `ports.Source.lag`."""
        known = self.learn()
        if known is not None:
            after = self._settled(after, known)
            refuse_changed(after, known, self.options)
            after = self._not_looked_through(after)
        timed = self.options.cursor_kind == "timestamp+pk"
        if known is None:
            return Lag(seconds=0.0 if timed else None, pending=0)
        count, seconds = 0, 0.0 if timed else None
        statements = self.statements()
        for stretch in statements.ranges(after, None):
            more, oldest, clock = self.database.run(*statements.lag(stretch, cap + 1 - count)).rows[0]
            if timed and more and not count:
                if known.cursor.form is not None and not known.cursor.form.pattern().fullmatch(str(oldest)):
                    self.forget()  # it may sort above every bound, where no page meets it: the next look refuses it
                moment = parse_utc(str(oldest), self.options.zone)
                age = None if moment is None else (datetime.fromisoformat(clock) - moment).total_seconds()
                seconds = None if age is None else max(0.0, age)
            count += int(more)
            if count > cap:
                break
        return Lag(seconds=seconds, pending=min(count, cap), pending_capped=count > cap)

    def _not_looked_through(self, after: Cursor | None) -> Cursor | None:
        """Right after a page that was not full: its bound, for no row was left below. With a filter that few rows pass
        both would read all the others. Once only: without a page before it, the lag looks at everything."""
        seen, self._looked_through = self._looked_through, None
        if seen is None or seen[0] != after or (after is not None and not is_later(seen[1], after.value)):
            return after
        return Cursor(kind=self.options.cursor_kind, value=seen[1])

    def count_between(self, low: Cursor | None, high: Cursor, cap: int) -> tuple[int, bool]:
        """How many rows stand after `low` and up to `high`, and whether `cap` cut the count."""
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
        """How many rows have no cursor, counted up to `cap`."""
        known = self.learn()
        if known is not None and known.cursor.nullable is False:
            return 0
        return int(self.database.run(*self.statements().nulls(cap)).rows[0][0])

    def now(self) -> Cursor | None:
        """The bound of this moment as a position; None (the beginning) where there is no row to tell the form from."""
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
                f"{self.options.what}: the bound of this moment is not known: {bound.reason}.",
                table=self.options.what,
                next_step="Try again, or set `start_from` to a value.",
            )
        return Cursor(kind=self.options.cursor_kind, value=value)

    def sample(self, known: Inspection, after: Cursor | None = None) -> Bound:
        """The bound now, in statements of its own, before the page that begins at the checkpoint `after`."""
        return self.bounding.sample(known, self.statements(), after)

    def to_come(self, after: Cursor | None = None) -> Bound:
        """Of which kind the bound will be, while there is no row to tell the form of the cursor's values from. Where
        there is a checkpoint already, `after`, the bound says whether the server lies below it: with rows again, it may
        have passed it."""
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
        """Whether any row stands after `after`, bound or not."""
        statements = self.statements()
        return any(
            self.database.run(*statements.lag(stretch, 1)).rows[0][0] for stretch in statements.ranges(after, None)
        )

    # ----------------------------------------------------------------------------------------------------- refusals

    def _refuse_nulls(self) -> None:
        """`on_null_cursor`: looked for on the first page and wherever a page is not full; a column that is NOT NULL
        costs nothing."""
        if self.options.skip_nulls or (self._known is not None and self._known.cursor.nullable is False):
            return
        refuse_null_cursors(self.database, self.options, self.statements())

    def _refuse_bad_keys(self, known: Inspection) -> None:
        """Where no constraint proves the key: look at some rows at once, and at every row as it is read."""
        if known.provable and all(key.nullable is False for key in known.keys):
            return
        self._known = known
        try:
            checks = self.statements().bad_keys(PROBE)
        finally:
            self.forget()
        refuse_bad_keys(self.database, self.options, checks[: 1 if known.provable else 2])
