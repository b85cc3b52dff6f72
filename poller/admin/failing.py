"""What the state document says of failing rows: of the pending batch, and of the rows that wait beside it. Fields that
an older version left behind count for nothing."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from poller.config import PollerOptions
from poller.model import aside, backoff, window
from poller.model.cursor import Cursor
from poller.model.document import State, WaitingRow, Window
from poller.model.result import ResultModel
from poller.model.stamps import Stamp
from poller.model.view import PollerFacts


class FailingOutput(ResultModel):
    """What fails, and what waits. Where the state document was not read, nothing of it is known."""

    failures: int | None = None
    """Calls of the pending batch that failed in a row; while the row that fails is searched for, of that row alone."""
    retry_at: Stamp | None = None
    """No call is made before, by the store's clock; null if the next tick makes one."""
    searched_up_to: Cursor | None = None
    """The row that fails is searched for: it is one of those behind the checkpoint, up to here."""
    row: Cursor | None = None
    """The row that fails, and that the poller cannot pass; null if none is known."""
    aside: int | None = None
    """Rows set aside, which are retried automatically."""
    aside_since: Stamp | None = None
    """When the oldest of them was set aside."""
    quarantined: int | None = None
    """Rows that wait for a person."""
    quarantined_since: Stamp | None = None
    """When the oldest of them was set aside."""
    aside_due: int | None = None
    """The number of those set aside that may be tried now: work for a worker, beside `pending`."""


def failing(state: State, options: PollerOptions, facts: PollerFacts) -> FailingOutput:
    """What a document says of failing rows; `facts` are what it says too."""
    listed, search = aside.after_reset(state), window.standing(state)
    return FailingOutput(
        failures=facts.failures,
        retry_at=backoff.waits_until(state, facts.now, options.limits.backoff),
        searched_up_to=None if search is None else _searched(search, state.checkpoint.cursor),
        aside=facts.aside,
        aside_since=_oldest(listed.aside),
        quarantined=facts.quarantined,
        quarantined_since=_oldest(listed.quarantine),
        aside_due=facts.aside_due,
    )


def with_row(found: FailingOutput, first: Cursor | None, *, alone: bool, max_attempts: int) -> FailingOutput:
    """With the row that fails, if that is known: the first behind the checkpoint, if it is all that is left to
    search. One that was handed over alone from the beginning (`alone`) is not blamed before `max_attempts` failures: no
    other row was tried, so what the handler calls may be down."""
    if first is None or not found.failures or (alone and found.failures < max_attempts):
        return found
    up_to = found.searched_up_to
    is_known = alone if up_to is None else _place(up_to) == _place(first)
    return found.model_copy(update={"row": first, "searched_up_to": None}) if is_known else found


def _oldest(rows: Iterable[WaitingRow]) -> datetime | None:
    return min((row.since for row in rows if row.since is not None), default=None)


def _searched(search: Window, checkpoint: Cursor | None) -> Cursor:
    """Up to where the row that fails may stand: where the last suspect worked, any row left may be it."""
    passed = checkpoint is not None and _place(search.suspect) == _place(checkpoint)
    return search.until if passed else search.suspect


def _place(cursor: Cursor) -> tuple[str, str, dict[str, object]]:
    """A cursor without the fields that other programs keep in it."""
    return cursor.kind, cursor.value, dict(cursor.tiebreaker or {})
