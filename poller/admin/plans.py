"""A change before it is made, and the changes by name: pause, resume, and the resets to a place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from poller.admin.cursors import changed_source, is_foreign, located, refuse_foreign, typed_cursor, unreadable
from poller.admin.effects import NOTHING, Effect, measure
from poller.admin.refusals import WrongArgument, clean, shown
from poller.admin.wired import WiredPoller
from poller.errors import FieldDifference
from poller.model.changes import Transition, to_pause, to_reset, to_resume
from poller.model.cursor import Cursor
from poller.model.document import State
from poller.model.stamps import to_the_second
from poller.ports import InspectableSource


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One change, before it is made.

    Attributes:
        kind: the command's name, and the record's kind.
        transition: what becomes of a state.
        effect: what that does to rows.
        nothing: why there is nothing to do, if there is not.
        fenced: whether it takes the lease (all but pause and resume).
        strict: whether production wants the name.
        differences: between the source that the checkpoint belonged to and the one it will.
        notes: for people, from the state before.
    """

    kind: str
    transition: Transition
    effect: Callable[[State], Effect] = lambda _: NOTHING
    nothing: Callable[[State], str | None] = lambda _: None
    fenced: bool = True
    strict: bool = True
    differences: Callable[[State], list[FieldDifference]] = lambda _: []
    notes: Callable[[State], list[str]] = lambda _: []


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


def place_plan(poller: WiredPoller, to: Cursor | Literal["beginning"]) -> Plan:
    """The reset to a place that a program names.

    Raises: WrongArgument, for what is neither a place nor a value of the columns; FingerprintMismatch, for a cursor of
    another kind or key; SourceUnavailable, SourceError where the database cannot be asked.
    """
    if isinstance(to, Cursor):
        refuse_foreign(poller.source, to, name=poller.name)
        if isinstance(poller.source, InspectableSource):
            keys = None if to.tiebreaker is None else {name: str(value) for name, value in to.tiebreaker.items()}
            to = typed_cursor(poller.source, clean(to.value, "to"), keys, "to")
        return reset_plan(poller, "reset-to-cursor", to)
    if to != "beginning":
        raise WrongArgument(f'to: {shown(to)} is neither a Cursor nor "beginning".')
    return reset_plan(poller, "reset-to-beginning", None)


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
