"""PostgreSQL's pages as Arrow tables: the same rows below the same bound, with the same cursors and keys.

One statement, in which each column is cast to what Arrow has; all other values come as the server's text, from which
the rows that a handler asks for are made as psycopg would make them. Large pages come by ADBC, all others, and those
that it cannot read, by psycopg; an empty page is always the word of the connection that the bound was sampled on. The
columns are compared with the server's description after each page.

ADBC's driver is not asked for what it gets wrong: `oid` (as a signed integer of 32 bits), `money` (cents of an unknown
currency), arrays of several dimensions (flattened), intervals (an error where their nanoseconds overflow), composite
types and everything that it knows only as bytes. All of them are cast in the statement.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, timedelta
from typing import Any, Self

from sqlalchemy import Compiled

from poller.databases.postgresql.site import literal
from poller.databases.tokens import identity_of
from poller.ports import FreshRows, Row, Table
from poller.sources.arrow import (
    ArrowTables,
    Built,
    PageReader,
    Read,
    Whole,
    adbc,
    as_text,
    packed,
    pyarrow,
    unfit,
    unpacked,
)
from poller.sources.facts import TableChanged
from poller.sources.page import Params, Query, Span, Statements
from poller.sources.postgresql.adbc import HERE, SERVER, AdbcSession, Unusable
from poller.sources.postgresql.json import marks_json
from poller.sources.rows import Parts

logger = logging.getLogger("poller")

FEW = 500
"""The most rows of a page that comes by psycopg: COPY has its own cost. While there are no more, one such page says
whether there are."""
AGAIN_AFTER = 60.0
"""Seconds for which ADBC is not tried after it failed."""
_ADBC = "adbc"
"""Under which a session keeps the one beside it."""
BEYOND = "a time that Python cannot hold: infinity, or beyond the years 1 to 9999, or 24:00"
FLATTENED = "an array of several dimensions"
_PLAIN = {
    16: "bool",
    17: "binary",
    19: "string",  # name
    20: "int64",
    21: "int16",
    23: "int32",
    25: "string",
    700: "float32",
    701: "float64",
    1042: "string",  # bpchar
    1043: "string",  # varchar
    1082: "date",
    1083: "time",
    1114: "timestamp",
    1184: "timestamptz",
}
_ARRAYS = {1000: "bool", 1005: "int16", 1007: "int32", 1009: "string", 1015: "string", 1016: "int64", 1022: "float64"}
_OID = 26
_JSON = (114, 3802)
_CAST = {*_JSON, 1186, 1700, 2950}
"""Beside JSON: interval, numeric, uuid. Their CAST to text writes what the server sends to psycopg."""
_OUTPUT = "(output)"
_LIMITS = {
    "timestamp": (-62_135_596_800_000_000, 253_402_300_800_000_000),
    "date": (-719_162, 2_932_897),
    "time": (0, 86_400_000_000),
}
"""From the year 1 to the year 9999, and from 0:00 to before 24:00: what Python can hold. PostgreSQL's infinities lie
beyond, and ADBC passes them on as some number."""
Load = Callable[[bytes], Any]


# ------------------------------------------------------------------------------------------------------------- columns


@dataclass(frozen=True, slots=True)
class Crossing:
    """How a column crosses.

    Attributes:
        oid: of its type. arrow: Arrow's type, by our own name. cast: the type of a CAST in the statement; empty if
            there is none. text: whether rows have what psycopg makes of that text. item: of a list, its values' type.
    """

    oid: int
    arrow: str
    cast: str = ""
    text: bool = False
    item: bool = False

    @classmethod
    def of(cls, oid: int) -> Crossing:
        """For the oid of a type (pg_type.dat). Domains come as what they are made of."""
        if oid in _PLAIN:
            return cls(oid, _PLAIN[oid])
        if oid in _ARRAYS:
            return cls(oid, _ARRAYS[oid], item=True)
        if oid == _OID:
            return cls(oid, "int64", cast="bigint")
        return cls(oid, "string", cast="text" if oid in _CAST else _OUTPUT, text=oid not in _JSON)

    @property
    def type(self) -> Any:
        """Arrow's."""
        pa = pyarrow()
        found = {
            "timestamptz": pa.timestamp("us", tz="UTC"),
            "timestamp": pa.timestamp("us"),
            "date": pa.date32(),
            "time": pa.time64("us"),
            "bool": pa.bool_(),
        }.get(self.arrow) or getattr(pa, self.arrow)()
        return pa.list_(found) if self.item else found

    def select(self, column: str) -> str:
        """The column in the statement."""
        if self.cast == _OUTPUT:  # unlike a CAST, which some types define otherwise: inet's adds its mask
            # not IS NOT NULL: that is false for a composite value with a NULL in one of its fields
            return f"CASE WHEN {column} IS DISTINCT FROM NULL THEN concat({column}) END"
        return f"CAST({column} AS {self.cast})" if self.cast else column

    def is_beyond(self, column: Any) -> bool:
        """True if the column holds a time that Python cannot hold, an infinity among them."""
        limits = _LIMITS.get(self.arrow.removesuffix("tz"))
        if limits is None or self.item:
            return False
        number = pyarrow().int32() if self.arrow == "date" else pyarrow().int64()
        found = pyarrow().compute.min_max(column.cast(number))
        least, most = found["min"].as_py(), found["max"].as_py()
        return least is not None and not (limits[0] <= least and most < limits[1])

    def values(self, column: Any, load: Load | None, zone: str | None) -> list[Any]:
        """The column's values as psycopg gives them.

        Args:
            load: makes a value of the server's text, for the kinds that come so. zone: the session's time zone; None:
                UTC.
        """
        if self.text or load is not None:
            return [None if value is None else _loaded(value, load) for value in column.to_pylist()]
        if self.arrow == "float32" and not self.item:  # 1.1 and not 1.100000023841858: the digits that it has
            shortest = column.cast(pyarrow().string()).to_pylist()
            return [None if value is None else float(value) for value in shortest]
        if self.arrow == "timestamptz":
            if not zone:
                naive = column.cast(pyarrow().timestamp("us")).to_pylist()
                return [None if value is None else value.replace(tzinfo=UTC) for value in naive]
            column = column.cast(pyarrow().timestamp("us", tz=zone))
        found: list[Any] = column.to_pylist()
        return found


