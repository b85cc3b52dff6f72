"""How large rows are, estimated from the driver's values: for limits, never for correctness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from types import NoneType
from uuid import UUID

from poller.ports import Row

LOOKED_AT = 16
"""So many rows of a page are looked at, spread over it."""
_ROW, _VALUE = 64, 16
"""Bytes of a row, and of a value, beside what it holds."""
_SMALL = frozenset({NoneType, bool, int, float, Decimal, datetime, date, time, timedelta, UUID})
"""What holds nothing beside."""


def rows_within(limit: int, rows: Sequence[Row]) -> int:
    """The number of rows like these that together have at most `most` bytes. Without any row: one."""
    if not rows:
        return 1
    step = -(-len(rows) // LOOKED_AT)
    sizes = [row_bytes(rows[at]) for at in range(0, len(rows), step)]
    return max(1, limit * len(sizes) // sum(sizes))


def rows_that_fit(limit: int, rows: Sequence[Row]) -> int:
    """The number of these rows, from the first, that together have at most `most` bytes: each one counts. At least
    one."""
    for fit, row in enumerate(rows):
        limit -= row_bytes(row)
        if limit < 0:
            return max(1, fit)
    return max(1, len(rows))


def row_bytes(row: Row) -> int:
    """About how many bytes a row takes: of texts as in UTF-8, of arrays and documents with all that they hold."""
    size, within = _ROW + _VALUE * len(row), list(row.values())
    for value in within:  # grows while it is read: what a value holds is looked at like the others
        if type(value) in _SMALL:
            continue
        if isinstance(value, str):
            size += len(value) if value.isascii() else len(value.encode(errors="replace"))
        elif isinstance(value, bytes | bytearray | memoryview):
            size += len(value)
        elif isinstance(value, Mapping):
            size += 2 * _VALUE * len(value)
            within.extend(value)
            within.extend(value.values())
        elif isinstance(value, list | tuple | set | frozenset):
            size += _VALUE * len(value)
            within.extend(value)
    return size
