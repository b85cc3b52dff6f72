"""Values of a row as a column of the target takes them, and how much of a statement they are."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from math import isnan
from typing import Any, Protocol
from uuid import UUID

from sqlalchemy.types import ARRAY, JSON, Boolean

from poller.relays.messages import json_text, plain_value

_LARGEST_SQLITE_INTEGER = 2**63
REST_OF_STATEMENT = 500
"""Bytes of an upsert, for each column, beside texts and bytes: more than its names and a number take."""
_ESCAPED = "\0\n\r\x1a\"'\\"


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
        """The value as a column of this type takes it. Raises: ValueError, where the database does not have it."""


def _for_postgresql(kind: Any, value: Any, /) -> Any:
    if value is None:
        return None
    if isinstance(kind, JSON):
        return _json(value)
    if isinstance(kind, Boolean) and type(value) is int:
        return bool(value) if value in (0, 1) else value
    if isinstance(value, dict) or (isinstance(value, list | tuple) and not isinstance(kind, ARRAY)):
        return json_text(plain_value(value))
    return value


def _for_mysql(kind: Any, value: Any, /) -> Any:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None)
    if isinstance(value, dict | list | tuple) or (isinstance(kind, JSON) and value is not None):
        return _json(value)
    if isinstance(value, float) and isnan(value):
        raise ValueError("NaN")
    return str(value) if isinstance(value, UUID) else value


def _for_sqlite(_kind: Any, value: Any, /) -> Any:
    if value is None or isinstance(value, str | bytes | memoryview | bool):
        return value
    if isinstance(value, int):
        return value if -_LARGEST_SQLITE_INTEGER <= value < _LARGEST_SQLITE_INTEGER else str(value)
    if isinstance(value, float):
        if isnan(value):
            raise ValueError("NaN")  # it would be stored as NULL
        return value
    if isinstance(value, datetime):
        return (value if value.tzinfo is None else value.astimezone(UTC)).isoformat(" ", "microseconds")
    if isinstance(value, date | time | timedelta | Decimal | UUID):
        return plain_value(value)
    return json_text(plain_value(value)) if isinstance(value, dict | list | tuple) else plain_value(value)


def _json(value: Any) -> str:
    """The text of a JSON column. A text that is a list or an object in JSON is taken as that."""
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        try:
            json.loads(value)
        except ValueError:
            pass
        else:
            return value
    return json_text(plain_value(value))


MAKERS: dict[str, Maker] = {"postgresql": _for_postgresql, "mysql": _for_mysql, "sqlite": _for_sqlite}
