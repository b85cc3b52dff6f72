"""Values of a row as a column of the target takes them, and how much of a statement they are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from math import isnan
from typing import Any, Protocol
from uuid import UUID

from sqlalchemy.types import ARRAY, JSON, Boolean, Enum, String, Time

from poller.ports import IntervalText, JsonText
from poller.relays.messages import json_text, plain_value

_LARGEST_SQLITE_INTEGER = 2**63
REST_OF_STATEMENT = 500
"""Bytes of an upsert, for each column, beside texts and bytes: more than its names and a number take."""
_ESCAPED = "\0\n\r\x1a\"'\\"


class Unstorable(ValueError):
    """A value that a column cannot hold. Its message quotes no value."""


def size_of(value: Any) -> int:
    """Bytes that a text or bytes take in a statement of MySQL, escaped. Raises: UnicodeEncodeError, for a text that
    UTF-8 does not have, which no driver can send."""
    if isinstance(value, str):
        return len(value.encode()) + (sum(map(value.count, _ESCAPED)) if len(value) > REST_OF_STATEMENT else 0)
    if isinstance(value, bytes | bytearray | memoryview):
        plain = bytes(value)
        return len(plain) + (sum(map(plain.count, _ESCAPED.encode())) if len(plain) > REST_OF_STATEMENT else 0)
    return 0


class Maker(Protocol):
    """What makes a value of the table of a value of a row."""

    def __call__(self, kind: Any, value: Any, /) -> Any:
        """The value as a column of this type takes it. Raises: Unstorable, if the database does not have it."""


def _for_postgresql(kind: Any, value: Any, /) -> Any:
    if value is None:
        return None
    if isinstance(kind, ARRAY) and isinstance(value, JsonText):
        value = json.loads(value, parse_float=Decimal)
    if isinstance(kind, ARRAY) and isinstance(value, list | tuple):
        return _array(kind.item_type, value)
    if isinstance(kind, JSON):
        return _json(value)
    if isinstance(value, IntervalText):
        return str(value)
    value = _plain(value)
    if isinstance(kind, Boolean) and type(value) is int:
        return bool(value) if value in (0, 1) else value
    return _json(value) if isinstance(value, dict | list | tuple) else value


def _for_mysql(kind: Any, value: Any, /) -> Any:
    if isinstance(kind, JSON) and value is not None:
        return _json(value)
    value = _plain(value)
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None)
    if isinstance(value, dict | list | tuple):
        return _json(value)
    if isinstance(value, float) and isnan(value):
        raise Unstorable("NaN is not a number there")
    if isinstance(value, IntervalText) and isinstance(kind, Time):
        raise Unstorable("months are no time of day")
    if isinstance(value, Decimal) and isinstance(kind, String) and value.is_finite():
        return format(value, "f")  # a number of more than 65 digits would be cut off
    if type(value) is int and isinstance(kind, String) and not isinstance(kind, Enum):
        return str(value)  # a long one would be cut off, and as a key it would find "07" for 7
    return str(value) if isinstance(value, UUID | str) else value


def _for_sqlite(kind: Any, value: Any, /) -> Any:
    if isinstance(kind, JSON) and not isinstance(value, bytes | memoryview | bool | float | None):
        return _kept_by_sqlite(_json(value))
    value = _plain(value)
    if value is None or isinstance(value, bytes | memoryview | bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return value if -_LARGEST_SQLITE_INTEGER <= value < _LARGEST_SQLITE_INTEGER else str(value)
    if isinstance(value, float):
        if isnan(value):
            raise Unstorable("NaN is not a number there")  # it would be stored as NULL
        return value
    if isinstance(value, datetime):
        return (value if value.tzinfo is None else value.astimezone(UTC)).isoformat(" ", "microseconds")
    if isinstance(value, date | time | timedelta | Decimal | UUID):
        return plain_value(value)
    return _json(value) if isinstance(value, dict | list | tuple) else plain_value(value)


_NUMBER = re.compile(r"\s*-?\d", re.ASCII)


def _kept_by_sqlite(text: str) -> str | int | float:
    """A column that is declared as JSON keeps a number as its own. Raises: Unstorable, if digits would be lost."""
    if _NUMBER.match(text) is None:
        return text
    try:
        found = Decimal(text)
    except ArithmeticError:  # its exponent is beyond Decimal's
        raise Unstorable("it is beyond the numbers of SQLite") from None
    if -_LARGEST_SQLITE_INTEGER <= found < _LARGEST_SQLITE_INTEGER and int(found) == found:
        return int(found)
    if Decimal(repr(float(found))) != found:
        raise Unstorable("it has more digits than a number of SQLite")
    return float(found)


def _json(value: Any) -> str:
    """The text of a JSON column: the database's own, if there is one. A text that is a list or an object in JSON is
    taken as that: the other databases keep JSON in columns of text."""
    if isinstance(value, JsonText):
        return str(value)
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        try:
            json.loads(value)
        except ValueError:
            pass
        else:
            return value
    return _within(value)


def _within(value: Any) -> str:
    """The same of a value in a list, in which a text is a text."""
    if isinstance(value, JsonText):
        return str(value)
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_within, value))}]"
    return json_text(plain_value(_length(value) if isinstance(value, IntervalText) else value))


def _plain(value: Any) -> Any:
    """The value for a column that does not take the database's text as it is: JSON's texts and numbers (with all their
    digits), lists and objects as text, no value for null; an interval as a length of time, unless it has months."""
    if isinstance(value, JsonText):
        if value.lstrip()[:1] in ("[", "{"):
            return str(value)
        try:
            return json.loads(value, parse_float=Decimal)
        except ValueError:  # a number of more digits than Python reads
            return str(value)
    return _length(value) if isinstance(value, IntervalText) else value


_INTERVAL = re.compile(r"(?:([+-]?\d+) days? ?)?(?:([+-]?)(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?", re.ASCII)


def _length(text: IntervalText) -> timedelta | IntervalText:
    found = _INTERVAL.fullmatch(text)
    if found is None:
        return text
    days, sign, hours, minutes, seconds, fraction = found.groups()
    try:
        length = timedelta(
            hours=int(hours or 0),
            minutes=int(minutes or 0),
            seconds=int(seconds or 0),
            microseconds=int((fraction or "").ljust(6, "0")),
        )
        return timedelta(days=int(days or 0)) + (-length if sign == "-" else length)
    except OverflowError:
        return text


def _array(item: Any, values: Sequence[Any]) -> Any:
    """Of PostgreSQL's. JSON and intervals have no form in a list that the driver would send as such an array: those are
    the array's text."""
    if isinstance(item, JSON) or any(isinstance(one, IntervalText | JsonText) for one in _leaves(values)):
        return _array_text(item, values)
    return list(values)


def _leaves(values: Sequence[Any]) -> Iterator[Any]:
    for one in values:
        yield from _leaves(one) if isinstance(one, list) else (one,)


def _array_text(item: Any, values: Sequence[Any]) -> str:
    parts = []
    for one in values:
        made = _array_text(item, one) if isinstance(one, list) else _for_postgresql(item, one)
        if made is None:
            parts.append("NULL")
        elif isinstance(one, list):
            parts.append(made)
        else:
            escaped = str(plain_value(made)).replace("\\", "\\\\").replace('"', '\\"')
            parts.append(f'"{escaped}"')
    return f"{{{','.join(parts)}}}"


MAKERS: dict[str, Maker] = {"postgresql": _for_postgresql, "mysql": _for_mysql, "sqlite": _for_sqlite}
