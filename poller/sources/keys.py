"""Key values between the driver, the document's JSON and the database."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal
from operator import itemgetter
from typing import Any, overload
from urllib.parse import quote
from uuid import UUID

from poller.errors import SourceError
from poller.model.cursor import Cursor, CursorKind, KeyValue, text_size
from poller.sources.columns import RENDERED_BY_DATABASE, CursorColumn, Family, ValueFormat


def json_value(value: Any) -> KeyValue:
    """A key part as JSON keeps it: integers as numbers; text, UUID, NUMERIC, dates and bytes (hex) as text.

    Raises: TypeError for what has no exact text.
    """
    match value:
        case bool() | float():
            raise TypeError(type(value).__name__)
        case int() | str():
            return value
        case Decimal():
            return format(value, "f") if value.is_finite() else str(value)
        case bytes() | bytearray() | memoryview():
            return bytes(value).hex()
        case UUID():
            return str(value)
        case date():
            return value.isoformat()
        case _:
            raise TypeError(type(value).__name__)


def parse_key(text: str, column: CursorColumn) -> KeyValue:
    """A key part as a person typed it, in the document's form. The database reads dates and the like.

    Raises: ValueError, saying what the column takes.
    """
    text = text.strip() if column.family is not Family.TEXT else text
    try:
        match column.family:
            case Family.INTEGER:
                return int(text)
            case Family.NUMERIC:
                return json_value(Decimal(text))
            case Family.UUID:
                return str(UUID(text))
            case Family.BYTES:
                return bytes.fromhex(text.removeprefix("0x").removeprefix("\\x")).hex()
            case _:
                return text
    except (ValueError, ArithmeticError):
        raise ValueError(f"column {column.name} holds {column.family.value} values, and {text!r} is not one") from None


def idempotency_key(table: str, cursor: Cursor) -> str:
    """Table, key and cursor text, in one line without spaces; a later version of the row has another."""
    parts = [f"{quote(name, safe='')}={quote(str(v), safe=':-')}" for name, v in (cursor.tiebreaker or {}).items()]
    return "/".join((quote(table, safe="."), ",".join(parts), quote(cursor.value, safe=":-+ ").replace(" ", "_")))


class KeyReader:
    """Reads the cursor's parts from a fetched record: from the user's columns where the driver's value is exact, from
    helper columns after them where only the database writes it without loss."""

    def __init__(self, kind: CursorKind, table: str, cursor: CursorColumn, keys: Sequence[CursorColumn]) -> None:
        self._kind = kind
        self._table = table
        self.helpers = [k for k in keys if k.family in RENDERED_BY_DATABASE and k.name != cursor.name]
        self._cursor = cursor
        self._keys = keys

    def plan(self, names: Sequence[str], exact: ValueFormat | None = None) -> ReadPlan:
        """Where each part is in a record; `names` are the user's columns, which the helpers follow. `exact`: how the
        cursor's text is made of its column's value; None if it is the first helper."""
        width = len(names)
        others = width + (exact is None)
        rendered = {column.name: others + i for i, column in enumerate(self.helpers)}
        if self._cursor.family in RENDERED_BY_DATABASE:
            rendered[self._cursor.name] = width
        places = [(k.name, rendered[k.name] if k.name in rendered else names.index(k.name)) for k in self._keys]
        text_at = width if exact is None else names.index(self._cursor.name)
        return ReadPlan(self._kind, self._table, text_at, places, width=width, exact=exact)


class ReadPlan:
    """How to make a `Cursor` of a record. Records are the driver's tuples: a handler that changes its rows does not
    change them.

    Attributes:
        text_at: where the cursor's text is, or with `exact` the value that it is made of; places: of each key column,
            its name and where its value is. width: how many columns are the user's, the first of a record.
    """

    def __init__(
        self,
        kind: CursorKind,
        table: str,
        text_at: int,
        places: Sequence[tuple[str, int]],
        *,
        width: int,
        exact: ValueFormat | None = None,
    ) -> None:
        self._kind = kind
        self._table = table
        self._text: Callable[[Any], str] = str if exact is None else exact.text
        self.text_at = text_at
        self.places = places
        self.width = width
        self.exact = exact

    def cursor(self, record: Sequence[Any]) -> Cursor:
        """The position right after this record."""
        return Cursor.trusted(self._kind, self._text(record[self.text_at]), self.key(record))

    def key(self, record: Sequence[Any]) -> dict[str, KeyValue]:
        """The key columns of this record. Raises: SourceError, if a value has no exact text."""
        tiebreaker: dict[str, KeyValue] = {}
        for name, place in self.places:
            value = record[place]
            if type(value) is not int and type(value) is not str:
                value = self._part(name, value)
            tiebreaker[name] = value
        return tiebreaker

    def longest(self, records: Sequence[Sequence[Any]]) -> Cursor:
        """A cursor of the longest parts that any of the records has."""
        tiebreaker: dict[str, KeyValue] = {}
        for name, place in self.places:
            values = list(map(itemgetter(place), records))
            if set(map(type, values)) == {int}:
                tiebreaker[name] = max(min(values), max(values), key=lambda number: len(str(number)))
            else:
                parts = (self._part(name, value) for value in values)
                tiebreaker[name] = max(parts, key=lambda part: text_size(str(part)))
        texts = map(self._text, map(itemgetter(self.text_at), records))
        return Cursor.trusted(self._kind, max(texts, key=text_size if self.exact is None else len), tiebreaker)

    def _part(self, name: str, value: Any) -> KeyValue:
        try:
            return json_value(value)
        except TypeError as error:
            raise SourceError(
                f"{self._table}: key column {name} holds a {error} value, which has no exact text.",
                table=self._table,
                column=name,
                next_step="Use a key of integers, text, UUID, NUMERIC, dates or bytes.",
            ) from None

    def identities(self, records: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
        """Cursor and key of each record, for comparing neighbours."""
        return list(map(itemgetter(self.text_at, *(place for _, place in self.places)), records))


class LazyCursors(Sequence[Cursor]):
    """One cursor per record, made on demand: most are never used."""

    def __init__(self, records: Sequence[Sequence[Any]], plan: ReadPlan) -> None:
        self._records = records
        self._plan = plan

    def __len__(self) -> int:
        return len(self._records)

    @overload
    def __getitem__(self, index: int) -> Cursor: ...
    @overload
    def __getitem__(self, index: slice) -> LazyCursors: ...
    def __getitem__(self, index: int | slice) -> Cursor | LazyCursors:
        if isinstance(index, slice):
            return LazyCursors(self._records[index], self._plan)
        return self._plan.cursor(self._records[index])

    def __iter__(self) -> Iterator[Cursor]:
        return map(self._plan.cursor, self._records)

    def longest(self) -> Cursor:
        """See `poller.model.aside.MeasuredRows`."""
        return self._plan.longest(self._records)

    def keys(self) -> LazyKeys:
        """See `poller.ports.KeyedCursors`."""
        return LazyKeys(self._records, self._plan)


class LazyKeys(Sequence[Mapping[str, KeyValue]]):
    """The key columns of each record, made on demand."""

    def __init__(self, records: Sequence[Sequence[Any]], plan: ReadPlan) -> None:
        self._records = records
        self._plan = plan

    def __len__(self) -> int:
        return len(self._records)

    @overload
    def __getitem__(self, index: int) -> Mapping[str, KeyValue]: ...
    @overload
    def __getitem__(self, index: slice) -> LazyKeys: ...
    def __getitem__(self, index: int | slice) -> Mapping[str, KeyValue] | LazyKeys:
        if isinstance(index, slice):
            return LazyKeys(self._records[index], self._plan)
        return self._plan.key(self._records[index])

    def __iter__(self) -> Iterator[Mapping[str, KeyValue]]:
        return map(self._plan.key, self._records)


class LazyOrdering(Sequence[Mapping[str, KeyValue | None]]):
    """The ordering key of each record, made on demand: it is asked for only where a row waits or failed.

    Args:
        columns: of the key; their texts are the last columns of a record.
    """

    def __init__(self, records: Sequence[Sequence[Any]], columns: Sequence[str]) -> None:
        self._records = records
        self._columns = columns

    def __len__(self) -> int:
        return len(self._records)

    @overload
    def __getitem__(self, index: int) -> Mapping[str, KeyValue | None]: ...
    @overload
    def __getitem__(self, index: slice) -> LazyOrdering: ...
    def __getitem__(self, index: int | slice) -> Mapping[str, KeyValue | None] | LazyOrdering:
        if isinstance(index, slice):
            return LazyOrdering(self._records[index], self._columns)
        texts = self._records[index][-len(self._columns) :]
        return {name: None if text is None else str(text) for name, text in zip(self._columns, texts, strict=True)}

    def texts(self) -> list[tuple[str | None, ...]]:
        """See `poller.ports.TextKeys`."""
        many = len(self._columns)
        return [tuple(None if text is None else str(text) for text in one[-many:]) for one in self._records]


def is_later(value: str, other: str) -> bool:
    """True if one cursor value certainly sorts after another of its column: numbers, and times of four-digit years."""
    if value.isdigit() and other.isdigit():
        return int(value) > int(other)
    return bool(_TIME.match(value) and _TIME.match(other)) and value > other


_TIME = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
