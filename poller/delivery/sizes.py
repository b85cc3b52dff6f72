"""How large rows are, estimated from the driver's values: for limits of memory, never for correctness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from poller.ports import Row

LOOKED_AT = 16
"""So many rows of a page are looked at, spread over it."""
_ROW, _VALUE = 64, 16
"""Bytes of a row, and of a value, beside what it holds."""


def rows_within(limit: int, rows: Sequence[Row]) -> int:
    """How many rows like these have together at most so many bytes. Without any row: one."""
    if not rows:
        return 1
    step = -(-len(rows) // LOOKED_AT)
    sizes = [row_bytes(rows[at]) for at in range(0, len(rows), step)]
    return max(1, limit * len(sizes) // sum(sizes))


def row_bytes(row: Row) -> int:
    """About how many bytes a row takes in memory."""
    return _ROW + sum(_bytes(value) for value in row.values())


def _bytes(value: Any) -> int:
    if isinstance(value, str | bytes | bytearray | memoryview):
        return _VALUE + len(value)
    if isinstance(value, Mapping):
        return _VALUE + sum(_bytes(name) + _bytes(one) for name, one in value.items())
    if isinstance(value, list | tuple | set | frozenset):
        return _VALUE + sum(map(_bytes, value))
    return _VALUE
