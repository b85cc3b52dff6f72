"""From the driver's records to the rows that a handler gets and to their cursors, and the values that a driver cannot
convert."""

from __future__ import annotations

import ast
import codecs
import json
import re
from abc import abstractmethod
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from typing import Any, Self, TypeVar, overload
from urllib.parse import quote
from uuid import UUID

from poller.errors import SourceError
from poller.model.cursor import Cursor, CursorKind, KeyValue, text_size
from poller.ports import FreshRows, JsonText, Row
from poller.sources.columns import RENDERED_BY_DATABASE, CursorColumn, Family, ValueFormat

Records = Sequence[Sequence[Any]]
_T = TypeVar("_T")
_CHANGEABLE = (list, dict, set, tuple, bytearray)
"""What can be changed in place, or hold what can."""


class Parts(Sequence[_T]):
    """A sequence whose parts are sequences of its kind."""

    @abstractmethod
    def take(self, positions: Sequence[int]) -> Self:
        """Those at these positions, in this order."""

    @overload
    def __getitem__(self, index: int) -> _T: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> _T | Self:
        at = range(len(self))[index]
        return self.take(at) if isinstance(at, range) else next(iter(self.take(range(at, at + 1))))


def _at(records: Records, positions: Sequence[int]) -> Records:
    if isinstance(positions, range) and positions.step == 1:
        return records[positions.start : positions.stop]
    return [records[at] for at in positions]


class ListedRows(Parts[Row], FreshRows):
    """Rows that are compared and shown as a list of them."""

    def __eq__(self, other: object) -> bool:
        return list(self) == (list(other) if isinstance(other, ListedRows) else other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))


class LazyRows(ListedRows):
    """The records as plain dicts of their first columns, in select order, without what follows these: made when they
    are asked for, so that a page that is handed over in batches, or again after a failure, needs no copies.

    Args:
        names: of the first columns. changeable: which of them hold values that can be changed in place. documents:
            those that are JSON.
    """

    def __init__(
        self, records: Records, names: tuple[str, ...], changeable: Sequence[int], documents: JsonValues
    ) -> None:
        self._records = records
        self._names = names
        self._changeable = changeable
        self._documents = documents

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._made(self._records))

    def take(self, positions: Sequence[int]) -> LazyRows:
        """See `Parts`."""
        return LazyRows(_at(self._records, positions), self._names, self._changeable, self._documents)

    def _made(self, records: Records) -> list[dict[str, Any]]:
        if not records:
            return []
        rows = _maker(self._names, len(records[0]))(records)
        for place in self._changeable:
            name, take = self._names[place], self._documents.take
            for row in rows:
                value = row[name]
                if isinstance(value, _CHANGEABLE):
                    row[name] = take(value)
        return rows


def with_json(records: Records, places: Sequence[int]) -> Records:
    """The records, with the JSON at these places marked as such. What is no JSON stays: not every database checks."""
    return [
        tuple(marked_json(value) if at in places else value for at, value in enumerate(record)) for record in records
    ]


def marked_json(value: Any) -> Any:
    """A value of a column of JSON, marked as such: see `with_json`."""
    try:
        if isinstance(value, str):
            json.loads(value)
            return JsonText(value)
        return JsonText(json.dumps(value, allow_nan=False)) if type(value) in (int, float) else value
    except (ValueError, RecursionError):
        return value


def changeable(records: Records, width: int, description: Sequence[Sequence[Any]], scalar: Container[Any]) -> list[int]:
    """Which of the first columns hold values that can be changed in place. All values are looked at, unless the type
    of the column says that there are none, and the first and the last record do not show otherwise.

    Args:
        description: the driver's, of the columns. scalar: codes in it of immutable types.
    """
    if not records:
        return []
    coded = {place for place, column in enumerate(description) if column[1] in scalar}
    if not coded and not _changes(chain.from_iterable(records)):
        return []
    ends = (records[0], records[-1])
    return [place for place in range(width) if _changes(r[place] for r in (ends if place in coded else records))]


