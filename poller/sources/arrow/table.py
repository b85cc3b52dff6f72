"""A page as a table, and its records and rows, whose values are made where somebody asks for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

from poller.errors import SourceError
from poller.ports import FreshRows, Row, Table
from poller.sources.arrow import pyarrow
from poller.sources.arrow.kinds import Kind, Load, python_values


@dataclass(frozen=True, slots=True)
class Shape:
    """The columns of a table: what they are, and how their values are made.

    Attributes:
        names, kinds: in order. loads: for the kinds that come as text. zone: of the session, for times with a zone.
    """

    names: tuple[str, ...]
    kinds: tuple[Kind, ...]
    loads: tuple[Load | None, ...]
    zone: str | None

    def values(self, column: Any, at: int) -> list[Any]:
        """Of a column, or of a part of it."""
        return python_values(column, self.kinds[at], self.loads[at], self.zone)


class _Record(Sequence[Any]):
    """One record, by the place of a column."""

    __slots__ = ("_at", "_of")

    def __init__(self, of: TableRecords, at: int) -> None:
        self._of, self._at = of, at

    def __len__(self) -> int:
        return self._of.width

    @overload
    def __getitem__(self, place: int) -> Any: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Any, ...]: ...
    def __getitem__(self, place: int | slice) -> Any:
        if isinstance(place, slice):
            return tuple(self._of.value(self._at, one) for one in range(*place.indices(len(self))))
        return self._of.value(self._at, place if place >= 0 else place + len(self))


class TableRecords(Sequence[Sequence[Any]]):
    """The rows of a table as a driver's records."""

    def __init__(self, table: Any, shape: Shape) -> None:
        self._table = table
        self._shape = shape
        self.width = len(shape.kinds)

    def value(self, at: int, place: int) -> Any:
        """One value."""
        return self._shape.values(self._table.column(place).slice(at, 1), place)[0]

    def __len__(self) -> int:
        return int(self._table.num_rows)

    @overload
    def __getitem__(self, index: int) -> Sequence[Any]: ...
    @overload
    def __getitem__(self, index: slice) -> TableRecords: ...
    def __getitem__(self, index: int | slice) -> Sequence[Any]:
        if isinstance(index, slice):
            return TableRecords(sliced(self._table, index), self._shape)
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            raise IndexError(index)
        return _Record(self, at)

    def __iter__(self) -> Iterator[Sequence[Any]]:
        """All values are made, column by column: whoever goes through all records asks for most of them."""
        return zip(*(self._shape.values(self._table.column(at), at) for at in range(self.width)), strict=True)


class TableRows(FreshRows):
    """The rows of a table as dicts."""

    def __init__(self, table: Any, shape: Shape) -> None:
        self._table = table
        self._shape = shape

    def __len__(self) -> int:
        return int(self._table.num_rows)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> TableRows: ...
    def __getitem__(self, index: int | slice) -> Row | TableRows:
        if isinstance(index, slice):
            return TableRows(sliced(self._table, index), self._shape)
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            raise IndexError(index)
        return next(iter(self[at : at + 1]))

    def __iter__(self) -> Iterator[Row]:
        names, shape = self._shape.names, self._shape
        columns = [shape.values(self._table.column(at), at) for at in range(len(names))]
        return (dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True))

    def take(self, positions: Sequence[int]) -> TableRows:
        """See `poller.ports.FreshRows`."""
        return TableRows(self._table.take(positions), self._shape)

    def __reduce__(self) -> Any:
        """To another process: the table as Arrow's bytes, and the values that psycopg makes."""
        shape, table = self._shape, self._table.select(range(len(self._shape.names)))
        texts = [at for at in range(len(shape.names)) if shape.kinds[at].text or shape.loads[at] is not None]
        made = {at: shape.values(table.column(at), at) for at in texts}
        return _ReceivedRows, (packed(table), shape.names, shape.kinds, shape.zone, made)


class _ReceivedRows(FreshRows):
    """Rows that came from another process."""

    def __init__(
        self,
        data: bytes,
        names: tuple[str, ...],
        kinds: tuple[Kind, ...],
        zone: str | None,
        made: Mapping[int, list[Any]],
    ) -> None:
        self._table = unpacked(data)
        self._shape = Shape(names, kinds, (None,) * len(kinds), zone)
        self._made = made

    def __len__(self) -> int:
        return int(self._table.num_rows)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | Sequence[Row]:
        return self._rows[index]

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    @property
    def _rows(self) -> list[Row]:
        names, made = self._shape.names, self._made
        columns = [made.get(at) or self._shape.values(self._table.column(at), at) for at in range(len(names))]
        return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


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


def table_as(columns: Sequence[Any], kinds: Sequence[Kind]) -> Any:
    """Columns of these kinds as a table, whoever read them: without a driver's notes."""
    pa = pyarrow()
    fields = [pa.field(str(at), kind.type) for at, kind in enumerate(kinds)]
    return pa.Table.from_arrays(list(columns), schema=pa.schema(fields))


def sliced(table: Any, index: slice) -> Any:
    """A part of a table; without a copy where it is one piece."""
    first, end, step = index.indices(table.num_rows)
    if step == 1:
        return table.slice(first, max(0, end - first))
    return table.take(pyarrow().array(range(first, end, step), pyarrow().int64()))


def received(data: bytes) -> Whole:
    """A table that came from another process."""
    return Whole(unpacked(data))


def _check_types(tables: Sequence[Any]) -> None:
    """Refuse tables of which a column cannot be one. Raises: SourceError."""
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
                next_step="The next tick reads the rows anew.",
            ) from None