_TEXT, _FLAG = Crossing.of(25), Crossing.of(16)


def _loaded(text: str, load: Load | None) -> Any:
    """Text if Python has no such value, as in rows."""
    if load is None:
        return text
    try:
        return load(text.encode())
    except Exception:  # noqa: BLE001 - a loader that the user registered may raise anything
        return text


def _loads_of(kinds: Sequence[Crossing], columns: Sequence[Any], connection: Any) -> tuple[Load | None, ...]:
    """Of psycopg's connection, what makes values of the server's text, for the kinds that come so. Each is tried on the
    first value of its column: what it asks of the connection it asks now, and not when the handler wants rows."""
    from psycopg.adapt import Transformer
    from psycopg.pq import Format

    adapter = Transformer(connection)

    def load_of(kind: Crossing, column: Any) -> Load | None:
        loader = adapter.get_loader(kind.oid, Format.TEXT)
        if not kind.text and not (kind.oid in _JSON and marks_json(loader)):
            return None
        load: Load = loader.load
        kind.values(column.drop_null().slice(0, 1), load, None)
        return load

    return tuple(map(load_of, kinds, columns))


def _table_as(columns: Sequence[Any], kinds: Sequence[Crossing]) -> Any:
    """Columns of these kinds as a table, by either driver: without its notes."""
    pa = pyarrow()
    fields = [pa.field(str(at), kind.type) for at, kind in enumerate(kinds)]
    return pa.Table.from_arrays(list(columns), schema=pa.schema(fields))


# ------------------------------------------------------------------------------------------------------ records, rows


@dataclass(frozen=True, slots=True)
class _Shape:
    """The columns of a table: their names and kinds, what makes values of their text, and the session's time zone."""

    names: tuple[str, ...]
    kinds: tuple[Crossing, ...]
    loads: tuple[Load | None, ...]
    zone: str | None


