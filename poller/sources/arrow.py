"""Pages as `pyarrow.Table`s (`format = "arrow"`), built of the driver's values.

A column has the type of its values: the same in every page, but where all are NULL, or a database keeps values of
several types in one column. What Arrow has no exact type for becomes text. A database may read its pages as tables
itself: see `Dialect.tables`.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import cached_property
from itertools import chain
from types import NoneType
from typing import TYPE_CHECKING, Any, Protocol

from poller import extras
from poller.errors import ConfigError, SourceError
from poller.ports import Row, Table

if TYPE_CHECKING:
    from poller.sources.connection import Database
    from poller.sources.current_bound import CurrentBound
    from poller.sources.lag import Lags
    from poller.sources.options import ReadOptions
    from poller.sources.page import Span
    from poller.sources.table import Learned

Records = Sequence[Sequence[Any]]


def pyarrow() -> Any:
    """The module. Raises: ConfigError naming `format` and the extra, if it is not installed."""
    return _module("pyarrow")


def adbc() -> Any:
    """PostgreSQL's ADBC driver. Raises: as `pyarrow`."""
    return _module("adbc_driver_postgresql.dbapi")


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0].replace("_", "-")
        raise ConfigError(
            f"`format` is arrow, which needs the package {package}: {error}.",
            key="format",
            next_step=extras.step("arrow"),
        ) from None


class PageReader(Protocol):
    """Who reads a source's pages, as far as tables need it."""

    database: Database
    options: ReadOptions
    table: Learned
    lags: Lags
    bounding: CurrentBound


@dataclass(frozen=True)
class Read:
    """A page's rows.

    Attributes:
        records: their parts of the cursor and the ordering key. names: of the columns of a record, but for the ordering
            key's. table: None if there is no row.
    """

    rows: Sequence[Row]
    records: Records
    names: tuple[str, ...]
    table: Table | None


class ArrowTables:
    """The tables of one source's pages. Raises (here): ConfigError naming `format`, if a package is missing.

    Args:
        what: the table's name, for errors.
    """

    def __init__(self, what: str) -> None:
        pyarrow()
        self._what = what
        self._types: dict[str, Any] = {}

    def read(self, reader: PageReader, intervals: Sequence[Span], limit: int, *, exact: bool) -> Read | None:  # noqa: ARG002 - not here
        """A page's rows that the database itself returns as a table; None: they come as the driver's records. `exact`:
        whether the cursor has no text of its own. Raises what the driver raises; SourceError."""
        return None

    def of_records(self, records: Records, names: Sequence[str]) -> Table:
        """The table of a page's records, whose columns `names` are the user's."""
        return Built(records, names, self._types, self._what)

    def of_rows(self, reader: PageReader, rows: Sequence[Row], *, asking: bool) -> Table:  # noqa: ARG002 - not here
        """The table of rows that were read earlier; `asking`: whether the database may be asked."""
        return Built([tuple(row.values()) for row in rows], list(rows[0]), {}, self._what)


