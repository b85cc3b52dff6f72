"""The reads: pages, counts and single rows, under the bound in force, from where the caller's cursor stands;
or from behind it, if the facts of the table on which it rests are others now (`Basis`).

Errors of the driver leave this module as they are; `poller.sources.SqlSource` translates them, in one place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from poller import once
from poller.errors import SourceUnavailable
from poller.model.cursor import Cursor
from poller.ports import Bound, Lag, Page, Row, Table, TieAgain
from poller.sources.bound import render
from poller.sources.columns import NUMBERS, CursorColumn, Family, ValueFormat
from poller.sources.current_bound import CurrentBound
from poller.sources.database import Records
from poller.sources.facts import (
    GONE,
    Does,
    Guarantee,
    Inspection,
    TableChanged,
    TableFacts,
    judge,
    read_facts,
    refuse_changed,
)
from poller.sources.faults import Fault
from poller.sources.lag import Lags
from poller.sources.page import Span
from poller.sources.parsing import parse_keys
from poller.sources.records import (
    refuse_bad_records,
    refuse_escaped,
    unreadable,
)
from poller.sources.rows import (
    CONVERSION_ERRORS,
    JsonValues,
    LazyCursors,
    LazyKeys,
    LazyOrdering,
    LazyRows,
    changeable,
    with_json,
)
from poller.sources.sqlite.forms import FormWatch
from poller.sources.table import Learned

if TYPE_CHECKING:
    from poller.sources.arrow import ArrowTables, Read


_INCOMPARABLE = frozenset({Fault.VALUE, Fault.RANGE, Fault.OTHER})
_T = TypeVar("_T")
_TRIES = 3


class SourceSession:
    """A source's reads, over what was learned of its table."""

    def __init__(self, table: Learned, tables: ArrowTables | None) -> None:
        self.table = table
        self.tables = tables
        self.database = table.database
        self.options = table.options
        self.captured = table.captured
        self.basis = Basis(table)
        self.lags = Lags(table)
        self.bounding = CurrentBound(table.database, table.options)
        self._coming: tuple[Hashable, str] | None = None
        """A place, and the kind that the bound will have there; while nothing is known."""
        self._json: tuple[Inspection, frozenset[str]] | None = None
        self.error_text = True
        """True if messages may quote what a row holds."""

    @cached_property
    def forms(self) -> FormWatch:
        """Looks for times in another form, if they are stored as text."""
        return FormWatch(self.database, self.options, self.table.relation, self.table.quote)

    def table_of(self, rows: Sequence[Row], *, asking: bool = True) -> Table | None:
        """See `ports.Source.table_of`; `asking`: whether the database may be asked."""
        tables = self.tables
        return None if tables is None else self._anew(lambda: tables.of_rows(self, rows, asking=asking))

    def page(
        self,
        after: Cursor | None,
        limit: int,
        until: Cursor | None = None,
        *,
        again: bool = False,
        lag_cap: int | None = None,
    ) -> Page:
        """See `ports.Source.page`; `until`: no row beyond it; `again`: below the last bound where it may serve again
        (`ports.Source.next_page`)."""
        cap = None if self.lags.is_slow else lag_cap
        page = self._anew(lambda: self._page(after, limit, until, again=again, lag_cap=cap))
        if page.rows:  # a cursor of it comes next
            self.basis.rest_on(page.facts)
        return page

    def _anew(self, work: Callable[[], _T]) -> _T:
        """Do the work; again, with another look at the table, if what it read shows other types. Raises:
        SourceUnavailable, if they change each time."""
        for _ in range(_TRIES):
            try:
                return work()
            except Exception as error:
                if not isinstance(error, TableChanged) and GONE not in str(getattr(error, "orig", None)):
                    raise
                once.forget()
                self.table.forget()
        raise SourceUnavailable(
            f"{self.options.what} was changed {_TRIES} times while a page of it was read: it shows other types, or"
            " another table, than the database says.",
            table=self.options.what,
            next_step="The next tick reads the page again; if this stays, report it with the table's definition.",
        )

    def _page(
        self,
        after: Cursor | None,
        limit: int,
        until: Cursor | None,
        *,
        again: bool = False,
        lag_cap: int | None = None,
    ) -> Page:
        self.lags.begin()
        asked, table, lags = after, self.table, self.lags
        known = table.learn()
        if known is None:
            lags.refuse_nulls()
            self._stopped(Page([], [], Bound("none")), asked)
            return Page(rows=[], cursors=[], bound=self.to_come(after), lag=None if lag_cap is None else lags.none())
        after, until = table.settled(after, known), table.settled(until, known)
        stands, (after, tie) = after, self.basis.begin(known, after, self._is_held)
        if known.cursor.form is not None:
            self.forms.look_at_times(known.cursor, after)
        reused = self.bounding.again(known) if again else None
        bound = reused or self._sampled(known, stands, after)
        if (less := self.basis.loses(bound)) is not None:
            self.look_again()
            raise less
        facts = self.basis.facts()
        if bound.value is None and bound.kind != "none":
            return Page(rows=[], cursors=[], bound=bound)
        if lag_cap is not None and until is None and not again and lags.spares_page():
            lag = lags.count_in_time(known, after, lag_cap, with_nulls=lags.nulls_matter)
            if lag is None or table.known is None:  # too slow, or the table has to be looked at again
                return self._page(asked, limit, until)
            if lags.none_behind:  # no row at all, so none below the bound
                return self._stopped(Page(rows=[], cursors=[], bound=bound, lag=lag), after)
        intervals = table.statements().ranges(after, bound.value, inclusive=bound.inclusive, until=until)
        page = self._read(known, intervals, limit, bound)
        table.refuse_other_table(known, page)
        table.refuse_other_settings(known, page)
        page = self._stopped(replace(page, facts=facts, again=tie), after)
        lags.saw(page, limit, after, until)
        full = len(page.rows) >= limit
        if reused is not None and not full:
            return self._page(asked, limit, until, lag_cap=lag_cap)  # rows that became ready since must not wait
        if page.rows or until is not None or lag_cap is None or not lags.nulls_matter:
            if not full or after is None:
                lags.refuse_nulls()
            return page
        lag = lags.count_in_time(known, after, lag_cap, with_nulls=True)
        if lag is None:
            lags.refuse_nulls()  # by itself: the page is none the worse for a lag that is not known
        return replace(page, lag=lag)

    def _sampled(self, known: Inspection, stands: Cursor | None, after: Cursor | None) -> Bound:
        """The present bound; in a process that has just begun, once it is known, for a while, if rows wait."""
        bound = self.sample(known, stands)
        if bound.value is None and bound.kind != "none":
            self.lags.refuse_nulls()
            bound = self.bounding.wait(bound, known, self.table.statements(), lambda: self._waiting(after))
        return bound

    def _stopped(self, page: Page, after: Cursor | None) -> Page:
        """See `Captured.stopped`."""
        return page if self.captured is None else self.captured.stopped(page, after)

    def lag(self, after: Cursor | None, cap: int) -> Lag:
        """See `ports.Source.lag`."""
        known = self.table.learn()
        if known is None:
            return self.lags.none()
        after, _ = self.basis.begin(known, self.table.settled(after, known), self._is_held)
        return self.lags.count(known, after, cap)

    def clock(self) -> datetime:
        """See `ports.InspectableSource.clock`."""
        return datetime.fromisoformat(str(self.database.run(self.table.statements().clock()).rows[0][0]))

    def cursor_before(self, moment: datetime) -> Cursor | None:
        """See `ports.InspectableSource.cursor_before`."""
        known = self.table.learn() if self.options.is_timed else None
        if known is None:
            return None
        return Cursor(kind=self.options.cursor_kind, value=render(moment, known.cursor, self.options.zone))

    def look_again(self) -> None:
        """At the next read everything is asked again, also what is fixed when a session is opened."""
        self.table.forget()
        self.bounding.close()
        if self.database.dialect.keeps_privileges:
            self.database.discard()

    def span(self, low: Cursor | None, high: Cursor | None, limit: int) -> Page:
        """See `ports.InspectableSource.span`."""

        def work() -> Page:
            known = self.table.learn()
            if known is None:
                return Page(rows=[], cursors=[], bound=Bound("none"))
            first, last = self.table.settled(low, known), self.table.settled(high, known)
            for end in (first, last):
                self.basis.refuse_changed(end, known)
            return self._read(known, self.table.statements().ranges(first, None, until=last), limit, Bound("none"))

        return self._anew(work)

    def row_of(self, pk: Mapping[str, str]) -> Page:
        """See `SqlSource.row_of`."""

        def work() -> Page:
            known = self.table.learn()
            if known is None:
                return Page(rows=[], cursors=[], bound=Bound("none"))
            key = parse_keys(self.table.column_reader(), known, pk)
            return self._read(known, [self.table.statements().of_key(key)], 2, Bound("none"))

        return self._anew(work)

    def _read(self, known: Inspection, intervals: Sequence[Span], limit: int, bound: Bound) -> Page:
        """Up to `limit` rows of some intervals, one after the other, each with the cursor right after it. Where the
        text of a cursor cannot be made of the driver's value, the database renders those of the page."""
        exact = self.table.exact(known)
        if self.tables is not None:
            read = self.tables.read(self, intervals, limit, exact=exact is not None)
            if read is not None:
                return self._page_of(known, read, exact, bound)
        found = self._collect(known, intervals, limit, exact)
        plan = self.table.plan(found.names, exact)
        if exact is not None and not exact.covers(found.rows, plan.text_at):
            found = self._collect(known, intervals, limit, None)
            plan = self.table.plan(found.names)
        records, names, dialect = found.rows, found.names, self.database.dialect
        refuse_bad_records(known, self.options, dialect, records, plan, names)
        own = tuple(map(str, names[: plan.width]))
        if self.database.exact and (marked := self._json_columns(known) & set(own)):
            records = with_json(records, [own.index(name) for name in marked])
        places = changeable(records, plan.width, found.description, dialect.scalar_codes)
        rows = LazyRows(records, own, places, found.documents)
        if self.captured is not None:
            changes = self.captured.rows(rows)
            keys = self.captured.keys(changes)
            return Page(changes, LazyCursors(records, plan), bound, keys)
        return Page(
            rows=rows,
            cursors=LazyCursors(records, plan),
            bound=bound,
            ordering=LazyOrdering(records, self.table.ordering) if known.ordering else LazyKeys(records, plan),
            table=self.tables.of_records(records, own) if self.tables is not None and records else None,
        )

    def _page_of(self, known: Inspection, read: Read, exact: ValueFormat | None, bound: Bound) -> Page:
        """A page whose rows came as a table."""
        if read.table is None:
            return Page(rows=[], cursors=[], bound=bound)
        plan = self.table.plan(read.names, exact and replace(exact, alike=True))  # a column of a table has one type
        refuse_bad_records(known, self.options, self.database.dialect, read.records, plan, read.names)
        return Page(
            rows=read.rows,
            cursors=LazyCursors(read.records, plan),
            bound=bound,
            ordering=LazyOrdering(read.records, self.table.ordering) if known.ordering else None,
            table=read.table,
        )

    def _json_columns(self, known: Inspection) -> frozenset[str]:
        """The columns of JSON that the driver returns as plain text; asked once for what is known."""
        table, schema = self.options.table, self.options.schema_name
        if table is None:
            return frozenset()
        if self._json is None or self._json[0] is not known:
            dialect, names = self.database.dialect, frozenset[str]()
            try:
                quoted = None if schema is None else self.table.quote(schema)
                names = dialect.json_columns(self.table.quote(table), quoted, self.database.run)
            except DBAPIError as error:
                if dialect.classify(error) is not Fault.FORBIDDEN:  # of a view, whose definition is not for everyone
                    raise
            self._json = known, names
        return self._json[1]

    def _collect(self, known: Inspection, intervals: Sequence[Span], limit: int, exact: ValueFormat | None) -> Records:
        """The records of all intervals; of their columns' names those without the ordering key's."""
        records: list[Sequence[Any]] = []
        names: tuple[str, ...] = ()
        description: Sequence[Sequence[Any]] = ()
        documents, any_text = JsonValues(), False
        for interval in intervals:
            found = self._select(known, interval, limit - len(records), exact is not None)
            names, description = found.names[: len(found.names) - len(known.ordering)], found.description
            documents.join(found.documents)
            self.table.refuse_other_types(found)
            any_text = any_text or found.any_text
            if found.escaped:
                refuse_escaped(self.options, found, self.table.plan(names))
            records.extend(found.rows)
            if len(records) >= limit:
                break
        self.database.page_held_text = any_text or bool(self.database.page_held_text)
        return Records(names, records, description, documents=documents)

    def _select(self, known: Inspection, interval: Span, limit: int, exact: bool) -> Records:
        """Up to `limit` rows of an interval. Raises: SourceError naming a value that cannot be read even as text."""
        try:
            return self.database.run(*self.table.statements().select(interval, limit, exact=exact))
        except (SQLAlchemyError, *CONVERSION_ERRORS) as error:
            if not self.database.lenient or not self.database.dialect.unreadable(error):
                raise

            def read(columns: Sequence[str], rows: int) -> Records:
                return self.database.run(*self.table.statements_of(columns).select(interval, rows))

            raise unreadable(
                self.database, self.options, known.names, limit, error, read=read, plan=self.table.plan
            ) from None

    def count_between(self, low: Cursor | None, high: Cursor, cap: int) -> tuple[int, bool]:
        """See `ports.InspectableSource.count_between`."""
        known = self.table.learn()
        if known is None:
            return 0, False
        first, last = self.table.settled(low, known), self.table.settled(high, known) or high
        count = int(self.database.run(*self.table.statements().between(first, last, cap + 1)).rows[0][0])
        return min(count, cap), count > cap

    def cursor_at(self, low: Cursor | None, high: Cursor, number: int) -> Cursor | None:
        """See `SqlSource.cursor_at`."""
        known = self.table.learn()
        if known is None:
            return None
        first, last = self.table.settled(low, known), self.table.settled(high, known) or high
        found = self.database.run(*self.table.statements_of(()).at(first, last, number))
        return LazyCursors(found.rows, self.table.plan(found.names))[0] if found.rows else None

    def null_cursors(self, cap: int) -> int:
        """See `ports.InspectableSource.null_cursors`."""
        known = self.table.learn()
        if known is not None and known.cursor.nullable is False:
            return 0
        return int(self.database.run(*self.table.statements().nulls(cap)).rows[0][0])

    def now(self) -> Cursor | None:
        """The present bound as a cursor; None (the beginning) while no row shows the form of its values."""
        known = self.table.learn()
        if known is None:
            return None
        timed = self.options.is_timed
        bound = self.bounding.wait(self.sample(known), known, self.table.statements(), lambda: True)
        value = bound.value
        if bound.kind == "none" and timed:
            value = render(self.clock(), known.cursor, self.options.zone)
        elif not timed and (bound.inclusive or bound.kind in {"none", "heuristic"}):
            rows = self.database.run(self.table.statements().highest()).rows
            if not rows:
                return None
            value = str(rows[0][0])
            if known.cursor.family in NUMBERS and re.fullmatch(r"-?\d+", value):
                value = str(int(value) + 1)
        if value is None:
            raise self.unbounded(bound, "Try again, or set `start_from` to a value.")
        return Cursor(kind=self.options.cursor_kind, value=value)

    def unbounded(self, bound: Bound, step: str) -> SourceUnavailable:
        """Nothing can begin yet, since the bound is not known; who holds it is named."""
        held = "" if bound.held_by is None else f" ({bound.held_by})"
        message = f"{self.options.what}: the present bound is not known: {bound.reason}{held}."
        return SourceUnavailable(message, table=self.options.what, next_step=step)

    def now_of_changes(self) -> Cursor:
        """As `now`, of a change table, which may be empty: behind what was pruned of it then. Raises: as `page`."""
        found = self.now()
        if found is not None or self.captured is None:
            return found or Cursor(kind=self.options.cursor_kind, value="1")
        return Cursor(kind=self.options.cursor_kind, value=str(self.captured.installed.pruned_through + 1))

    def sample(self, known: Inspection, after: Cursor | None = None) -> Bound:
        """See `CurrentBound.sample`."""
        return self.bounding.sample(known, self.table.statements(), after)

    def _is_held(self, known: Inspection, after: Cursor) -> bool:
        """See `Basis`."""
        if self.options.is_timed or self.database.dialect.keeps_objects:
            return False
        return self.sample(known, after).below_checkpoint

    def to_come(self, after: Cursor | None = None) -> Bound:
        """The kind that the bound will have, while no row shows the form of the cursor's values. Where there is a
        checkpoint, `after`, the bound says whether the server is below it: once there are rows again, it may have
        passed it."""
        kind = {"strict": "observed-strict", "delay": "heuristic"}.get(self.options.bound, self.options.bound)
        known = Inspection(
            names=(), cursor=CursorColumn(self.options.cursor_column, Family.TEXT), keys=(), provable=False
        )
        if after is not None and not self.options.is_timed:
            bound = self.sample(known, after)
            if bound.below_checkpoint:
                return bound
        if kind == "auto":
            place = self.database.place(), self.table.looks
            if self._coming is None or self._coming[0] != place:
                self._coming = place, self.bounding.choose(known, self.table.statements()).rule.kind
            kind = self._coming[1]
        return Bound(kind=kind, reason="no rows yet")

    def _waiting(self, after: Cursor | None) -> bool:
        """True if there is any row after `after`, whatever the bound is."""
        statements = self.table.statements()
        return any(
            self.database.run(*statements.lag(interval, 1)).rows[0][0] for interval in statements.ranges(after, None)
        )