class _Records(Parts[Any]):
    """The rows of a table as tuples, whose values are made when they are asked for.

    Args:
        made: the values of some columns, of a table that came from another process.
    """

    def __init__(self, table: Any, shape: _Shape, made: Mapping[int, list[Any]] | None = None) -> None:
        self._table, self._shape, self._made = table, shape, made or {}

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def take(self, positions: Sequence[int]) -> Self:
        """See `Parts`."""
        if isinstance(positions, range) and positions.step == 1:  # without a copy
            table = self._table.slice(positions.start, len(positions))
        else:
            table = self._table.take(pyarrow().array(positions, pyarrow().int64()))
        made = {at: [values[one] for one in positions] for at, values in self._made.items()}
        return type(self)(table, self._shape, made)

    def __iter__(self) -> Iterator[Any]:
        return zip(*self._values(), strict=True)

    def _values(self) -> list[list[Any]]:
        shape = self._shape
        columns = zip(shape.kinds, shape.loads, strict=True)
        return [
            self._made[at] if at in self._made else kind.values(self._table.column(at), load, shape.zone)
            for at, (kind, load) in enumerate(columns)
        ]


class TableRows(_Records, FreshRows):
    """The rows of a table as dicts."""

    def __iter__(self) -> Iterator[Row]:
        names = self._shape.names
        return (dict(zip(names, values, strict=True)) for values in super().__iter__())

    def __reduce__(self) -> Any:
        """To another process: the table as Arrow's bytes, and the values that psycopg makes."""
        shape, values = self._shape, self._values()
        made = {at: values[at] for at, kind in enumerate(shape.kinds) if kind.text or shape.loads[at] is not None}
        return _received, (packed(self._table), replace(shape, loads=(None,) * len(shape.kinds)), made)


def _received(data: bytes, shape: _Shape, made: Mapping[int, list[Any]]) -> TableRows:
    return TableRows(unpacked(data), shape, made)


# ------------------------------------------------------------------------------------------------------ the statement


_PARAMETER = re.compile(r"%\((?P<name>\w+)\)s|%%")
"""As psycopg has them in a statement."""


class NoLiteral(ValueError):
    """A value that no literal is written for."""


def with_literals(query: Compiled, params: Mapping[str, Any]) -> str:
    """A statement with its values written into it: ADBC reads by COPY, which takes no parameters. The values come from
    the state document, which is not trusted: each is written by one rule per type, in one pass over the statement, so
    that nothing that was written is read again. Raises: NoLiteral."""
    given = query.construct_params(params) or {}
    return _PARAMETER.sub(lambda found: "%" if found["name"] is None else _written(given[found["name"]]), str(query))


def _written(given: Any) -> str:
    if type(given) is int:
        return f"({given:d})" if given < 0 else f"{given:d}"
    if type(given) is str:
        if "\0" in given or any("\ud800" <= char <= "\udfff" for char in given):
            raise NoLiteral("a text that PostgreSQL cannot hold")
        return literal(given)
    if type(given) is bytes:
        return f"decode('{given.hex()}', 'hex')"
    raise NoLiteral(type(given).__name__)


@dataclass(frozen=True)
class _Columns:
    """What the server says of the user's columns. Equal if nothing was changed."""

    names: tuple[str, ...]
    kinds: tuple[Crossing, ...]


@dataclass(frozen=True)
class _Select:
    """One page's statement.

    Attributes:
        columns: the user's, which come first. kinds: of all columns, helpers too. flagged: whether the last one says
            that an array has several dimensions, which a list would show flattened. exact: whether the cursor has no
            text of its own. quoted: the columns.
    """

    columns: _Columns
    kinds: tuple[Crossing, ...]
    flagged: bool
    statements: Statements
    interval: Span
    exact: bool
    quoted: tuple[str, ...]

    def query(self, limit: int, *, here: bool = False) -> tuple[Query, Params]:
        """The statement for at most `limit` rows; `here`: with the session, as one more column."""
        quoted = list(zip(self.quoted, self.columns.kinds, strict=True))
        deep = [f"coalesce(array_ndims({column}) > 1, false)" for column, kind in quoted if kind.item]
        after = [" OR ".join(deep)] * self.flagged + [HERE] * here
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


# ----------------------------------------------------------------------------------------------------------- the pages


