"""An operator's changes by name, where a test is about the compare-and-swap beneath them."""

from __future__ import annotations

from poller.admin import Applied, Operator
from poller.admin.editor import Review
from poller.model.changes import to_pause, to_reset, to_resume
from poller.model.cursor import Cursor
from poller.model.fingerprint import SourceDescription


def pause(operator: Operator) -> Applied:
    """No new batch starts; one in hand is finished."""
    return operator.change("pause", to_pause)


def resume(operator: Operator) -> Applied:
    """Neither paused nor halted."""
    return operator.change("resume", to_resume)


def reset(
    operator: Operator,
    cursor: Cursor | None,
    *,
    source: SourceDescription | None = None,
    break_lease: bool = False,
    review: Review | None = None,
) -> Applied:
    """The checkpoint moved; with `source`, it belongs to that one now."""
    kind = "reset-to-beginning" if cursor is None else "reset-to-cursor"
    return operator.fenced(kind, to_reset(cursor, source), break_lease=break_lease, review=review)
