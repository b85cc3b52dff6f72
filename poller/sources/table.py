"""What is known of the table: what the database says of it, asked once, and the statements over it.

Errors of the driver leave this module as they are; `poller.sources.SqlSource` translates them, in one place.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy.engine import Inspector
from sqlalchemy.exc import DBAPIError, ProgrammingError

from poller.config.suggestions import did_you_mean
from poller.databases import catalog
from poller.errors import ConfigError, SourceError
from poller.model.cursor import Cursor
from poller.ports import Page
from poller.sources.captured import Captured
from poller.sources.columns import (
    MOMENTS,
    NUMBERS,
    RENDERED_BY_DATABASE,
    CursorColumn,
    Family,
    Reflected,
    ValueFormat,
    proof_of,
)
from poller.sources.connection import Database
from poller.sources.database import Dialect, Records, ResolvedNames, TypeLookup
from poller.sources.facts import Inspection, TableChanged, TableFacts
from poller.sources.faults import SCHEMA_FAULTS
from poller.sources.options import ReadOptions
from poller.sources.page import Relation, Statements
from poller.sources.parsing import ColumnReader, parse_cursor, settle
from poller.sources.records import PROBE, refuse_bad_keys, setting_changed
from poller.sources.rows import KeyReader, ReadPlan
from poller.sources.sqlite.forms import mixed_forms

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
        self.known: Inspection | None = None
        """What was learned so far."""
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

    def forget(self) -> None:
        """Ask again at the next read. The bound in force is not forgotten: it never moves back."""
        self.known = self._statements = self._reader = self._empty_by = self.facts = None
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
        if self.known is None and not self._is_still_empty():
            empty_by = self._emptiness()
            known = inspect_source(self.database, self.options, self.relation, self.quote, self.ordering)
            if known is not None:
                self.database.may_set |= not known.provable  # a view may call any function
                self._agreed, self._shown = (known.seen, self._shown), None
                self._refuse_bad_keys(known)
            self.known, self._watched = known, time.monotonic()
            self._empty_by = empty_by if known is None else None
            self._asked = None  # another object may have the name
        self.locate()
        if self.known is not None and self.facts is None:
            self.facts = self._facts_of(self.known)
        return self.known

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
            if self.known is None:
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
        known, options = self.known, self.options
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
        known = self.learn()  # before it is asked by what
        return parse_cursor(self.column_reader(), known, value, pk)

    def column_reader(self) -> ColumnReader:
        return ColumnReader(self.database, self.options, self.statements())

    @property
    def ordering_texts(self) -> tuple[CursorColumn, ...]:
        """The ordering key's columns whose texts are the last of a page's, if it is not the key."""
        return () if self.known is None else self.known.ordering

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
        if self.known is not None and shown not in self._agreed:
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
        self.known = known
        try:
            checks = self.statements().bad_keys(PROBE)
        finally:
            self.forget()
        refuse_bad_keys(self.database, self.options, checks[: 1 if known.provable else 2])


# ------------------------------------------------------------------------------------------------------- the inspection
# What the database says of the table or query: columns, types, and whether the key is unique.


def inspect_source(
    database: Database,
    options: ReadOptions,
    relation: Relation,
    quote: Callable[[str], str],
    ordering: Sequence[str] = (),
) -> Inspection | None:
    """Ask once. None if the types are not known until a row exists (SQLite, queries).

    `ordering`: the ordering key's columns, if they are not the key columns.

    Raises: SourceError naming the table or column; ConfigError naming `cursor_time_zone`; what the driver raises.
    """
    wanted = dict.fromkeys([options.cursor_column, *options.pk_columns])
    by_name = {name: f"{relation.alias}.{quote(name)}" for name in wanted}
    inspector = None if options.table is None else catalog.inspector(database.connection())
    table: Reflected | None = None
    described: Records | None = None
    refused: DBAPIError | None = None
    seen: Hashable = None
    try:  # before anything else is asked: what is changed meanwhile, a page shows
        chosen = "*" if inspector is None else ", ".join(by_name.values())
        described = database.run(database.dialect.limited(chosen, f"FROM {relation.sql}", 0))
        seen = database.dialect.seen(database.driver_connection(), described, wanted)
    except DBAPIError as error:
        if inspector is None or database.dialect.classify(error) not in SCHEMA_FAULTS:
            raise
        refused = error  # what is missing is named below
    if inspector is not None:
        if database.dialect.catalog_first:
            database.connection().exec_driver_sql(database.dialect.catalog_first)
        table = _reflect(database.dialect, inspector, options, list(wanted))
        names = tuple(table.columns)
    else:
        names = described.names if described is not None else ()
    _refuse_unknown(options, names, [*wanted, *(options.columns or ())])
    _refuse_unknown(options, names, ordering, key="ordering_key")
    if refused is not None:
        raise refused
    proven = table is not None and table.is_base and not table.inherited
    reflected = None if table is None else table.columns
    look = TypeLookup(
        options, relation.sql, by_name, reflected, relation.condition, described, table if proven else None
    )
    if inspector is not None and table is not None and table.is_base:
        _refuse_weak_key(database.dialect, inspector, options, table.columns)
    columns = database.dialect.columns(look, database.run)
    if columns is None:
        return None
    cursor = columns[options.cursor_column]
    keys = tuple(columns[name] for name in options.pk_columns)
    _refuse_unfit(options, cursor, keys)
    of_text = [key.name for key in keys if key.family is Family.TEXT]
    watch = database.dialect.watch(look, of_text, database.run, database.connection())
    keys = tuple(replace(key, collation=watch.collations.get(key.name)) for key in keys)
    texts: Mapping[str, CursorColumn] = {}
    if ordering:
        by_name = {name: f"{relation.alias}.{quote(name)}" for name in ordering}
        texts = database.dialect.types(replace(look, columns=by_name, described=None), database.run)
    return Inspection(
        names=names,
        cursor=cursor,
        keys=keys,
        provable=proven,
        ordering=tuple(texts[name] for name in ordering),
        seen=seen,
        watch=watch,
    )


def _reflect(dialect: Dialect, inspector: Inspector, options: ReadOptions, wanted: Sequence[str]) -> Reflected:
    table, schema = options.table or "", options.schema_name
    found = dialect.reflected(inspector, table, schema, wanted)
    if found.columns:
        return found
    known = [*inspector.get_table_names(schema=schema), *inspector.get_view_names(schema=schema)]
    elsewhere = f"Schema {schema!r} has none, or is not visible. " if schema and not known else ""
    raise SourceError(
        f"There is no table or view {options.what!r} that the poller's database user can see.",
        table=options.what,
        next_step=f"{elsewhere}{did_you_mean(table, known)} Check `table` and `schema`.".strip(),
    )


def _refuse_unknown(options: ReadOptions, names: tuple[str, ...], wanted: Iterable[str], key: str = "") -> None:
    doubles = {name for name in names if names.count(name) > 1}
    if doubles:
        raise SourceError(
            f"{options.what} has two columns named {min(doubles)!r}.",
            table=options.what,
            column=min(doubles),
            next_step="Give one of them another name with AS.",
        )
    for name in wanted:
        if name not in names:
            key = key or (
                "cursor_column"
                if name == options.cursor_column
                else "pk_columns"
                if name in options.pk_columns
                else "columns"
            )
            raise SourceError(
                f"{options.what} has no column {name!r} (key `{key}`).",
                table=options.what,
                column=name,
                next_step=did_you_mean(name, names),
            )


def _refuse_unfit(options: ReadOptions, cursor: CursorColumn, keys: tuple[CursorColumn, ...]) -> None:
    what = options.what
    if options.is_timed:
        if cursor.odd is not None:
            raise mixed_forms(options, cursor.odd.form, cursor.odd.value, dict(cursor.odd.key))
        if cursor.family not in MOMENTS and cursor.form is None:
            raise options.error(
                f"cursor column {cursor.name} holds {_kind(cursor)} values, not timestamps.",
                column=cursor.name,
                next_step="Name a timestamp column; for seconds or milliseconds as a number, a generated column or a"
                ' `query` that makes a timestamp of them. cursor_kind = "integer+pk" is for numbers that a sequence or'
                " AUTOINCREMENT hands out.",
            )
        zoned = cursor.family is Family.TIMESTAMPTZ or (cursor.form is not None and cursor.form.zone != "")
        if not zoned and options.zone is None:
            raise ConfigError(
                f"`cursor_time_zone` is missing: column {cursor.name} of {what} has no time zone.",
                key="cursor_time_zone",
                next_step='Say what its values mean, for example cursor_time_zone = "UTC".',
            )
    elif not _FITS[options.cursor_kind](cursor):
        raise options.error(
            f"cursor column {cursor.name} holds {_kind(cursor)} values, not {_HOLDS[options.cursor_kind]}.",
            column=cursor.name,
            next_step=f"Name a column of {_HOLDS[options.cursor_kind]}, or set `cursor_kind`.",
        )
    for key in keys:
        if key.family is Family.UNFIT:
            raise options.error(
                f"key column {key.name} is of a type that has no exact text or no single order, or is NULL.",
                column=key.name,
                next_step="Use a key of integers, text, UUID, NUMERIC, dates or bytes.",
            )


_FITS: dict[str, Callable[[CursorColumn], bool]] = {
    "integer+pk": lambda column: column.family in NUMBERS,
    "xid8+pk": lambda column: column.sql_type == "xid8",
    "rowversion+pk": lambda column: column.family is Family.BYTES and column.sql_type == "binary(8)",
}
_HOLDS = {
    "integer+pk": "integers",
    "xid8+pk": "transaction ids (xid8)",
    "rowversion+pk": "row versions",
}


def _kind(column: CursorColumn) -> str:
    return "other" if column.family is Family.UNFIT else column.family.value


def _refuse_weak_key(
    dialect: Dialect, inspector: Inspector, options: ReadOptions, reflected: dict[str, dict[str, Any]]
) -> None:
    sets = dialect.unique_sets(inspector, options.table or "", options.schema_name)
    proof = proof_of(sets, options.pk_columns, reflected)
    if not proof.unique:
        raise options.error(
            f"no unique index covers the key {', '.join(options.pk_columns)}, so rows that share a timestamp"
            " could be skipped.",
            column=options.pk_columns[0],
            next_step=(
                f"Set `pk_columns` to one of: {proof.others}."
                if proof.others
                else "Create a unique index on columns that are NOT NULL."
            ),
        )
    for name in proof.nullable:
        raise options.error(
            f"key column {name} may be NULL, and a row without a key could be skipped.",
            column=name,
            next_step=f"Declare {name} NOT NULL, or choose another key in `pk_columns`.",
        )
