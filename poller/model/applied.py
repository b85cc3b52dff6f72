"""What a fenced sink remembers of the rows it applied, so that none is applied twice (failures, "Effectively once").

A row is known by its id, which is kept until the row cannot come again. Positions count rows passed since the last
reset: `through` is a batch's last row, `settled` the last commit that landed. A batch may be cut otherwise when it
comes again, so the ends of batches are never compared for equality.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from poller.model.document import State


@dataclass(frozen=True, slots=True)
class Applied:
    """One fenced transaction: the ids of the rows it applied, under which generation, and up to which position."""

    generation: int
    through: int
    ids: frozenset[str]


def settled(state: State) -> int:
    """The position of the last landed commit: no row up to there comes again. `state` is a document that was read, or
    whose PUT was answered; one on its way would say too much."""
    return state.checkpoint.position


def through(state: State, passes: int) -> int:
    """The position of the last row of a batch that passes so many (`Plan.places`)."""
    return state.checkpoint.position + passes


def waiting(state: State) -> frozenset[str]:
    """Ids of rows that come again though they were passed: a killed owner may have applied them."""
    return frozenset(row.id for row in (*state.aside, *state.quarantine))


def fresh(ids: Sequence[str], known: Iterable[Applied], *, generation: int) -> tuple[str, ...]:
    """The rows of a batch that were not applied yet. A reset has all rows applied again."""
    applied = {id_ for one in known if one.generation == generation for id_ in one.ids}
    return tuple(id_ for id_ in ids if id_ not in applied)


def kept(ids: Iterable[str], failed: Collection[str]) -> frozenset[str]:
    """What the transaction remembers: not the rows that the handler named as failed, which come again."""
    return frozenset(id_ for id_ in ids if id_ not in failed)


def pruned(known: Iterable[Applied], *, settled: int, generation: int, waiting: Collection[str]) -> tuple[Applied, ...]:
    """What is still to be remembered: rows that may come again, and those that wait."""
    left = []
    for one in known:
        gone = one.generation < generation or (one.generation == generation and one.through <= settled)
        ids = frozenset(one.ids & frozenset(waiting)) if gone else one.ids
        if ids:
            left.append(replace(one, ids=ids))
    return tuple(left)
