"""Which lane a row belongs to, and what lanes have done above the checkpoint (throughput.md, "Lanes").

Rows of one ordering key are of one lane, and a lane handles its rows in cursor order. So one cursor a lane says which
of the rows behind the checkpoint are done: those of the lane up to there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from poller.model.aside import SPARE_OF_LANES, RowFacts, delivered
from poller.model.cursor import Cursor
from poller.model.document import LanesDone, State, size
from poller.model.limits import LARGEST_BODY, LONGEST_CURSOR

MOST_LEFT = 5000
"""So many rows that are not done are named in a document."""


def lane_of(row: RowFacts, lanes: int) -> int:
    """The lane of a row, from 0: by the hash of its ordering key that lists rows, too (failures 8)."""
    return lane_of_key(row.key, lanes)


def lane_of_key(hashed: str, lanes: int) -> int:
    """The lane of rows whose ordering key has this hash."""
    return int(hashed, 16) % lanes


def usable(state: State, columns: Sequence[str]) -> State:
    """Without what is known of lanes, if it is of an earlier generation or of another ordering key: those rows come
    again. `columns`: of the ordering key; empty: the key columns."""
    known = state.delivery.lanes
    if known is None or (known.generation == state.checkpoint.generation and known.ordering_key == tuple(columns)):
        return state
    return _with(state, None)


def done_up_to(state: State) -> Sequence[Cursor | None]:
    """The cursor of each lane up to which it has done its rows, as the document says of this generation."""
    known = state.delivery.lanes
    return () if known is None or known.generation != state.checkpoint.generation else known.done


def done(state: State, rows: Sequence[RowFacts], reach: Mapping[tuple[object, ...], int]) -> tuple[frozenset[int], int]:
    """Which of the rows behind the checkpoint are done, by their index, and how many rows stand up to the last cursor
    of a lane. `reach`: see `poller.model.handover.Reach`."""
    known = state.delivery.lanes
    ends = [0 if cursor is None else reach[cursor.place] for cursor in done_up_to(state)]
    if known is None or not ends:
        return frozenset(), 0
    last = max(ends)
    lanes = len(ends)
    behind = (at for at, row in enumerate(rows[:last]) if at < ends[lane_of(row, lanes)])
    left = frozenset(known.left)
    return frozenset(at for at in behind if not left or rows[at].id not in left), last


def kept(
    state: State, done: Sequence[Cursor | None], columns: Sequence[str], *, rows: int, left: Sequence[str] = ()
) -> State:
    """The document with what lanes have done, `rows` in all, and the ids of those that are `left` before the last of
    them."""
    state = delivered(state, rows)
    cursors = tuple(None if one is None or one.size() > LONGEST_CURSOR else one for one in done)
    if not any(cursors) or len(left) > MOST_LEFT:
        return over(state)
    known = LanesDone(
        generation=state.checkpoint.generation, ordering_key=tuple(columns), done=cursors, left=tuple(left)
    )
    return _with(state, known)


def fitting(state: State) -> State:
    """Without what lanes have done, if the document has no space for it: then those rows come again."""
    return state if state.delivery.lanes is None or size(state) <= LARGEST_BODY - SPARE_OF_LANES else over(state)


def over(state: State) -> State:
    """The checkpoint has passed all that lanes have done."""
    return state if state.delivery.lanes is None else _with(state, None)


def _with(state: State, lanes: LanesDone | None) -> State:
    return state.model_copy(update={"delivery": state.delivery.model_copy(update={"lanes": lanes})})
