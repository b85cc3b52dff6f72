"""SQLite: text keeps the form it was stored in."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Hashable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine, Inspector
from sqlalchemy.exc import DBAPIError

from poller.databases import catalog
from poller.databases.urls import sqlite_path
from poller.errors import SourceUnavailable
from poller.sources.columns import (
    CursorColumn,
    Family,
    Odd,
    Reflected,
    TextForm,
    ValueFormat,
    connection_of,
    exact_of,
    quoted,
)
from poller.sources.database import Dialect, PageForm, Records, StatementRunner, TypeLookup, by_value
from poller.sources.facts import Watch
from poller.sources.faults import Fault
from poller.sources.rows import decode
from poller.sources.sqlite.bound import make_read_only, within
from poller.sources.user_sql import escape_colons

_IN_MEMORY = ":memory:"
_NO_UTF_8 = "Could not decode to UTF-8"
_SORTERS = frozenset({"SorterOpen", "OpenEphemeral"})
"""Of which EXPLAIN says by what they compare."""
_STEPS = 20_000  # virtual machine steps between two looks at the clock: well under a millisecond


def _is_odd(column: CursorColumn) -> bool:
    return column.odd is not None or column.family is Family.UNFIT or (column.family is Family.TEXT and not column.form)


_NAMED = "SELECT type FROM {of}sqlite_master WHERE type IN ('table', 'view') AND name = :table COLLATE NOCASE"
_FIRST = f"{_NAMED.format(of='temp.')} UNION ALL {_NAMED.format(of='main.')} LIMIT 1"
"""A temporary table hides the file's. Other files' are read by their names only: a view's SELECT is looked up there."""
_COLUMNS = """
SELECT x.name, x."notnull", m.type = 'table' FROM ({named}) AS m, pragma_table_xinfo(:table{within}) AS x
 WHERE x.hidden <> 1 ORDER BY x.cid
"""
_UNIQUE = """
SELECT NULL AS part, 'key' AS origin, x.name, NULL AS coll, -1 AS place, x.pk AS number
  FROM pragma_table_xinfo(:table{within}) AS x WHERE x.pk
UNION ALL
SELECT l.name, l.origin, x.name, x.coll, l.seq, x.seqno
  FROM pragma_index_list(:table{within}) AS l, pragma_index_xinfo(l.name{within}) AS x
 WHERE l."unique" AND NOT l.partial AND x.key ORDER BY place, number
"""
"""The primary key's columns, then those of each index that keeps something unique: also of a primary key that is not
the rowid."""


