"""Pages as tables (`format = "arrow"`): the same rows below the same bound, with the same cursors and keys.

PostgreSQL with psycopg: one statement, in which each column is cast to what Arrow has. Large pages come by ADBC, all
others, and those that it cannot read, by psycopg; an empty page is always the word of the connection that the bound was
sampled on. The columns are compared with the server's description after each page. Elsewhere: as in `Session`, and the
table is built of the records.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from poller.databases.tokens import identity_of
from poller.ports import Bound, Page, Row, Table
from poller.sources.arrow import pyarrow
from poller.sources.arrow.again import with_texts
from poller.sources.arrow.kinds import Kind, loads_of, several_dimensions
from poller.sources.arrow.literals import NoLiteral, with_literals
from poller.sources.arrow.session import HERE, SERVER, AdbcSession, Unusable
from poller.sources.arrow.table import Shape, TableRecords, TableRows, Whole, table_as
from poller.sources.arrow.values import Built, unfit
from poller.sources.columns.exact import Exact
from poller.sources.connection import Database
from poller.sources.database import Records
from poller.sources.facts import TableChanged
from poller.sources.inspection import Inspection
from poller.sources.keys import LazyCursors, LazyOrdering
from poller.sources.options import Options
from poller.sources.page import Params, Query, Range, Relation, Statements
from poller.sources.records import refuse_bad_records
from poller.sources.session import Session

logger = logging.getLogger("poller")

FEW = 500
"""Pages of at most so many rows come by psycopg: COPY has its own cost. While there are no more, one such page says
whether there are."""
AGAIN_AFTER = 60.0
"""Seconds for which ADBC is not tried after it failed."""
_ADBC = "adbc"
"""Under which a session keeps the one beside it."""
_TEXT, _FLAG = Kind.of(25), Kind.of(16)
BEYOND = "a time that Python cannot hold: infinity, or beyond the years 1 to 9999, or 24:00"
FLATTENED = "an array of several dimensions"


@dataclass(frozen=True)
class _Columns:
    """What the server says of the user's columns: names and oids. Equal where nothing was changed."""

    described: tuple[tuple[str, int], ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.described)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return tuple(Kind.of(oid) for _, oid in self.described)


@dataclass(frozen=True)
class _Select:
    """One page's statement.

    Attributes:
        columns: the user's, which come first. kinds: of all columns, helpers too. flagged: whether the last one says
            that an array has several dimensions. exact: whether the cursor has no text of its own. quoted: the columns.
    """

    columns: _Columns
    kinds: tuple[Kind, ...]
    flagged: bool
    statements: Statements
    interval: Range
    exact: bool
    quoted: tuple[str, ...]

    def query(self, limit: int, *, here: bool = False) -> tuple[Query, Params]:
        """The statement for at most so many rows; `here`: with the session, as one more column."""
        quoted = list(zip(self.quoted, self.columns.kinds, strict=True))
        after = [several_dimensions(quoted)] if self.flagged else []
        if here:
            after.append(HERE)
        shown = self.statements.showing([kind.select(name) for name, kind in quoted], after)
        return shown.select(self.interval, limit, exact=self.exact)

    def is_of_others(self, oids: Sequence[int]) -> bool:
        """True if a result, by the oids of its columns' types, shows that the table's columns have other types."""
        return any(not kind.cast and oid != kind.oid for kind, oid in zip(self.columns.kinds, oids, strict=False))

    def odd(self, table: Any) -> str | None:
        """The column whose values a table cannot hold."""
        for at, (name, kind) in enumerate(zip(self.columns.names, self.columns.kinds, strict=True)):
            if kind.is_beyond(table.column(at)):
                return name
        return None

    def checked(self, table: Any, what: str) -> Any:
        """The table without what only the check needs. Raises: SourceError naming a column that it cannot hold."""
        odd = self.odd(table)
        if odd is not None:
            raise unfit(what, odd, BEYOND)
        if not self.flagged:
            return table
        last = len(self.kinds) - 1
        if pyarrow().compute.any(table.column(last)).as_py():
            lists = (name for name, kind in zip(self.columns.names, self.columns.kinds, strict=True) if kind.item)
            raise unfit(what, ", ".join(lists), FLATTENED)
        return table.remove_column(last)


