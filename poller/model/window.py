"""Finding the row that fails, by halving (failures 2). Which rows stand up to a cursor is the database's to say, so a
window is kept as cursors, never as sizes: rows leave it while it stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from poller.model import backoff
from poller.model.cursor import Cursor
from poller.model.document import State, Window
from poller.model.limits import LONGEST_CURSOR


class Placed(Protocol):
    """A row with its place."""

    @property
    def cursor(self) -> Cursor: ...


R = TypeVar("R", bound=Placed)


def standing(state: State) -> Window | None:
    """The window, if it belongs to the checkpoint as it is. A reset or a commit by a version that knows no windows
    leaves one behind that counts for nothing."""
    window, checkpoint = state.delivery.window, state.checkpoint
    if window is None or window.after != checkpoint.cursor or window.generation != checkpoint.generation:
        return None
    return window


def alone(state: State) -> Cursor | None:
    """The row that was handed over alone and failed, if the poller cannot pass it; None if none is known."""
    found = standing(state)
    return found.suspect if found is not None and backoff.failures_of(state) else None


def searchable(rows: Sequence[R]) -> Sequence[R]:
    """The rows that can be searched: those up to the first whose cursor is too long to be stored. It can be handed over
    in a batch that goes on behind it, and nothing else."""
    if all(row.cursor.size() <= LONGEST_CURSOR for row in rows):
        return rows
    return rows[: next(index for index, row in enumerate(rows) if row.cursor.size() > LONGEST_CURSOR)]


def opened(state: State, *, until: Cursor, suspect: Cursor) -> Window:
    """A window over the page that failed: its last row, and the last of it that may be to blame."""
    checkpoint = state.checkpoint
    return Window(after=checkpoint.cursor, generation=checkpoint.generation, until=until, suspect=suspect)


def count_interrupted_try(window: Window) -> Window:
    """As the next owner finds it: a piece that was handed over and never ended failed, and its end is the suspect. A
    row alone stays the piece, for the next owner to count that failure."""
    if window.piece is None or window.piece == window.suspect:
        return window
    return window.model_copy(update={"suspect": window.piece, "piece": None})


def half(rows: int) -> int:
    """The number of the rows up to the suspect that are handed over next."""
    return max(1, rows // 2)


def named(window: Window, *, piece: Cursor, alone: bool) -> Window:
    """The PUT before a call names the end of its piece; a row alone is its own suspect."""
    return window.model_copy(update={"piece": piece, **({"suspect": piece} if alone else {})})


def suspected(window: Window, suspect: Cursor) -> Window:
    """A piece failed: one of the rows up to its end is to blame."""
    return window.model_copy(update={"suspect": suspect, "piece": None})


def moved(window: Window, after: Cursor | None) -> Window:
    """A commit passed rows of the window: what is left of it is behind them."""
    return window.model_copy(update={"after": after, "piece": None})


def stored(state: State, window: Window | None) -> State:
    """The document with this window. While one stands no attempts count, so that an older version does not halt."""
    fields: dict[str, Any] = {"window": window}
    if window is not None:
        fields["attempts"] = 0
    return state.model_copy(update={"delivery": state.delivery.model_copy(update=fields)})


def not_begun(state: State) -> State:
    """For a release with nothing in hand: the piece that the last PUT named was not tried."""
    window = state.delivery.window
    if window is None or window.piece is None:
        return state
    return stored(state, not_begun_of(window))


def not_begun_of(window: Window) -> Window:
    """The window without a piece."""
    return window.model_copy(update={"piece": None})