def _changes(values: Iterable[Any]) -> bool:
    return any(issubclass(kind, _CHANGEABLE) for kind in set(map(type, values)))


@lru_cache(maxsize=128)
def _maker(names: tuple[str, ...], width: int) -> Callable[[Records], list[dict[str, Any]]]:
    """`[{name: a, name: b, ...} for a, b, ... in records]`, compiled for these columns of records of this width: half
    of the time of a `zip` per record. The names are constants of the syntax tree: none of them is read as code."""
    values = [f"v{place}" for place in range(len(names))]
    targets: list[ast.expr] = [ast.Name(value, ast.Store()) for value in values]
    targets += [ast.Name("_", ast.Store()) for _ in range(width - len(names))]
    row = ast.Dict([ast.Constant(name) for name in names], [ast.Name(value, ast.Load()) for value in values])
    loop = ast.comprehension(ast.Tuple(targets, ast.Store()), ast.Name("records", ast.Load()), [], 0)
    given = ast.arguments(posonlyargs=[], args=[ast.arg("records")], kwonlyargs=[], kw_defaults=[], defaults=[])
    tree = ast.Expression(ast.Lambda(given, ast.ListComp(row, [loop])))
    made: Callable[[Records], list[dict[str, Any]]]
    made = eval(compile(ast.fix_missing_locations(tree), "<columns>", "eval"), {"__builtins__": {}})  # noqa: S307
    return made


# ----------------------------------------------------------------------------------------------------- cursors and keys
# Key values between the driver, the document's JSON and the database, and the cursors that are made of records.


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


class _PerRecord(Parts[_T]):
    """Something of each record, made on demand: most is never used."""

    def __init__(self, records: Records, make: Callable[[Sequence[Any]], _T]) -> None:
        self._records = records
        self._make = make

    def __len__(self) -> int:
        return len(self._records)

    def take(self, positions: Sequence[int]) -> Self:
        """See `Parts`."""
        part = copy(self)
        part._records = _at(self._records, positions)
        return part

    def __iter__(self) -> Iterator[_T]:
        return map(self._make, self._records)


class LazyCursors(_PerRecord[Cursor]):
    """The cursor of each record."""

    def __init__(self, records: Records, plan: ReadPlan) -> None:
        super().__init__(records, plan.cursor)
        self._plan = plan

    def longest(self) -> Cursor:
        """See `poller.model.aside.MeasuredRows`."""
        return self._plan.longest(self._records)

    def keys(self) -> LazyKeys:
        """See `poller.ports.KeyedCursors`."""
        return LazyKeys(self._records, self._plan)


class LazyKeys(_PerRecord[Mapping[str, KeyValue]]):
    """The key columns of each record."""

    def __init__(self, records: Records, plan: ReadPlan) -> None:
        super().__init__(records, plan.key)


class LazyOrdering(_PerRecord[Mapping[str, KeyValue | None]]):
    """The ordering key of each record: it is asked for only where a row waits or failed.

    Args:
        columns: of the key; their texts are the last columns of a record.
    """

    def __init__(self, records: Records, columns: Sequence[str]) -> None:
        super().__init__(records, lambda record: dict(zip(columns, _last_texts(record, len(columns)), strict=True)))
        self._many = len(columns)

    def texts(self) -> list[tuple[str | None, ...]]:
        """See `poller.ports.TextKeys`."""
        return [_last_texts(record, self._many) for record in self._records]


def _last_texts(record: Sequence[Any], many: int) -> tuple[str | None, ...]:
    return tuple(None if text is None else str(text) for text in record[-many:])


def is_later(value: str, other: str) -> bool:
    """True if one cursor value certainly sorts after another of its column: numbers, and times of four-digit years."""
    if value.isdigit() and other.isdigit():
        return int(value) > int(other)
    return bool(_TIME.match(value) and _TIME.match(other)) and value > other