class TableSession(Session):
    """As `Session`; its pages have a table."""

    def __init__(
        self,
        database: Database,
        options: Options,
        relation: Relation,
        quote: Callable[[str], str],
        *,
        own_engine: bool,
    ) -> None:
        super().__init__(database, options, relation, quote)
        self._own_engine = own_engine
        self._column_types: dict[str, Any] = {}
        self._columns: _Columns | None = None
        self._seen_in = 0
        """In which look at the table."""
        self._before: _Columns | None = None
        """What the columns were, for rows that are tried again while the server does not answer."""
        self._collected: tuple[Sequence[Sequence[Any]], Sequence[str]] | None = None
        self._server: tuple[Hashable, str] | None = None
        """A place, and what `SERVER` is there."""
        self._said: str | None = None
        """Why ADBC is not used, as it was logged."""
        self._not_before = float("-inf")
        """When ADBC may be tried again, by the monotonic clock."""
        self._many = False
        """Whether the last page was a large one."""

    def _follow(self) -> None:
        """After another look at the table its columns are not known."""
        if self._seen_in != self.table.looks:
            self._seen_in, self._before, self._columns = self.table.looks, self._columns or self._before, None

    def table_of(self, rows: Sequence[Row], *, asking: bool = True) -> Table:
        """See `Session.table_of`."""
        self._follow()
        if asking and self._columns is None and self._is_psycopg():
            self._columns = self._anew(self._describe)
        columns = self._columns or self._before
        kinds = dict(zip(columns.names, columns.kinds, strict=True)) if columns else {}
        records = with_texts(rows, kinds, self.database.run if asking and columns else None)
        return Built(records, list(rows[0]), {name: kind.type for name, kind in kinds.items()}, self.options.what)

    def _is_psycopg(self) -> bool:
        self.database.connection()
        return self.database.dialect.has_adbc and hasattr(self.database.driver_connection(), "adapters")

    def _read(self, known: Inspection, intervals: Sequence[Range], limit: int, bound: Bound) -> Page:
        if not self._is_psycopg():
            return self._built(known, intervals, limit, bound)
        exact = self.table.exact(known)
        if exact is not None:
            exact = replace(exact, alike=True)  # a column of a table has one type
        columns, table = self._table(known, intervals, limit, exact)
        if columns is None:
            return self._built(known, intervals, limit, bound)
        if not table.num_rows:
            return Page(rows=[], cursors=[], bound=bound)
        return self._page_of(known, columns, table, exact, bound)

    # ------------------------------------------------------------------------------------------- built of the records

    def _built(self, known: Inspection, intervals: Sequence[Range], limit: int, bound: Bound) -> Page:
        page = super()._read(known, intervals, limit, bound)
        collected, self._collected = self._collected, None
        if not page.rows or collected is None:
            return page
        records, names = collected
        return replace(page, table=Built(records, names, self._column_types, self.options.what))

    def _collect(self, known: Inspection, intervals: Sequence[Range], limit: int, exact: Exact | None) -> Records:
        found = super()._collect(known, intervals, limit, exact)
        self._collected = (found.rows, found.names[: self.table.plan(found.names, exact).width]) if found.rows else None
        return found

    # ------------------------------------------------------------------------------------------- PostgreSQL's columns

    def _table(
        self, known: Inspection, intervals: Sequence[Range], limit: int, exact: Exact | None
    ) -> tuple[_Columns | None, Any]:
        """The rows as a table: the user's columns, then the helpers. Without columns: their names are no names."""
        (interval,) = intervals  # PostgreSQL's order is one interval
        self._follow()
        for _ in range(3):
            columns = self._columns = self._columns or self._describe()
            if len(set(columns.names)) < len(columns.names):
                return None, None
            table = self._fetched(self._select_of(known, columns, interval, exact), limit)
            if table is not None and not table.num_rows:
                return columns, table
            self._columns = self._describe()  # only after the rows: they may have waited for a change of the table
            if table is not None and self._columns == columns:
                return columns, table
        raise TableChanged

    def _describe(self) -> _Columns:
        """The user's columns as the server describes them. Raises: TableChanged."""
        chosen = f"{self.table.relation.alias}.*"
        if self.options.columns is not None:
            names = dict.fromkeys([*self.options.columns, self.options.cursor_column, *self.options.pk_columns])
            chosen = ", ".join(map(self._quoted, names))
        found = self.database.run(self.database.dialect.limited(chosen, f"FROM {self.table.relation.sql}", 0))
        self.table.refuse_other_types(found)
        return _Columns(tuple((str(one[0]), int(one[1])) for one in found.description))

    def _quoted(self, name: str) -> str:
        return f"{self.table.relation.alias}.{self.table.quote(name)}"

    def _select_of(self, known: Inspection, columns: _Columns, interval: Range, exact: Exact | None) -> _Select:
        statements = self.table.statements()
        helpers = (exact is None) + len(self.table.helpers) + len(known.ordering)
        flagged = any(kind.item for kind in columns.kinds)
        kinds = (*columns.kinds, *[_TEXT] * helpers, *[_FLAG] * flagged)
        quoted = tuple(map(self._quoted, columns.names))
        return _Select(columns, kinds, flagged, statements, interval, exact is not None, quoted)

    def _fetched(self, asked: _Select, limit: int) -> Any | None:
        """Up to `limit` rows; None where the columns are no longer these."""
        table = None
        if limit > FEW and not self._many:
            table = self._by_psycopg(asked, FEW)
            if table is None or table.num_rows < FEW:
                return table if table is None else asked.checked(table, self.options.what)
        table = self._by_adbc(asked, limit) if limit > FEW else None
        if table is None or not table.num_rows or asked.odd(table) is not None:
            table = self._by_psycopg(asked, limit)
        self._many = table is not None and table.num_rows >= FEW
        return table if table is None else asked.checked(table, self.options.what)

    # ------------------------------------------------------------------------------------------------- two transports

    def _by_psycopg(self, asked: _Select, limit: int) -> Any | None:
        """None where the columns are no longer these. Raises: SourceError naming a column whose values Arrow cannot
        hold."""
        found = self.database.run(*asked.query(limit))
        if not found.rows and asked.is_of_others([int(one[1]) for one in found.description]):
            return None  # no row under these types need not be none
        self.database.page_held_text = found.any_text or bool(self.database.page_held_text)
        values = list(zip(*found.rows, strict=True)) or [()] * len(asked.kinds)
        arrays = []
        for at, (kind, column) in enumerate(zip(asked.kinds, values, strict=True)):
            try:
                arrays.append(pyarrow().array(column, kind.type))
            except (ValueError, TypeError, OverflowError) as error:  # pyarrow's are ValueErrors
                if self._describe() != asked.columns:
                    return None
                names = (*asked.columns.names, *[self.options.cursor_column] * len(asked.kinds))
                raise unfit(self.options.what, names[at], BEYOND if found.any_text else type(error).__name__) from None
        return table_as(arrays, asked.kinds)

    def _by_adbc(self, asked: _Select, limit: int) -> Any | None:
        """None where it cannot be read so, which is logged once, and not tried again for a while."""
        if self.database.lenient or self.lags.monotonic() < self._not_before:
            return None  # lenient: some values psycopg could not convert
        try:
            self._refuse_adbc()
            query, params = asked.query(limit, here=True)
            sql = with_literals(query.compile(self.database.engine), params)
        except (Unusable, NoLiteral) as error:
            self._say(error)
            return None
        adbc: AdbcSession = self.database.facts().setdefault(_ADBC, AdbcSession())
        driver, timeout = self.database.driver_connection(), self.database.timeout
        try:
            table = adbc.read(driver, self._server_of_bound, sql, timeout)
            if [field.type for field in table.schema] != [kind.type for kind in asked.kinds]:
                raise Unusable("a column has another type than the server says")
        except Unusable as error:
            self._not_before = self.lags.monotonic() + AGAIN_AFTER
            self.bounding.drop()  # as after any error
            self._say(error)
            return None
        self._said = None
        return table_as(table.columns, asked.kinds)

    def _say(self, error: Exception) -> None:
        if str(error) != self._said:
            self._said = str(error)
            logger.warning("%s: rows are read without ADBC, which is slower: %s.", self.options.what, error)

    def _refuse_adbc(self) -> None:
        """Return where another connection surely sees what this one does. Raises: Unusable."""
        database = self.database
        if not self._own_engine:
            raise Unusable("the source was given an engine, which may set up its connections in its own way")
        if identity_of(database.engine) is not None:  # ADBC's driver takes it in an address only
            raise Unusable("it would need the token of `identity` in a URL")
        if database.driver_connection().info.parameter_status("server_encoding") == "SQL_ASCII":
            raise Unusable("the database has the encoding SQL_ASCII")
        if not self.bounding.holds_session():
            raise Unusable("a pooler stands between, so another connection may lead elsewhere")

    def _server_of_bound(self) -> str:
        place = self.database.place()
        if self._server is None or self._server[0] != place:
            self._server = place, str(self.database.run(f"SELECT {SERVER}").rows[0][0])
        return self._server[1]

    # -------------------------------------------------------------------------------------------------------- the page

    def _page_of(self, known: Inspection, columns: _Columns, table: Any, exact: Exact | None, bound: Bound) -> Page:
        width = len(columns.names)
        driver = self.database.driver_connection()
        helpers = (_TEXT,) * (table.num_columns - width)
        kinds = (*columns.kinds, *helpers)
        zone = getattr(driver.info.timezone, "key", None)
        shape = Shape(columns.names, kinds, loads_of(kinds, table.columns, driver), zone)
        records = TableRecords(table, shape)
        names = (*columns.names, *(f"poller_{at}" for at in range(len(helpers) - len(known.ordering))))
        plan = self.table.plan(names, exact)
        refuse_bad_records(known, self.options, self.database.dialect, records, plan, names)
        shown = table.select(range(width)).rename_columns(list(columns.names))
        return Page(
            rows=TableRows(shown, shape),
            cursors=LazyCursors(records, plan),
            bound=bound,
            ordering=LazyOrdering(records, self.table.ordering) if known.ordering else None,
            table=Whole(shown),
        )