class ArrowPages(ArrowTables):
    """The tables of one source's pages.

    Args:
        own_engine: whether poller made the engine.
    """

    def __init__(self, what: str, *, own_engine: bool) -> None:
        super().__init__(what)
        if own_engine:
            adbc()
        self._own_engine = own_engine
        self._columns: _Columns | None = None
        self._seen_in = 0
        """In which look at the table."""
        self._before: _Columns | None = None
        """What the columns were, for rows that are tried again while the server does not answer."""
        self._server: tuple[Hashable, str] | None = None
        """A place, and what `SERVER` is there."""
        self._said: str | None = None
        """Why ADBC is not used, as it was logged."""
        self.not_before = float("-inf")
        """When ADBC may be tried again, by the monotonic clock."""
        self._many = False
        """True if the last page was a large one."""

    def of_rows(self, reader: PageReader, rows: Sequence[Row], *, asking: bool) -> Table:
        """With texts as the server writes them, if it may be asked."""
        self._follow(reader)
        if asking and self._columns is None and _is_psycopg(reader):
            self._columns = _describe(reader)
        columns = self._columns or self._before
        kinds = dict(zip(columns.names, columns.kinds, strict=True)) if columns else {}
        records = with_texts(rows, kinds, reader.database.run if asking and columns else None)
        return Built(records, list(rows[0]), {name: kind.type for name, kind in kinds.items()}, self._what)

    def read(self, reader: PageReader, intervals: Sequence[Span], limit: int, *, exact: bool) -> Read | None:
        """See `ArrowTables.read`."""
        if not _is_psycopg(reader):
            return None
        columns, table = self._read(reader, intervals, limit, exact=exact)
        if columns is None or not table.num_rows:
            return None if columns is None else Read([], [], (), None)
        width, driver, o = len(columns.names), reader.database.driver_connection(), reader.options
        kinds = (*columns.kinds, *(_TEXT,) * (table.num_columns - width))
        loads, zone = _loads_of(kinds, table.columns, driver), getattr(driver.info.timezone, "key", None)
        places = [at for at, name in enumerate(columns.names) if name in {o.cursor_column, *o.pk_columns}]
        places += range(width, len(kinds))
        names = tuple(columns.names[at] if at < width else f"poller_{at}" for at in places)
        parts = _Shape(names, tuple(kinds[at] for at in places), tuple(loads[at] for at in places), zone)
        shown = table.select(range(width)).rename_columns(list(columns.names))
        rows = TableRows(shown, _Shape(columns.names, columns.kinds, loads[:width], zone))
        own = names[: len(names) - len(reader.table.ordering_texts)]
        return Read(rows, _Records(table.select(places), parts), own, Whole(shown))

    def _follow(self, reader: PageReader) -> None:
        """After another look at the table its columns are not known."""
        if self._seen_in != reader.table.looks:
            self._seen_in, self._before, self._columns = reader.table.looks, self._columns or self._before, None

    def _read(
        self, reader: PageReader, intervals: Sequence[Span], limit: int, *, exact: bool
    ) -> tuple[_Columns | None, Any]:
        """The rows as a table: the user's columns, then the helpers. Without columns: their names are no names."""
        (interval,) = intervals  # PostgreSQL's order is one interval
        self._follow(reader)
        for _ in range(3):
            columns = self._columns = self._columns or _describe(reader)
            if len(set(columns.names)) < len(columns.names):
                return None, None
            statements = reader.table.statements()
            helpers = (not exact) + len(reader.table.helpers) + len(reader.table.ordering_texts)
            flagged = any(kind.item for kind in columns.kinds)
            kinds = (*columns.kinds, *[_TEXT] * helpers, *[_FLAG] * flagged)
            quoted = tuple(_quoted(reader, name) for name in columns.names)
            asked = _Select(columns, kinds, flagged, statements, interval, exact, quoted)
            table = self._fetched(reader, asked, limit)
            if table is not None and not table.num_rows:
                return columns, table
            self._columns = _describe(reader)  # only after the rows: they may have waited for a change of the table
            if table is not None and self._columns == columns:
                return columns, table
        raise TableChanged

    def _fetched(self, reader: PageReader, asked: _Select, limit: int) -> Any | None:
        """Up to `limit` rows; None if the columns are no longer these."""
        table = None
        if limit > FEW and not self._many:
            table = self._by_psycopg(reader, asked, FEW)
            if table is None or table.num_rows < FEW:
                return table if table is None else asked.checked(table, self._what)
        table = self._by_adbc(reader, asked, limit) if limit > FEW else None
        if table is None or not table.num_rows or asked.odd(table) is not None:
            table = self._by_psycopg(reader, asked, limit)
        self._many = table is not None and table.num_rows >= FEW
        return table if table is None else asked.checked(table, self._what)

    def _by_psycopg(self, reader: PageReader, asked: _Select, limit: int) -> Any | None:
        """None if the columns are no longer these. Raises: SourceError naming a column whose values Arrow cannot
        hold."""
        database = reader.database
        found = database.run(*asked.query(limit))
        if not found.rows and asked.is_of_others([int(one[1]) for one in found.description]):
            return None  # no row under these types need not be none
        database.page_held_text = found.any_text or bool(database.page_held_text)
        values = list(zip(*found.rows, strict=True)) or [()] * len(asked.kinds)
        arrays = []
        for at, (kind, column) in enumerate(zip(asked.kinds, values, strict=True)):
            try:
                arrays.append(pyarrow().array(column, kind.type))
            except (ValueError, TypeError, OverflowError) as error:  # pyarrow's are ValueErrors
                if _describe(reader) != asked.columns:
                    return None
                names = (*asked.columns.names, *[reader.options.cursor_column] * len(asked.kinds))
                raise unfit(self._what, names[at], BEYOND if found.any_text else type(error).__name__) from None
        return _table_as(arrays, asked.kinds)

    def _by_adbc(self, reader: PageReader, asked: _Select, limit: int) -> Any | None:
        """None if it cannot be read so, which is logged once, and not tried again for a while."""
        database = reader.database
        if database.lenient or reader.lags.monotonic() < self.not_before:
            return None  # lenient: some values psycopg could not convert
        try:
            self._refuse_adbc(reader)
            query, params = asked.query(limit, here=True)
            sql = with_literals(query.compile(database.engine), params)
        except (Unusable, NoLiteral) as error:
            self._say(error)
            return None
        beside: AdbcSession = database.facts().setdefault(_ADBC, AdbcSession())
        try:
            table = beside.read(database.driver_connection(), lambda: self._server_of(reader), sql, database.timeout)
            if [field.type for field in table.schema] != [kind.type for kind in asked.kinds]:
                raise Unusable("a column has another type than the server says")
        except Unusable as error:
            self.not_before = reader.lags.monotonic() + AGAIN_AFTER
            reader.bounding.drop()  # as after any error
            self._say(error)
            return None
        self._said = None
        return _table_as(table.columns, asked.kinds)

    def _say(self, error: Exception) -> None:
        if str(error) != self._said:
            self._said = str(error)
            logger.warning("%s: rows are read without ADBC, which is slower: %s.", self._what, error)

    def _refuse_adbc(self, reader: PageReader) -> None:
        """Return if another connection surely sees what this one does. Raises: Unusable."""
        database = reader.database
        if not self._own_engine:
            raise Unusable("the source was given an engine, which may set up its connections in its own way")
        if identity_of(database.engine) is not None:  # ADBC's driver takes it in an address only
            raise Unusable("it would need the token of `identity` in a URL")
        if database.driver_connection().info.parameter_status("server_encoding") == "SQL_ASCII":
            raise Unusable("the database has the encoding SQL_ASCII")
        if not reader.bounding.holds_session():
            raise Unusable("a pooler is between, so another connection may lead elsewhere")

    def _server_of(self, reader: PageReader) -> str:
        place = reader.database.place()
        if self._server is None or self._server[0] != place:
            self._server = place, str(reader.database.run(f"SELECT {SERVER}").rows[0][0])
        return self._server[1]


