"""Rows of a captured table as changes: which operation, the row, what was before it, and which columns differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from poller.model.captured import OLD, OP, OPS, RESERVED, WHOLE_TABLE, Op


@dataclass(frozen=True, slots=True)
class RowChange:
    """A change of a captured table.

    Attributes:
        op: what was done: see `poller.model.captured.Op`.
        row: of the batch, with the reserved columns: what `batch.fail`, `batch.reject` and `batch.key` take. Of a
            delete the row that is gone, only its key if old values are not kept.
        old: the row before an update or a delete, by column; None for the others, or if old values are not kept.
        changed: the columns that have another value than before: all of an inserted row, those that differ of an
            updated one, none of any other. None: an update whose old values are not kept.
    """

    op: Op
    row: Mapping[str, Any]
    old: Mapping[str, Any] | None
    changed: frozenset[str] | None

    @property
    def values(self) -> dict[str, Any]:
        """The row without the reserved columns; empty for T, B and E, which have no row."""
        return values_of(self.row)


def op_of(row: Mapping[str, Any]) -> Op:
    """The operation of a row. Raises: ValueError, for one that is not known."""
    found = row[OP]
    if found not in OPS:
        raise ValueError(f"a row's {OP} is none of {', '.join(OPS)}")
    return OPS[OPS.index(found)]


def values_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """The table's columns of a row of a batch; none of a change of the whole table."""
    return {} if row[OP] in WHOLE_TABLE else {name: value for name, value in row.items() if name not in RESERVED}


def change_of(row: Mapping[str, Any]) -> RowChange:
    """The change that a row of a batch is. Raises: ValueError, as `op_of`."""
    op, old = op_of(row), row.get(OLD)
    if op == "I":
        changed: frozenset[str] | None = frozenset(values_of(row))
    elif op == "U":
        changed = None if old is None else _differing(values_of(row), old)
    else:
        changed = frozenset()
    return RowChange(op, row, old, changed)


def latest(changes: Iterable[RowChange], key: Sequence[str]) -> tuple[RowChange, ...]:
    """Of changes in order: the last one of each key, in the order of these last ones.

    A row that was deleted last is its D. T, B and E concern every key, so they stay where they are between the others;
    after a T the table was empty, so that no I, U, D or R before it remains.

    Args:
        key: the columns that identify a row of the table.
    """
    found: dict[Any, RowChange] = {}
    for position, change in enumerate(changes):
        if change.op == "T":
            found = {at: one for at, one in found.items() if one.op in WHOLE_TABLE}
        at = (position,) if change.op in WHOLE_TABLE else ("key", *(_comparable(change.row[name]) for name in key))
        found.pop(at, None)
        found[at] = change
    return tuple(found.values())


def _differing(new: Mapping[str, Any], old: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(name for name, value in new.items() if name not in old or not _same(value, old[name]))


def _same(one: Any, other: Any) -> bool:
    """True also for NaN and NaN, which are not equal."""
    return bool(one is other or one == other or (one != one and other != other))


def _comparable(value: Any) -> Any:
    """A value of a key that can be looked up."""
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if isinstance(value, list):
        return tuple(map(_comparable, value))
    return repr(value) if isinstance(value, dict) else value
