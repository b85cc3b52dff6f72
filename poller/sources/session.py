"""The reads: pages, counts and single rows, under the bound in force.

Errors of the driver leave this module as they are; `poller.sources.SqlSource` translates them, in one place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from poller import once
from poller.errors import SourceUnavailable
from poller.model.cursor import Cursor
from poller.ports import Bound, Page, Row, Table
from poller.sources.blame import unreadable
from poller.sources.bound import render
from poller.sources.columns import NUMBERS, Column, Family
from poller.sources.columns.exact import Exact
from poller.sources.connection import Database
from poller.sources.current_bound import CurrentBound
from poller.sources.database import Records
from poller.sources.facts import Does, Guarantee, TableChanged, judge, read_facts
from poller.sources.faults import Fault
from poller.sources.inspection import Inspection
from poller.sources.keys import LazyCursors, LazyKeys, LazyOrdering
from poller.sources.lag import Lags
from poller.sources.options import Options
from poller.sources.page import Range, Relation
from poller.sources.parsing import parse_keys
from poller.sources.records import (
    refuse_bad_records,
    refuse_escaped,
)
from poller.sources.rows import LazyRows, changeable, with_json
from poller.sources.sqlite.forms import FormWatch
from poller.sources.values import CONVERSION_ERRORS, Documents

_T = TypeVar("_T")
_TRIES = 3


class Session(Lags):
    """A source's reads, over what was learned of its table."""

    def __init__(self, database: Database, options: Options, relation: Relation, quote: Callable[[str], str]) -> None:
        super().__init__(database, options, relation, quote)
        self.bounding = CurrentBound(database, options)
        self.forms = FormWatch(database, options, relation, quote)
        self._coming: tuple[Hashable, str] | None = None
        """A place, and the kind that the bound will have there; while nothing is known."""
        self._json: tuple[Inspection, frozenset[str]] | None = None
        self.error_text = True
        """Whether messages may quote what a row holds."""

    def forget(self) -> None:
        """As `Learned.forget`; the last bound serves no other page."""
        super().forget()
        self._coming = None
        self.bounding.drop()

    def table_of(self, rows: Sequence[Row], *, asking: bool = True) -> Table | None:  # noqa: ARG002 - see TableSession
        """See `ports.Source.table_of`; `asking`: whether the database may be asked."""
        return None

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
        cap = None if self.lag_is_slow else lag_cap
        page = self._anew(lambda: self._page(after, limit, until, again=again, lag_cap=cap))
        if page.rows:  # a cursor of it comes next
            self.rest_on(page.facts)
        return page

    def _anew(self, work: Callable[[], _T]) -> _T:
        """Do the work; again, with another look at the table, if what it read shows other types. Raises:
        SourceUnavailable, if they change each time."""
        for _ in range(_TRIES):
            try:
                return work()
            except TableChanged:
                once.forget()
                self.forget()
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
        self._looked_through = None
        asked = after
        known = self.learn()
        if known is None:
            self._refuse_nulls()
            return Page(rows=[], cursors=[], bound=self.to_come(after), lag=None if lag_cap is None else self._none())
        after, until = self._settled(after, known), self._settled(until, known)
        stands, (after, tie) = after, self._placed(known, after)
        self.forms.look_at_times(known.cursor, after)
        reused = self.bounding.again(known) if again else None
        bound = reused or self.sample(known, stands)
        if bound.value is None and bound.kind != "none":
            self._refuse_nulls()
            bound = self.bounding.wait(bound, known, self.statements(), lambda: self._waiting(after))
        facts = self._guaranteed(bound)
        if bound.value is None and bound.kind != "none":
            return Page(rows=[], cursors=[], bound=bound)
        if lag_cap is not None and until is None and not again and self._is_idle():
            lag = self._lag_of_page(known, after, lag_cap, with_nulls=self._nulls_matter)
            if lag is None or self.known is None:  # too slow, or the table has to be looked at again
                return self._page(asked, limit, until)
            if self._idle:
                return Page(rows=[], cursors=[], bound=bound, lag=lag)  # no row at all, so none below the bound
        intervals = self.statements().ranges(after, bound.value, inclusive=bound.inclusive, until=until)
        page = self._read(known, intervals, limit, bound)
        self._refuse_changed_table(known, page)
        self._refuse_changed_settings(known, page)
        page = replace(page, facts=facts, again=tie)
        rows, cursors = page.rows, page.cursors
        self._empty = None if rows else (self.database.place(), self.monotonic())
        if reused is not None and len(rows) < limit:
            return self._page(asked, limit, until, lag_cap=lag_cap)  # rows that became ready since must not wait
        if len(rows) < limit and until is None and bound.value is not None and not bound.inclusive:
            self._looked_through = cursors[-1] if rows else after, bound.value
        if rows or until is not None or lag_cap is None or not self._nulls_matter:
            if len(rows) < limit or after is None:
                self._refuse_nulls()
            return page
        lag = self._lag_of_page(known, self._not_looked_through(after), lag_cap, with_nulls=True)
        if lag is None:
            self._refuse_nulls()  # by itself: the page is none the worse for a lag that is not known
        return replace(page, lag=lag)

    def rest_on(self, facts: Mapping[str, Any] | None) -> None:
        """See `ports.Source.rests_on`."""
        if self._facts is not None and facts == self._facts[2]:
            self.basis = self._facts[1]
        elif facts is not self._read_basis:
            self.basis = read_facts(facts, self.options.cursor_column, self.options.pk_columns)
        self._read_basis = facts

    def facts(self, bound: Bound | None = None) -> dict[str, Any] | None:
        """See `ports.Source.facts`; `bound`: what is guaranteed now."""
        bare, known = self._bare, self._facts
        if bare is None:
            return None
        had = None if known is None else known[1].guarantee
        has = had if bound is None else Guarantee(bound.kind, bound.reason or "", self.options.asks_for_bound)
        if known is None or known[0] is not bare or (had and had.kind) != (has and has.kind):
            whole = replace(bare, guarantee=has)
            known = self._facts = bare, whole, whole.as_json()
        return known[2]

    def _guaranteed(self, bound: Bound) -> dict[str, Any] | None:
        """The facts with what a bound guarantees. Raises: SourceUnavailable, if this is less than it was."""
        facts = self.facts(bound)
        if self._facts is not None and self.basis is not None and self.basis is not self._facts[1]:
            had, has = self.basis.guarantee, self._facts[1]
            verdict = judge(replace(has, guarantee=had), has, None)
            if verdict.does is Does.WAIT:
                self.look_again()
                raise verdict.error(self.options.what)
        return facts

    def look_again(self) -> None:
        """At the next read everything is asked anew, also what is fixed when a session is opened."""
        self.forget()
        self.bounding.choose_again()
        if self.database.dialect.keeps_privileges:
            self.database.discard()

    def span(self, low: Cursor | None, high: Cursor | None, limit: int) -> Page:
        """See `ports.InspectableSource.span`."""

        def work() -> Page:
            known = self.learn()
            if known is None:
                return Page(rows=[], cursors=[], bound=Bound("none"))
            first, last = self._settled(low, known), self._settled(high, known)
            for end in (first, last):
                self._refuse_changed(end, known)
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
        found = self._collect(known, intervals, limit, exact)
        plan = self.plan(found.names, exact)
        if exact is not None and not exact.covers(found.rows, plan.text_at):
            found = self._collect(known, intervals, limit, None)
            plan = self.plan(found.names)
        records, names, dialect = found.rows, found.names, self.database.dialect
        refuse_bad_records(known, self.options, dialect, records, plan, names)
        own = tuple(map(str, names[: plan.width]))
        if self.database.exact and (marked := self._json_columns(known) & set(own)):
            records = with_json(records, [own.index(name) for name in marked])
        places = changeable(records, plan.width, found.description, dialect.scalar_codes)
        return Page(
            rows=LazyRows(records, own, places, found.documents),
            cursors=LazyCursors(records, plan),
            bound=bound,
            ordering=LazyOrdering(records, self.ordering) if known.ordering else LazyKeys(records, plan),
        )

    def _json_columns(self, known: Inspection) -> frozenset[str]:
        """The columns of JSON that the driver returns as plain text; asked once for what is known."""
        table, schema = self.options.table, self.options.schema_name
        if table is None:
            return frozenset()
        if self._json is None or self._json[0] is not known:
            dialect, names = self.database.dialect, frozenset[str]()
            try:
                quoted = None if schema is None else self.quote(schema)
                names = dialect.json_columns(self.quote(table), quoted, self.database.run)
            except DBAPIError as error:
                if dialect.classify(error) is not Fault.FORBIDDEN:  # of a view, whose definition is not for everyone
                    raise
            self._json = known, names
        return self._json[1]

    def _collect(self, known: Inspection, intervals: Sequence[Range], limit: int, exact: Exact | None) -> Records:
        """The records of all intervals; of their columns' names those without the ordering key's."""
        records: list[Sequence[Any]] = []
        names: tuple[str, ...] = ()
        description: Sequence[Sequence[Any]] = ()
        documents, any_text = Documents(), False
        for interval in intervals:
            found = self._select(known, interval, limit - len(records), exact is not None)
            names, description = found.names[: len(found.names) - len(known.ordering)], found.description
            documents.join(found.documents)
            self._refuse_changed_types(found)
            any_text = any_text or found.any_text
            if found.escaped:
                refuse_escaped(self.options, found, self.plan(names))
            records.extend(found.rows)
            if len(records) >= limit:
                break
        self.database.page_held_text = any_text or bool(self.database.page_held_text)
        return Records(names, records, description, documents=documents)

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
            value = render(datetime.fromisoformat(clock), known.cursor, self.options.zone)
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

    def _is_held(self, known: Inspection, after: Cursor) -> bool:
        if self._timed or self.database.dialect.keeps_objects:
            return False
        return self.sample(known, after).below_checkpoint

    def to_come(self, after: Cursor | None = None) -> Bound:
        """The kind that the bound will have, while no row shows the form of the cursor's values. Where there is a
        checkpoint, `after`, the bound says whether the server is below it: once there are rows again, it may have
        passed it."""
        kind = {"strict": "observed-strict", "delay": "heuristic"}.get(self.options.bound, self.options.bound)
        known = Inspection(names=(), cursor=Column(self.options.cursor_column, Family.TEXT), keys=(), provable=False)
        if after is not None and self.options.cursor_kind != "timestamp+pk":
            bound = self.sample(known, after)
            if bound.below_checkpoint:
                return bound
        if kind == "auto":
            place = self.database.place()
            if self._coming is None or self._coming[0] != place:
                self._coming = place, self.bounding.choose(known, self.statements()).rule.kind
            kind = self._coming[1]
        return Bound(kind=kind, reason="no rows yet")

    def _waiting(self, after: Cursor | None) -> bool:
        """Whether there is any row after `after`, whatever the bound is."""
        statements = self.statements()
        return any(
            self.database.run(*statements.lag(interval, 1)).rows[0][0] for interval in statements.ranges(after, None)
        )