def _is_psycopg(reader: PageReader) -> bool:
    reader.database.connection()
    return hasattr(reader.database.driver_connection(), "adapters")


def _quoted(reader: PageReader, name: str) -> str:
    return f"{reader.table.relation.alias}.{reader.table.quote(name)}"


def _describe(reader: PageReader) -> _Columns:
    """The user's columns as the server describes them. Raises: TableChanged."""
    o, relation = reader.options, reader.table.relation
    chosen = f"{relation.alias}.*"
    if o.columns is not None:
        names = dict.fromkeys([*o.columns, o.cursor_column, *o.pk_columns])
        chosen = ", ".join(_quoted(reader, name) for name in names)
    found = reader.database.run(reader.database.dialect.limited(chosen, f"FROM {relation.sql}", 0))
    reader.table.refuse_other_types(found)
    return _Columns(found.names, tuple(Crossing.of(int(one[1])) for one in found.description))


# ------------------------------------------------------------------------------------------- rows that are tried again

_RANGES = {3904, 3906, 3908, 3910, 3912, 3926, 4451, 4532, 4533, 4534, 4535, 4536}
"""Oids of the built-in ranges and multiranges (pg_type.dat): none has a text in which `None` is a value."""
_ENDLESS = re.compile(r"(?<=[\[(])None(?=,)|, None(?=[\])])")
"""The `None` of a range without an end, as psycopg's `str` writes it."""