class Whole:
    """A table that is there. Implements `poller.ports.Table`."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def slice(self, first: int, end: int) -> Whole:
        """See `poller.ports.Table`."""
        return Whole(self.arrow().slice(first, end - first))

    def take(self, positions: Sequence[int]) -> Whole:
        """See `poller.ports.Table`."""
        return Whole(self.arrow().take(positions))

    def join(self, others: Sequence[Table]) -> Whole:
        """See `poller.ports.Table`. Where the columns of the table were changed meanwhile, a row has NULL in those that
        it did not have. Raises: SourceError naming a column whose types no longer fit together."""
        pa, tables = pyarrow(), [self.arrow(), *(other.arrow() for other in others)]
        if any(table.schema != tables[0].schema for table in tables):
            _check_types(tables)
        return Whole(pa.concat_tables(tables, promote_options="permissive"))

    def arrow(self) -> Any:
        """See `poller.ports.Table`."""
        return self._table

    def __reduce__(self) -> Any:
        """To another process."""
        return received, (packed(self.arrow()),)


class Built(Whole):
    """A table that is built of records when it is asked for.

    Args:
        names: of the records' first columns. types: what the columns of earlier pages were; what is found is added.
        what: the table's name, for errors.
    """

    def __init__(self, records: Records, names: Sequence[str], types: dict[str, Any], what: str) -> None:
        self._records = records
        self._names = names
        self._types = types
        self._what = what

    def slice(self, first: int, end: int) -> Built:
        """See `poller.ports.Table`."""
        return Built(self._records[first:end], self._names, self._types, self._what)

    def take(self, positions: Sequence[int]) -> Built:
        """See `poller.ports.Table`."""
        return Built([self._records[at] for at in positions], self._names, self._types, self._what)

    def join(self, others: Sequence[Table]) -> Whole:
        """See `poller.ports.Table`. One table of all records: those of two tables might have two types."""
        records = [list(self._records)]
        for other in others:
            if not isinstance(other, Built) or list(other._names) != list(self._names):
                return super().join(others)
            records.append(list(other._records))
        return Built(list(chain.from_iterable(records)), self._names, self._types, self._what)

    def arrow(self) -> Any:
        """See `poller.ports.Table`."""
        return self._made

    @cached_property
    def _made(self) -> Any:
        columns = list(zip(*self._records, strict=True)) or [()] * len(self._names)
        arrays = {}
        for name, values in zip(self._names, columns, strict=False):
            try:
                arrays[str(name)] = array = column_of(values, self._types.get(name))
            except (ValueError, TypeError, OverflowError, ArithmeticError, pyarrow().ArrowException) as error:
                raise unfit(self._what, str(name), type(error).__name__) from None
            if not pyarrow().types.is_null(array.type):
                self._types[name] = array.type
        return pyarrow().table(arrays)


def unfit(what: str, name: str, why: str) -> SourceError:
    """The error for a column whose values have no common type in Arrow."""
    return SourceError(
        f"{what}: column {name} holds values that one column of an Arrow table cannot hold ({why}).",
        table=what,
        column=name,
        next_step='Cast it in a `query`, leave it out by `columns`, or set format = "rows".',
    )


def column_of(values: Sequence[Any], before: Any = None) -> Any:
    """An array of these values. `before`: its type in an earlier page, kept where it still fits.

    Raises: ValueError, TypeError, OverflowError where the values have no common type.
    """
    pa = pyarrow()
    kinds = set(map(type, values)) - {NoneType}
    if not kinds:
        return pa.array(values, before or pa.null())
    wanted = _type_of(kinds, values)
    if before is not None and wanted is not None and _holds(before, wanted):
        with contextlib.suppress(ValueError, TypeError, OverflowError):
            return pa.array(values, before)
    if wanted is None:
        values, wanted = [None if value is None else as_text(value) for value in values], pa.string()
    elif pa.types.is_binary(wanted):
        values = [None if value is None else bytes(value) for value in values]
    return pa.array(values, wanted)


def _type_of(kinds: set[type], values: Sequence[Any]) -> Any:
    """Arrow's type for values of these types; None if they become text.

    Raises: TypeError, if they are of types that do not mix."""
    pa = pyarrow()
    exact = {
        bool: pa.bool_(),
        int: pa.int64(),
        float: pa.float64(),
        str: pa.string(),
        bytes: pa.binary(),
        bytearray: pa.binary(),
        memoryview: pa.binary(),
        date: pa.date32(),
        time: pa.time64("us"),
        timedelta: pa.duration("us"),
    }
    if kinds == {datetime}:
        zoned = {value.tzinfo is not None for value in values if value is not None}
        if len(zoned) > 1:
            raise TypeError("times with a zone and without")
        return pa.timestamp("us", tz="UTC") if zoned.pop() else pa.timestamp("us")
    if kinds == {time} and any(value is not None and value.tzinfo is not None for value in values):
        return None  # Arrow's times of day have no zone
    found = {exact[kind] for kind in kinds if kind in exact}
    if len(found) == 1 and kinds <= set(exact):
        return found.pop()
    if kinds == {int, float}:
        return pa.float64()  # refused by pyarrow where an integer would lose digits
    if kinds == {list}:
        return pa.infer_type(values)
    if found:
        raise TypeError(" and ".join(sorted(kind.__name__ for kind in kinds)))
    return None


def _holds(before: Any, wanted: Any) -> bool:
    """True if an array of the type `before` holds values of the other type, or pyarrow refuses them. Of all other pairs
    pyarrow would make other values without an error: 1 of 1.5, a day of a time, a time of a number."""
    kinds = pyarrow().types
    if kinds.is_list(before) and kinds.is_list(wanted):
        return kinds.is_null(wanted.value_type) or _holds(before.value_type, wanted.value_type)
    if kinds.is_integer(before):
        return bool(kinds.is_integer(wanted))
    if kinds.is_floating(before):
        return bool(kinds.is_integer(wanted) or kinds.is_floating(wanted))
    return bool(before == wanted or (kinds.is_decimal(before) and kinds.is_decimal(wanted)))


def as_text(value: Any) -> str:
    """Exact: numbers of NUMERIC columns, with all their digits, UUIDs, intervals, addresses."""
    if isinstance(value, Decimal) and value.is_finite():
        return format(value, "f")
    return str(value)


def packed(table: Any) -> bytes:
    """A table as bytes (Arrow's stream format): of a slice, only the slice."""
    pa = pyarrow()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def unpacked(data: bytes) -> Any:
    """The table that was packed."""
    return pyarrow().ipc.open_stream(data).read_all()


def received(data: bytes) -> Whole:
    """A table that came from another process."""
    return Whole(unpacked(data))


def _check_types(tables: Sequence[Any]) -> None:
    """Refuse tables with a column that cannot be in one. Raises: SourceError."""
    pa = pyarrow()
    for name in dict.fromkeys(name for table in tables for name in table.column_names):
        found = {table.schema.field(name).type for table in tables if name in table.column_names}
        try:
            if pa.string() in found and pa.binary() in found:  # would be taken for bytes
                raise TypeError
            pa.unify_schemas([pa.schema([(name, kind)]) for kind in found], promote_options="permissive")
        except (TypeError, ValueError, pa.ArrowException):
            raise SourceError(
                f"The type of column {name} was changed between two pages of one batch.",
                column=name,
                next_step="The next tick reads the rows again.",
            ) from None


def table_of(rows: Sequence[Row]) -> Any:
    """Rows as a table, by the types of their values. Raises: ConfigError, SourceError."""
    names = list(rows[0]) if rows else []
    return Built([tuple(row.values()) for row in rows], names, {}, "the rows").arrow()


def as_bytes(table: Any, ending: str) -> bytes:
    """A table as Parquet (`.parquet`) or in Arrow's file format. Raises: ConfigError where pyarrow is not installed."""
    pa = pyarrow()
    sink = pa.BufferOutputStream()
    if ending == ".parquet":
        importlib.import_module("pyarrow.parquet").write_table(table, sink)
    else:
        with pa.ipc.new_file(sink, table.schema) as out:
            out.write_table(table)
    found: bytes = sink.getvalue().to_pybytes()
    return found
