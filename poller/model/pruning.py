"""How far a table may be pruned: below the checkpoint of every poller that reads it, and no row that waits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from poller.model.document import State


@dataclass(frozen=True, slots=True)
class TableReader:
    """A poller or backfill that reads a table by a number.

    Attributes:
        name: of its application and its own, such as `shop/orders`.
        done: every row whose number is at most this was delivered, or is among those that wait; None: it is at the
            beginning.
        waiting: the numbers of rows that were passed and wait, for another try or for a person.
    """

    name: str
    done: int | None
    waiting: frozenset[int] = frozenset()


def reader_of(name: str, state: State, *, unique: bool, begins: str | None = None) -> TableReader:
    """The reader that a state document is of.

    Args:
        unique: whether no two rows have the same number: else those at the checkpoint's number are not counted as done.
        begins: where a backfill begins, which has nothing to do before.
    Raises: ValueError, for a cursor that is not a number.
    """
    cursor = state.checkpoint.cursor
    waiting = frozenset(int(row.cursor.value) for row in (*state.aside, *state.quarantine))
    if cursor is None:
        return TableReader(name, None if begins is None else int(begins) - 1, waiting)
    whole = unique and cursor.tiebreaker is not None
    return TableReader(name, int(cursor.value) - (0 if whole else 1), waiting)


def limit_of(readers: Iterable[TableReader]) -> TableReader:
    """The reader that is the farthest behind. At least one must be given."""
    return min(readers, key=lambda one: (one.done is not None, one.done or 0, one.name))
