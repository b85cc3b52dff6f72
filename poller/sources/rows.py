"""From the driver's records to the rows that a handler gets, and the values that a driver cannot convert."""

from __future__ import annotations

import ast
import codecs
import json
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any, overload

from poller.ports import FreshRows, JsonText

Records = Sequence[Sequence[Any]]
_CHANGEABLE = (list, dict, set, tuple, bytearray)
"""What can be changed in place, or hold what can."""


class LazyRows(FreshRows):
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

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> LazyRows: ...
    def __getitem__(self, index: int | slice) -> dict[str, Any] | LazyRows:
        if isinstance(index, slice):
            return LazyRows(self._records[index], self._names, self._changeable, self._documents)
        return self._made([self._records[index]])[0]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._made(self._records))

    def take(self, positions: Sequence[int]) -> LazyRows:
        """See `FreshRows.take`."""
        records = [self._records[at] for at in positions]
        return LazyRows(records, self._names, self._changeable, self._documents)

    def __eq__(self, other: object) -> bool:
        """As a list of the rows."""
        return list(self) == (list(other) if isinstance(other, LazyRows) else other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))

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