class Sqlite(Dialect):
    """Types belong to values, not to columns, so a column's type is that of its first and last row."""

    family: ClassVar[str] = "sqlite"
    keeps_objects = False
    key_form: ClassVar[PageForm] = PageForm.ROW_VALUES
    clock: ClassVar[str] = "strftime('%Y-%m-%dT%H\\:%M\\:%f', 'now') || '000Z'"
    types_belong_to_values: ClassVar[bool] = True
    conversion_breaks: ClassVar[bool] = False
    is_file: ClassVar[bool] = True

    def reflected(self, inspector: Inspector, table: str, schema: str | None, names: Sequence[str]) -> Reflected:
        """The types belong to the values."""
        question = _COLUMNS.replace("{named}", _FIRST if schema is None else _NAMED)
        rows = _of_table(connection_of(inspector), question, table, schema)
        columns = {str(name): {"name": str(name), "nullable": not firm} for name, firm, _ in rows}
        return Reflected(columns, any(is_table for *_, is_table in rows))

    def unique_sets(self, inspector: Inspector, table: str, schema: str | None) -> tuple[list[str], list[list[str]]]:
        """Without those whose indexes all treat as different what the column's comparison treats as equal. No collation
        is finer than BINARY."""
        connection, primary = connection_of(inspector), []
        indexes: dict[tuple[str, str], list[tuple[str | None, str]]] = {}
        for index, origin, name, collation, *_ in _of_table(connection, _UNIQUE, table, schema):
            if index is None:
                primary.append(str(name))
            else:
                indexes.setdefault((origin, index), []).append((name, str(collation).upper()))
        by_rowid = primary and not any(origin == "pk" for origin, _ in indexes)
        unique = [primary] if by_rowid else []
        for parts in indexes.values():
            names = [name for name, _ in parts if name is not None]
            whole = len(names) == len(parts)  # else of an expression
            if whole and all(_proves(connection, table, schema, *part) for part in parts):
                unique.append(names)
        return primary, sorted(unique, key=primary.__ne__)

    def set_up(self, connection: Connection, timeout: timedelta) -> None:
        """A program's own connection to a database in memory keeps its right to write."""
        super().set_up(connection, timeout)
        if not self.in_memory(connection.engine):
            make_read_only(connection)

    def in_memory(self, engine: Engine) -> bool:
        """By the engine's pool and path."""
        shared = isinstance(engine.pool, sa.StaticPool | sa.pool.SingletonThreadPool)
        return shared or sqlite_path(engine.url) == _IN_MEMORY

    def file(self, engine: Engine) -> Hashable:
        """By the path. A file that was replaced or deleted stays readable through an open connection, and never changes
        again: that would look like no rows for ever. A missing one would be created, without the table."""
        path = sqlite_path(engine.url)
        if isinstance(engine.pool, sa.StaticPool) or path == _IN_MEMORY:
            return None
        try:
            found = Path(path).stat()
        except OSError:
            raise SourceUnavailable(
                f"There is no SQLite database file {path}.", next_step="Check the path in `url`."
            ) from None
        return found.st_dev, found.st_ino

    def session(self, connection: Connection, timeout: timedelta) -> list[str]:
        """The time to wait for a writer's lock."""
        return [f"PRAGMA busy_timeout = {max(1, round(timeout.total_seconds() * 1000))}"]

    def holds_session(self, connection: Connection) -> bool:
        """There is no server: a connection reads the one file that it opened."""
        return True

    def before(self, dbapi: Any, timeout: timedelta) -> None:
        """There is no server that ends a query: the progress handler does."""
        deadline = time.monotonic() + timeout.total_seconds()
        dbapi.set_progress_handler(lambda: int(time.monotonic() > deadline), _STEPS)

    def columns(self, look: TypeLookup, run: StatementRunner) -> dict[str, CursorColumn] | None:
        """From the values at both ends of the order; None while there is no row. A value unlike the others sorts to an
        end. Only then the rows that pass the filter are read, which may be slow."""
        found = self._ends(look, run, None)
        if found is not None and look.condition and any(map(_is_odd, found.values())):
            return self._ends(look, run, look.condition)
        return found

    def seen(self, dbapi: Any, found: Records, columns: Collection[str]) -> Hashable:
        """By the number that SQLite raises with each change of a definition: a result says nothing of types."""
        return int(dbapi.execute("PRAGMA schema_version").fetchone()[0])

    def watch(self, look: TypeLookup, texts: Sequence[str], run: StatementRunner, connection: Connection) -> Watch:
        """The watch of a table: where it begins in its file. The collations are those by which SQLite says that it
        would sort; `seen` shows whether any definition changed."""
        collations: dict[str, str] = {}
        if texts:
            sorting = ", ".join(f"+{look.columns[name]}" for name in texts)
            fresh = f"/* {time.monotonic_ns()} */"  # a plan that is kept is not made again when the table is another
            plan = run(f"EXPLAIN {fresh} SELECT 1 FROM {look.relation} ORDER BY {sorting}").rows  # noqa: S608 - quoted
            said = next((str(step[5]) for step in plan if step[1] in _SORTERS), "")
            found = said.removeprefix(f"k({len(texts)},").removesuffix(")").split(",")
            collations = dict(zip(texts, found, strict=True)) if len(found) == len(texts) and said else {}
        if look.options.table is None:
            return Watch(collations=collations)
        made = f"SELECT rootpage FROM {escape_colons(within(look.options.schema_name))}sqlite_master"  # noqa: S608 - quoted
        rows = run(f"{made} WHERE type = 'table' AND name = :table COLLATE NOCASE", {"table": look.options.table}).rows
        return Watch(object=f"page {rows[0][0]}" if rows else None, collations=collations)

    def emptiness(self, relation: str, cursor: str, run: StatementRunner) -> tuple[str, Any] | None:
        """By the number that SQLite raises with each change of a definition. It keeps one per file: not with files
        attached."""
        if any(name not in {"main", "temp"} for _, name, *_ in run("PRAGMA database_list").rows):
            return None
        sql = (
            f"SELECT CASE WHEN NOT EXISTS (SELECT 1 FROM {relation} WHERE {cursor} IS NOT NULL)"  # noqa: S608 - quoted
            " THEN (SELECT schema_version FROM pragma_schema_version) END"
        )
        version = run(sql).rows[0][0]
        return None if version is None else (sql, version)

    def _ends(self, look: TypeLookup, run: StatementRunner, condition: str | None) -> dict[str, CursorColumn] | None:
        names, cursor = ", ".join(look.columns.values()), look.columns[look.options.cursor_column]
        where = f"{condition} AND {cursor}" if condition else cursor
        rest = f"FROM {look.relation} WHERE {where} IS NOT NULL ORDER BY {cursor}"
        first = run(self.limited(names, rest, 1)).rows
        if not first:
            return None
        last = run(self.limited(names, f"{rest} DESC", 1)).rows
        found = {}

        def key(row: Sequence[Any]) -> tuple[tuple[str, Any], ...]:
            return tuple(
                (name, value) for name, value in zip(look.columns, row, strict=True) if name in look.options.pk_columns
            )

        for name, low, high in zip(look.columns, first[0], (last or first)[0], strict=True):
            facts = look.reflected[name] if look.reflected is not None else {}
            family = self.from_value(name, low, ()).family
            form = TextForm.of(low) if isinstance(low, str) else None
            last_form = TextForm.of(high) if isinstance(high, str) else None
            odd = None
            if form is not None and not (isinstance(high, str) and form.pattern().fullmatch(high)):
                odd, form = Odd(form, str(high), key((last or first)[0])), None
            elif form is None and last_form is not None:
                odd = Odd(last_form, str(low), key(first[0]))
            if self.from_value(name, high, ()).family != family:
                family = Family.UNFIT
            found[name] = CursorColumn(name=name, family=family, nullable=facts.get("nullable"), form=form, odd=odd)
        return found

    def from_value(self, name: str, value: Any, description: Sequence[Any]) -> CursorColumn:
        """By the value's own type; a NULL key is found and named elsewhere."""
        return by_value(name, value)

    def render(self, sql: str, column: CursorColumn) -> str:
        """Stored text as it is."""
        return f"lower(hex({sql}))" if column.family is Family.BYTES else f"CAST({sql} AS TEXT)"

    def exact(self, column: CursorColumn, dbapi: Any) -> ValueFormat | None:
        """Texts and integers as they are."""
        return exact_of(column) if column.family in {Family.TEXT, Family.INTEGER} else None

    def types(self, look: TypeLookup, run: StatementRunner) -> dict[str, CursorColumn]:
        """Each value has a type of its own."""
        return {name: CursorColumn(name=name, family=Family.UNFIT) for name in look.columns}

    def json_columns(self, table: str, schema: str | None, run: StatementRunner) -> frozenset[str]:
        """Those that are declared so."""
        found = run(f"PRAGMA {'' if schema is None else f'{schema}.'}table_info({table})").rows
        return frozenset(str(name) for _, name, kind, *_ in found if str(kind).upper() == "JSON")

    def text(self, sql: str, column: CursorColumn) -> str:
        """Bytes as their digits: as text they would end at the first zero."""
        return f"CASE typeof({sql}) WHEN 'blob' THEN lower(hex({sql})) ELSE CAST({sql} AS TEXT) END"

    def unreadable(self, error: BaseException) -> bool:
        """Text that is not valid UTF-8 is a driver's error. A number that is too large was passed to the driver: what
        SQLite stores always fits."""
        if isinstance(error, DBAPIError):
            return _NO_UTF_8 in str(error)
        return not isinstance(error, OverflowError) and super().unreadable(error)

    @contextlib.contextmanager
    def lenient(self, dbapi: Any) -> Iterator[None]:
        """Every text is decoded by us."""
        before, dbapi.text_factory = dbapi.text_factory, decode
        try:
            yield
        finally:
            dbapi.text_factory = before

    def classify(self, error: DBAPIError) -> Fault:
        """By SQLite's message: its codes say no more than "error"."""
        text = str(error.orig)
        if text.startswith(_NO_UTF_8):  # first: the message quotes the value, which may hold any words
            return Fault.VALUE
        for words, fault in (
            ("interrupted", Fault.TIMEOUT),
            ("file was replaced", Fault.DISCONNECTED),
            ("no such table", Fault.NO_TABLE),
            ("no such column", Fault.NO_COLUMN),
            ("locked", Fault.BUSY),
            ("unable to open", Fault.UNREACHABLE),
            ("not a database", Fault.NO_DATABASE),
        ):
            if words in text:
                return fault
        return Fault.OTHER


def _of_table(connection: Connection, question: str, table: str, schema: str | None) -> Sequence[Any]:
    """The answer of a question about one table."""
    params = {"table": table} if schema is None else {"table": table, "schema": schema}
    asked = question.format(of=escape_colons(within(schema)), within="" if schema is None else ", :schema")
    return catalog.rows(connection, sa.text(asked), params)


def _proves(connection: Connection, table: str, schema: str | None, column: str | None, collation: str) -> bool:
    """True if an index by `collation` takes for the same what SQLite's comparison of the column does, which no pragma
    shows: the compiled comparison does."""
    fresh = f"/* {time.monotonic_ns()} */"  # one that is kept was compiled when the table may have been another
    sql = f"EXPLAIN {fresh} SELECT {quoted(column or '')} = '' FROM {quoted(table, schema)}"  # noqa: S608 - quoted names
    for row in connection.exec_driver_sql(sql):
        if row[1] == "Eq" and isinstance(row[5], str):
            return row[5].rpartition("-")[0].upper() in {"BINARY", collation}
    return True
