"""Values that a driver cannot convert to Python: they are returned as text, one by one.

This runs only after a failure: the statement is run again so that the driver returns the database's own text. Bytes
that are not valid UTF-8 are escaped in it, so that it can be printed and stored.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Sequence
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