_TIME = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


# --------------------------------------------------------------------------------------- values that no driver converts
# Values that a driver cannot convert to Python: they are returned as text, one by one.
# This runs only after a failure: the statement is run again so that the driver returns the database's own text. Bytes
# that are not valid UTF-8 are escaped in it, so that it can be printed and stored.

CONVERSION_ERRORS = (ValueError, ArithmeticError, RecursionError)
"""What converters of dates, JSON and text raise, which are not driver's errors."""

CODEC = "poller_utf8"
"""For drivers that take only the name of an encoding."""


class Escaped(str):
    """A text in which invalid UTF-8 is escaped: it cannot be used to find its row again."""

    __slots__ = ()


@dataclass(frozen=True)
class Reread:
    """Rows of a statement that was run again.

    Attributes:
        rows: the driver's values, and texts in place of those it could not convert.
        any_text: whether there is such a text.
        escaped: row and column of each text that differs from what is stored.
    """

    rows: Sequence[Sequence[Any]]
    any_text: bool = False
    escaped: frozenset[tuple[int, int]] = frozenset()


def decode(data: bytes | bytearray | memoryview) -> str:
    """A text as it is, or `Escaped`."""
    try:
        return bytes(data).decode()
    except UnicodeDecodeError:
        return Escaped(bytes(data).decode(errors="backslashreplace"))


def plain(rows: Iterable[Sequence[Any]], *, any_text: bool = False) -> Reread:
    """The rows with plain texts only, and which of these were escaped."""
    found = [tuple(row) for row in rows]
    escaped = {(r, c) for r, row in enumerate(found) for c, value in enumerate(row) if type(value) is Escaped}
    for place in {row for row, _ in escaped}:
        found[place] = tuple(str(value) if type(value) is Escaped else value for value in found[place])
    return Reread(found, any_text or bool(escaped), frozenset(escaped))


def converted(load: Callable[[Any], Any], data: Sequence[Any]) -> tuple[list[Any], bool]:
    """A column's values from what the server sent, and whether one of them is text because it failed to convert."""
    try:
        return [None if value is None else load(value) for value in data], False
    except Exception:  # noqa: BLE001 - a loader that the user registered may raise anything
        return [None if value is None else _or_text(load, value) for value in data], True


def _or_text(load: Callable[[Any], Any], value: Any) -> Any:
    try:
        return load(value)
    except Exception:  # noqa: BLE001
        return decode(value)


def _find(name: str) -> codecs.CodecInfo | None:
    if name != CODEC:
        return None
    return codecs.CodecInfo(codecs.utf_8_encode, lambda data, _errors="strict": (decode(data), len(data)), name=CODEC)


codecs.register(_find)


class JsonValues:
    """The lists and objects of one result that came as JSON.

    Args:
        parse: what a text means; it has parsed each of them before.
    """

    def __init__(self, parse: Callable[[bytes], Any] | None = None) -> None:
        self._parse = parse
        self._kept: list[Any] = []  # their ids are theirs as long as they are there
        self._untaken: dict[int, bytes] = {}
        self._taken: dict[int, bytes] = {}

    def add(self, value: Any, text: bytes) -> None:
        """It was parsed just now."""
        self._kept.append(value)
        self._untaken[id(value)] = text

    def join(self, others: JsonValues) -> None:
        """With those of another result, which was not taken yet."""
        self._parse = self._parse or others._parse
        self._kept += others._kept
        self._untaken |= others._untaken

    def take(self, value: Any) -> Any:
        """A value that the caller may change: this one, if it is a document that was not taken before; else another
        one of the same text, and a copy of anything else."""
        place = id(value)
        text = self._untaken.pop(place, None)
        if text is not None:
            self._taken[place] = text
            return value
        text = self._taken.get(place)
        return deepcopy(value) if text is None or self._parse is None else self._parse(text)
