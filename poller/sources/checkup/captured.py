"""Checks that a captured table is still captured as it was installed."""

from __future__ import annotations

from poller.errors import CaptureGap
from poller.model.finding import Finding, error, ok
from poller.sources.checkup.subject import Subject


def captured(subject: Subject) -> list[Finding]:
    """What is installed, or why changes are or may be missing; nothing of a table that is not captured."""
    table = subject.session.captured
    if table is None:
        return []
    table.forget()
    try:
        found = table.look()
    except CaptureGap as gap:
        return [error("capture", gap.message, gap.next_step)]
    seen = "" if table.changes.sees_triggers else "; whether its triggers are there, this user cannot see"
    pruned = f", pruned up to {found.pruned_through}" if found.pruned_through else ""
    what = f"{len(found.columns)} columns of {found.what} are captured since {found.made_at}"
    return [ok("capture", f"{what}, in {table.changes.name}{pruned}{seen}")]
