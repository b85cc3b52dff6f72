"""Values that a driver cannot convert to Python: they are returned as text, one by one.

This runs only after a failure: the statement is run again so that the driver returns the database's own text. Bytes
that are not valid UTF-8 are escaped in it, so that it can be printed and stored.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

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


class Documents:
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

    def join(self, others: Documents) -> None:
        """With those of another result, which nobody has taken yet."""
        self._parse = self._parse or others._parse
        self._kept += others._kept
        self._untaken |= others._untaken

    def take(self, value: Any) -> Any:
        """A value that the caller may change: this one, where it is a document that was not taken before; else another
        one of the same text, and of what is no document a copy."""
        place = id(value)
        text = self._untaken.pop(place, None)
        if text is not None:
            self._taken[place] = text
            return value
        text = self._taken.get(place)
        return deepcopy(value) if text is None or self._parse is None else self._parse(text)
