"""What was learned of the table, and the statements over it.

Errors of the driver leave this module as they are; `poller.sources.SqlSource` translates them, in one place.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy.exc import DBAPIError, ProgrammingError

from poller.model.cursor import Cursor
from poller.ports import Page
from poller.sources.captured import Captured
from poller.sources.columns import RENDERED_BY_DATABASE, CursorColumn, Family, ValueFormat
from poller.sources.connection import Database
from poller.sources.database import Records, ResolvedNames
from poller.sources.facts import TableChanged, TableFacts
from poller.sources.inspection import Inspection, inspect_source
from poller.sources.keys import KeyReader, ReadPlan
from poller.sources.options import ReadOptions
from poller.sources.page import Relation, Statements
from poller.sources.parsing import ColumnReader, parse_cursor, settle
from poller.sources.records import PROBE, refuse_bad_keys, setting_changed

WATCHED_EVERY = 60.0
"""Seconds after which also a page without rows asks whether the table is as it was when it was looked at."""


class Learned:
    """What the database says of the source's table, asked once, until `forget`."""

    def __init__(
        self,
        database: Database,
        options: ReadOptions,
        relation: Relation,
        quote: Callable[[str], str],
        captured: Captured | None = None,
    ) -> None:
        self.captured = captured
        self.database = database
        self.options = options
        self.relation = relation
        self.quote = quote
        self._known: Inspection | None = None
        self._statements: Statements | None = None
        self._reader: KeyReader | None = None
        self._shown: Hashable = None
        """What a page showed of the types when they were not those that were known; until the next look."""
        self._agreed: tuple[Hashable, ...] = ()
        """What pages may show: what a result showed just before the look at the table, or the page that led to it."""
        self._empty_by: tuple[str, Any] | None = None
        """See `Dialect.emptiness`: the last inspection found no row, and it was so just before."""
        self._settled_last: tuple[tuple[CursorColumn, str], Cursor] | None = None
        self.whereabouts: ResolvedNames | None = None
        self._asked: Hashable = None
        """The place that was asked; None before the first."""
        self._watched = float("-inf")
        """When what no result shows was asked last."""
        self.looks = 0
        """The times that what was learned was forgotten: what rests on an earlier look serves no other page."""
        self.facts: TableFacts | None = None
        """The facts that are known, without the guarantee, which the bound gives."""
        self.ordering: tuple[str, ...] = ()
        """The ordering key's columns; empty: the key columns serve."""

    @property
    def known(self) -> Inspection | None:
        """What was learned so far, without asking."""
        return self._known

    def forget(self) -> None:
        """Ask again at the next read. The bound in force is not forgotten: it never moves back."""
        self._known = self._statements = self._reader = self._empty_by = self.facts = None
        if self.captured is not None:
            self.captured.forget()
        self.looks += 1

    def order_by(self, columns: Sequence[str]) -> None:
        """Read these columns as the ordering key; none: the key columns serve."""
        if self.captured is not None:
            self.captured.ordering = tuple(columns)
            self.captured.forget()
        elif tuple(columns) != self.ordering:
            self.ordering = tuple(columns)
            self.forget()

    def learn(self) -> Inspection | None:
        """What the database says of the table, asked once per place; None while its types are not known for lack of a
        row."""
        self._follow()
        if self.captured is not None:
            before = self.captured.last
            if self.captured.look() is not before:  # the columns may be others
                self._statements = None
        if self._known is None and not self._is_still_empty():
            empty_by = self._emptiness()
            known = inspect_source(self.database, self.options, self.relation, self.quote, self.ordering)
            if known is not None:
                self.database.may_set |= not known.provable  # a view may call any function
                self._agreed, self._shown = (known.seen, self._shown), None
                self._refuse_bad_keys(known)
            self._known, self._watched = known, time.monotonic()
            self._empty_by = empty_by if known is None else None
            self._asked = None  # another object may have the name
        self.locate()
        if self._known is not None and self.facts is None:
            self.facts = self._facts_of(self._known)
        return self._known

    def _facts_of(self, known: Inspection) -> TableFacts:
        said, digits, types = self.whereabouts, known.watch.digits, known.watch.types
        plain = [
            replace(
                one,
                nullable=None,
                odd=None,
                digits=digits.get(one.name, one.digits),
                sql_type=types.get(one.name, one.sql_type),
            )
            for one in (known.cursor, *known.keys)
        ]
        named = known.watch.object or (None if said is None else said.object)
        return TableFacts(plain[0], tuple(plain[1:]), server=None if said is None else said.server, object=named)

    def _emptiness(self) -> tuple[str, Any] | None:
        """As `Dialect.emptiness`. Where it cannot be asked, the inspection says why."""
        cursor = f"{self.relation.alias}.{self.quote(self.options.cursor_column)}"
        with contextlib.suppress(DBAPIError):
            return self.database.dialect.emptiness(self.relation.sql, cursor, self.database.run)
        return None

    def _is_still_empty(self) -> bool:
        """True if an inspection would find no row again, and everything else as it was."""
        if self._empty_by is None:
            return False
        sql, value = self._empty_by
        return bool(self.database.run(sql).rows[0][0] == value)

    def _follow(self) -> None:
        """At another place than before, nothing is known."""
        if self._asked is not None and self._asked != self.database.place():
            self._asked = None
            self.forget()

    def locate(self) -> None:
        """Ask the server what the configuration leaves to it, once per place: at another one, names may mean other
        tables."""
        self._follow()
        if self._asked is None:
            self.whereabouts = self._asked_where()
            self._asked = self.database.place()

    def _asked_where(self) -> ResolvedNames | None:
        """In one statement. None if there is nothing to ask, no such table, or a server that does not support the
        question, as some with PostgreSQL's protocol: then the source is what the configuration says. Raises what the
        driver raises."""
        dialect, mariadb = self.database.dialect, bool(getattr(self.database.engine.dialect, "is_mariadb", False))
        question = dialect.asks_where(self.options, mariadb=mariadb)
        ours = {} if self.captured is None else self.captured.said()
        if question is None:
            return ResolvedNames(ours) if ours else None
        for server in question.servers:
            with contextlib.suppress(DBAPIError if dialect.is_untried else ProgrammingError):
                found = self.database.run(question.sql.replace("{server}", server), question.params)
                in_use, schema, made, which = found.rows[0]
                if question.finds_table and schema is None:
                    return None
                said = {**ours, "database.database": in_use, "schema": schema}
                said |= dialect.reached(self.database.driver_connection())
                return ResolvedNames(said, None if made is None else str(made), None if which is None else str(which))
        return None

    def statements(self) -> Statements:
        """The statements over what is known; while nothing is, only those that need no types."""
        if self._statements is None:
            statements = self.statements_of(self.options.columns, ordered=True)
            if self._known is None:
                return statements
            self._statements = statements
        return self._statements

    def statements_of(
        self, columns: Sequence[str] | None, *, filtered: bool = True, ordered: bool = False
    ) -> Statements:
        """The same over other columns than the configured ones; None: all. Not `filtered`: over all rows, whether they
        pass the filter or not. `ordered`: also the ordering key's text, in the last columns of a record."""
        relation = self.relation if filtered else replace(self.relation, condition=None)
        if self.captured is not None and columns is None:
            joined, chosen = self.captured.selects()
            relation = replace(relation, joined=joined, chosen=chosen)
        known, options = self._known, self.options
        cursor = CursorColumn(options.cursor_column, Family.TEXT) if known is None else known.cursor
        keys = [CursorColumn(name, Family.TEXT) for name in options.pk_columns] if known is None else known.keys
        reader = KeyReader(options.cursor_kind, options.what, cursor, keys)
        projection = None
        if columns is not None:
            projection = tuple(dict.fromkeys([*columns, options.cursor_column, *options.pk_columns]))
        if known is not None:
            self._reader = reader
        ordering = known.ordering if ordered and known is not None else ()
        guard = "" if known is None else known.watch.guard
        return Statements(
            self.database.dialect, self.quote, relation, cursor, keys, projection, reader.helpers, ordering, guard
        )

    def parse_cursor(self, value: str, pk: Mapping[str, str] | None) -> Cursor:
        """See `parsing.parse_cursor`."""
        known = self.learn()
        return parse_cursor(self.column_reader(), known, value, pk)

    def column_reader(self) -> ColumnReader:
        return ColumnReader(self.database, self.options, self.statements())

    @property
    def ordering_texts(self) -> tuple[CursorColumn, ...]:
        """The ordering key's columns whose texts are the last of a page's, if it is not the key."""
        return () if self._known is None else self._known.ordering

    @property
    def helpers(self) -> tuple[CursorColumn, ...]:
        """Whose texts are behind the user's columns in a page, beside the cursor's."""
        return () if self._reader is None else tuple(self._reader.helpers)

    def plan(self, names: Sequence[str], exact: ValueFormat | None = None) -> ReadPlan:
        """Where the cursor's parts are in a page's records; `exact`: see `KeyReader.plan`."""
        assert self._reader is not None  # noqa: S101 - statements() made it
        return self._reader.plan(names[: len(names) - (exact is None) - len(self._reader.helpers)], exact)

    def exact(self, known: Inspection) -> ValueFormat | None:
        """How the cursor's text is made of the driver's value; None if the database makes it: also while values may
        come as text, and where the cursor's column is a key's too, whose text it then gives as well."""
        cursor = known.cursor
        in_key = cursor.family in RENDERED_BY_DATABASE and any(key.name == cursor.name for key in known.keys)
        if in_key or self.database.lenient:
            return None
        return self.database.dialect.exact(cursor, self.database.driver_connection())

    def settled(self, cursor: Cursor | None, known: Inspection) -> Cursor | None:
        """See `parsing.settle`; asked once per cursor."""
        if cursor is None or cursor.tiebreaker is not None:
            return cursor
        key = (known.cursor, cursor.value)
        if self._settled_last is None or self._settled_last[0] != key:
            self._settled_last = key, settle(self.column_reader(), cursor, known.cursor)
        return self._settled_last[1]

    def refuse_other_types(self, found: Records) -> None:
        """A page is of use only under the types that it was asked for. If it shows the same as the page that led to the
        look at the table, nothing was changed since: some statements show types otherwise than one without rows."""
        wanted = {self.options.cursor_column, *self.options.pk_columns}
        shown = self.database.dialect.seen(self.database.driver_connection(), found, wanted)
        if self._known is not None and shown not in self._agreed:
            self._shown = shown
            raise TableChanged

    def refuse_other_table(self, known: Inspection, page: Page) -> None:
        """As `refuse_other_types`, for what no result shows. A page without rows passes none, and a guarded one fails:
        then it is asked now and then."""
        watch, now = known.watch, time.monotonic()
        if watch.sql and ((page.rows and not watch.guard) or now - self._watched >= WATCHED_EVERY):
            self._watched = now
            rows = self.database.run(watch.sql, watch.params).rows
            if not rows or tuple(rows[0]) != watch.found:
                raise TableChanged

    def refuse_other_settings(self, known: Inspection, page: Page) -> None:
        """A function that a view, a query or a filter calls may have changed what texts depend on, since some row of
        this page. Raises: SourceError naming the setting."""
        rests_on = self.database.dialect.rests_on((known.cursor, *known.keys, *known.ordering))
        if not page.rows or not self.database.may_set or rests_on is None:
            return
        for (name, wanted), found in zip(rests_on.values.items(), self.database.run(rests_on.sql).rows[0], strict=True):
            if str(found) != wanted:
                self.database.discard()
                why = f"the session's {name} is {str(found)!r}, and the text of a cursor or a key depends on it"
                raise setting_changed(self.options, why)

    def _refuse_bad_keys(self, known: Inspection) -> None:
        """Where no constraint proves the key: check some rows now, and every row as it is read."""
        if known.provable and all(key.nullable is False for key in known.keys):
            return
        self._known = known
        try:
            checks = self.statements().bad_keys(PROBE)
        finally:
            self.forget()
        refuse_bad_keys(self.database, self.options, checks[: 1 if known.provable else 2])
