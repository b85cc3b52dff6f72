"""The changes by name: pause, resume, and the resets."""

from __future__ import annotations

from poller.admin.changes import Plan
from poller.admin.cursors import changed_source, is_foreign, located, unreadable
from poller.admin.effects import measure
from poller.admin.wired import WiredPoller
from poller.model.changes import to_pause, to_reset, to_resume
from poller.model.cursor import Cursor
from poller.model.document import State
from poller.model.stamps import to_the_second


def pause_plan(name: str) -> Plan:
    """No new batch starts; the one in hand is finished."""

    def nothing(state: State) -> str | None:
        if not state.control.paused:
            return None
        by = f" by {state.control.by}" if state.control.by else ""
        return f"{name} is paused already{by}: {state.control.reason or 'no reason given'}."

    return Plan(kind="pause", transition=to_pause, nothing=nothing, fenced=False, strict=False)


def resume_plan(name: str) -> Plan:
    """Neither paused nor halted; the pending batch is tried afresh."""

    def nothing(state: State) -> str | None:
        return None if state.control.paused or state.control.halted else f"{name} is neither paused nor halted."

    return Plan(kind="resume", transition=to_resume, nothing=nothing, fenced=False, strict=False, notes=_ends)


def reset_plan(poller: WiredPoller, kind: str, cursor: Cursor | None) -> Plan:
    """Move the checkpoint; it then belongs to the configured source, whatever it belonged to before."""
    source = located(poller.source)
    return Plan(
        kind=kind,
        transition=to_reset(cursor, source),
        effect=lambda state: measure(poller.source, state.checkpoint.cursor, cursor, foreign=is_foreign(state, source)),
        differences=changed_source(source),
        notes=lambda state: unreadable(poller.source, state, source),
    )


def _ends(state: State) -> list[str]:
    """Which of the two a resume takes back. Where it is both, who and why are the pause's."""
    control, error = state.control, state.delivery.last_error
    if not control.paused and not control.halted:
        return []
    at = f" since {to_the_second(control.at)}" if control.at else ""
    which = "pause" if control.paused else "halt"
    ends = [f"It ends the {which}{at}, by {control.by or 'unknown'}: {control.reason or 'no reason given'}."]
    if control.paused and control.halted:
        why = f", whose cause was {error.type}{f': {error.message}' if error.message else ''}" if error else ""
        ends.append(f"It ends the halt too{why.rstrip('.')}.")
    return ends