def with_texts(
    rows: Sequence[Mapping[str, Any]],
    kinds: Mapping[str, Crossing],
    run: Callable[[str, Mapping[str, Any]], Any] | None,
) -> list[tuple[Any, ...]]:
    """The values of rows that were read earlier, with texts in the columns that come as text. A row that was kept
    elsewhere has Python's values, or texts of them: `1E-30`, `[1, 5)`, a list of UUIDs. PostgreSQL reads each as the
    column's type and writes its text, as for a page. `run`: asks the server; None: the texts are psycopg's."""
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    written = {name: kind for name, kind in kinds.items() if kind.arrow == "string" and kind.cast and name in columns}
    for name, kind in written.items():
        columns[name] = [None if value is None else _text(value, kind) for value in columns[name]]
    asked = {name: kind for name, kind in written.items() if kind.text}
    if run is not None and asked:
        oids = ", ".join(f"({at}, {kind.oid})" for at, kind in enumerate(asked.values()))
        # -1 and not NULL: a cast to the type of that name keeps all bits, or characters
        types = run(f"SELECT format_type(o, -1) FROM (VALUES {oids}) AS t(n, o) ORDER BY n", {}).rows  # noqa: S608
        cast = [f"CAST(v.c{at} AS {str(name).replace(':', chr(92) + ':')})" for at, (name,) in enumerate(types)]
        chosen = ", ".join(kind.select(one) for kind, one in zip(asked.values(), cast, strict=True))
        given = ", ".join(f"CAST(:c{at} AS text[])" for at in range(len(asked)))
        named = ", ".join(f"c{at}" for at in range(len(asked)))
        sql = f"SELECT {chosen} FROM unnest({given}) WITH ORDINALITY AS v({named}, n) ORDER BY v.n"  # noqa: S608
        found = run(sql, {f"c{at}": columns[name] for at, name in enumerate(asked)}).rows
        columns.update(zip(asked, map(list, zip(*found, strict=True)), strict=True))
    return list(zip(*columns.values(), strict=True))


def _text(value: Any, kind: Crossing) -> str:
    """A text that the server reads as a value of the type."""
    if isinstance(value, str):
        return _ENDLESS.sub(lambda found: "," if found[0][0] == "," else "", value) if kind.oid in _RANGES else value
    if not kind.text:  # JSON, of a row that was kept with its parsed value
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, dict):  # hstore
        return ", ".join(f"{_in_quotes(name)}=>{_in_quotes(one)}" for name, one in value.items())
    if isinstance(value, (list, tuple, timedelta)) or type(value).__module__.startswith("psycopg"):
        from psycopg.adapt import PyFormat, Transformer

        try:
            found = Transformer().get_dumper(value, PyFormat.TEXT).dump(value)
            return str(value) if found is None else bytes(found).decode()
        except Exception:  # noqa: BLE001 - of a type that psycopg does not know, or with values of several types
            return str(value)
    return as_text(value)


def _in_quotes(text: Any) -> str:
    if text is None:
        return "NULL"
    escaped = str(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
