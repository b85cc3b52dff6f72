"""What a poller delivered of late, five minutes a line: for people who look at it, never for a decision.

It is part of the state document and written inside commits only, so that an idle poll goes on writing nothing
(scale.md, "Never silently dead"). Losing it loses a picture and no row: an unreadable one is taken for none, and it is
left out where the document would be too large.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from poller.model.document import State
from poller.model.history_entry import LONGEST_OWNER, MOST_ENTRIES, HistoryEntry
from poller.model.limits import HIGHEST_COUNT

SLOT = timedelta(minutes=5)
"""How much time an entry stands for."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def begin_of(moment: datetime) -> datetime:
    """The beginning of the five minutes in which a moment lies."""
    return moment - (moment - _EPOCH) % SLOT


def noted(
    state: State, *, rows: int, batches: int, handler_seconds: float, last: datetime | None, now: datetime
) -> State:
    """The state with one commit more in its history.

    Args:
        rows, batches, handler_seconds: what was delivered. last: when the last row of it was stamped; None if the
            cursor is not a time. now: the store's clock. Where it went back, the newest entry takes the commit.
    """
    at, before = begin_of(now), state.history[-1] if state.history else None
    if before is None or before.at < at:
        before = HistoryEntry(at=at)
        kept: Sequence[HistoryEntry] = state.history[-(MOST_ENTRIES - 1) :]
    else:
        kept = state.history[-MOST_ENTRIES:-1]
    lag = None if last is None else max(0.0, (now - last).total_seconds())
    known = [seconds for seconds in (before.lag_seconds, lag) if seconds is not None]
    entry = before.model_copy(
        update={
            "rows": min(HIGHEST_COUNT, before.rows + rows),
            "batches": min(HIGHEST_COUNT, before.batches + batches),
            "handler_seconds": round(before.handler_seconds + handler_seconds, 3),
            "lag_seconds": round(max(known), 3) if known else None,
            "token": state.lease.fencing_token,
            "owner": (state.lease.owner_id or before.owner)[:LONGEST_OWNER],
        }
    )
    entry.__dict__.pop("line", None)  # a copy has that of its original
    return state.model_copy(update={"history": (*kept, entry)})
