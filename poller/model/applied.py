"""What a fenced sink has to know of the state document to apply each row once (failures, "Effectively once").

Positions count rows passed since the last reset: `through` is a batch's last row, `settled` the last commit that
was written. A batch may be cut otherwise when it comes again, so the ends of batches are never compared for equality.
"""

from __future__ import annotations

from poller.model.document import State


def settled(state: State) -> int:
    """The position of the last written commit: no row up to there comes again. `state` is a document that was read, or
    whose PUT was answered; one on its way would say too much."""
    return state.checkpoint.position


def through(state: State, passes: int) -> int:
    """The position of the last row of a batch that passes so many (`Plan.places`)."""
    return state.checkpoint.position + passes


def waiting(state: State) -> frozenset[str]:
    """Ids of rows that come again though they were passed: a killed owner may have applied them."""
    return frozenset(row.id for row in (*state.aside, *state.quarantine))