# -------------------------------------------------------------------------------------------- the facts behind a cursor


class Basis:
    """The facts behind a cursor, compared with those of the table."""

    def __init__(self, table: Learned) -> None:
        self._table = table
        self._options = table.options
        self.known: TableFacts | None = None
        """What the caller's cursor rests on, as far as that is known."""
        self._read_of: Mapping[str, Any] | None = None
        """What it was read of."""
        self._present: tuple[TableFacts, TableFacts, dict[str, Any]] | None = None
        """The table's facts, the same with the last bound's guarantee, and this as JSON."""

    def rest_on(self, facts: Mapping[str, Any] | None) -> None:
        """See `ports.Source.rests_on`."""
        if self._present is not None and facts == self._present[2]:
            self.known = self._present[1]
        elif facts is not self._read_of:
            self.known = read_facts(facts, self._options.cursor_column, self._options.pk_columns)
        self._read_of = facts

    def facts(self, bound: Bound | None = None) -> dict[str, Any] | None:
        """See `ports.Source.facts`; `bound`: what is guaranteed now."""
        bare, present = self._table.facts, self._present
        if bare is None:
            return None
        had = None if present is None else present[1].guarantee
        has = had if bound is None else Guarantee(bound.kind, bound.reason or "", self._options.asks_for_bound)
        if present is None or present[0] is not bare or (had and had.kind) != (has and has.kind):
            whole = replace(bare, guarantee=has)
            present = self._present = bare, whole, whole.as_json()
        return present[2]

    def loses(self, bound: Bound) -> Exception | None:
        """The error if a bound guarantees less than the facts that the cursor rests on."""
        self.facts(bound)
        if self._present is None or self.known is None or self.known is self._present[1]:
            return None
        verdict = judge(replace(self._present[1], guarantee=self.known.guarantee), self._present[1], None)
        return verdict.error(self._options.what) if verdict.does is Does.WAIT else None

    def begin(
        self, known: Inspection, after: Cursor | None, held: Callable[[Inspection, Cursor], bool]
    ) -> tuple[Cursor | None, TieAgain | None]:
        """Where to begin behind a cursor.

        Args:
            held: whether a table that began again holds all rows back until a person acts, as long as its numbers are
                below the cursor, and remembers it.
        Raises: SourceUnavailable, until its facts are as they were; SourceError.
        """
        bare, present = self._table.facts, self._present
        is_present = present is not None and self.known is present[1] and bare is present[0]
        if after is not None and self.known is not None and bare is not None and not is_present:
            old, new = self.known, replace(bare, guarantee=self.known.guarantee)
            verdict = judge(old, new, after)
            if verdict.does is Does.LOOK:
                verdict = judge(old, new, after, same_row=after.tiebreaker is None or self._holds_row(after))
            if verdict.does is Does.REPEAT and verdict.cursor is not None:
                again = TieAgain(verdict.cursor, verdict.why, verdict.replaced)
                return self._table.settled(verdict.cursor, known), again
            if verdict.does is Does.REFUSE and held(known, after):
                return after, None
            if verdict.does is not Does.GO_ON:
                self._table.forget()
                raise verdict.error(self._options.what)
        self.refuse_changed(after, known)
        return after, None

    def refuse_changed(self, cursor: Cursor | None, known: Inspection) -> None:
        """Raises: SourceError, if the cursor's text cannot have come from the columns as they are."""
        o = self._options
        refuse_changed(cursor, known.cursor, known.keys, what=o.what, is_table=o.table is not None)

    def _holds_row(self, after: Cursor) -> bool:
        """True if the table holds the row at a cursor, at this cursor or a later one; or no row at or before it, so
        that none is passed. Whether it passes the filter does not matter. A table that cannot be compared with the
        cursor does not hold it; nor is a number that is the key itself any proof, unless maintenance makes a table
        another: in a table that began again, another row has it soon."""
        statements, database = self._table.statements_of((), filtered=False), self._table.database
        try:
            asked = [statements.of_key_from(after), statements.up_to(after)]
            found = [bool(database.run(*statements.any_of(one)).rows) for one in asked]
        except DBAPIError as error:
            if database.dialect.classify(error) not in _INCOMPARABLE:
                raise
            return False
        except (KeyError, ValueError):
            return False
        is_key = self._options.cursor_column in self._options.pk_columns
        proves = self._options.is_timed or not is_key or not database.dialect.keeps_objects
        return (found[0] and proves) or not found[1]
