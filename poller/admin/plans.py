"""A change before it is made, and the changes by name: pause, cancel, resume, and the resets to a place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from poller.admin.change_result import ChangedRow
from poller.admin.cursors import changed_source, is_foreign, located, refuse_foreign, typed_cursor, unreadable
from poller.admin.effects import NOTHING, Effect, measure
from poller.admin.refusals import WrongArgument, clean, shown, whole
from poller.admin.wired import WiredPoller
from poller.errors import FieldDifference
from poller.model import backoff
from poller.model.changes import Transition, cancelled_worker, kept_by, to_cancel, to_pause, to_reset, to_resume
from poller.model.cursor import Cursor
from poller.model.document import State
from poller.model.limits import HIGHEST_TOKEN
from poller.model.when import moment
from poller.ports import InspectableSource


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One change, before it is made.

    Attributes:
        kind: the command's name, and the record's kind.
        transition: what becomes of a state.
        effect: what that does to rows.
        nothing: why there is nothing to do, if there is not.
        fenced: whether it takes the lease (all but pause, cancel and resume).
        strict: whether production wants the name.
        differences: between the source that the checkpoint belonged to and the one it will.
        notes: for people, from the state before.
        rows: the single rows that it changes, from the state before.
        typed: whether a fenced one wants the name typed; else a `y` is enough.
        skips: whether it is asked for by the rows that it skips, so that nobody need allow that.
        restorable: whether the backup of what it replaces takes it back.
        before_write: called with each version that is about to be replaced; raises to refuse.
    """

    kind: str
    transition: Transition
    effect: Callable[[State], Effect] = lambda _: NOTHING
    nothing: Callable[[State], str | None] = lambda _: None
    fenced: bool = True
    strict: bool = True
    differences: Callable[[State], list[FieldDifference]] = lambda _: []
    notes: Callable[[State], list[str]] = lambda _: []
    rows: Callable[[State], list[ChangedRow]] = lambda _: []
    typed: bool = True
    skips: bool = False
    restorable: bool = True
    before_write: Callable[[State], None] = lambda _: None


def pause_plan(name: str) -> Plan:
    """No new batch starts; the one in hand is finished."""

    def nothing(state: State) -> str | None:
        if not state.control.paused:
            return None
        by = f" by {state.control.by}" if state.control.by else ""
        return f"{name} is paused already{by}: {state.control.reason or 'no reason given'}."

    return Plan(kind="pause", transition=to_pause, nothing=nothing, fenced=False, strict=False)


def cancel_plan(name: str) -> Plan:
    """No new batch starts, and of the one in hand nothing is committed (failures 9)."""

    def nothing(state: State) -> str | None:
        control = state.control
        worker = cancelled_worker(state)
        if not control.paused or (worker is None and state.lease.owner_id is not None and kept_by(state) is None):
            return None
        by = f" by {control.by}" if control.by else ""
        if worker is not None:
            return f"{name} is cancelled already{by}: {control.reason or 'no reason given'}."
        return f"{name} is paused already{by}, and nobody works on it: {control.reason or 'no reason given'}."

    def notes(state: State) -> list[str]:
        owner = None if kept_by(state) is not None else state.lease.owner_id
        if owner is None:
            return ["Nobody works on it: it is only paused."]
        return [f"What {owner} has in hand is not committed: its rows come again after a resume."]

    return Plan(kind="cancel", transition=to_cancel, nothing=nothing, fenced=False, strict=False, notes=notes)


def resume_plan(name: str) -> Plan:
    """Neither paused nor halted; the pending batch is tried afresh, and at once where it waits after a failed call
    (failures 1)."""

    def nothing(state: State) -> str | None:
        if state.control.paused or state.control.halted or backoff.waits(state):
            return None
        return f"{name} is neither paused nor halted."

    return Plan(kind="resume", transition=to_resume, nothing=nothing, fenced=False, strict=False, notes=_ends)


def reset_plan(poller: WiredPoller, kind: str, cursor: Cursor | None, *, token_at_least: int = 0) -> Plan:
    """Move the checkpoint; it then belongs to the configured source, whatever it belonged to before. `token_at_least`:
    for the document's fencing token. Raises: WrongArgument (`token_at_least`)."""
    whole(token_at_least, "token_at_least", least=0, most=HIGHEST_TOKEN)
    source = located(poller.source)

    return Plan(
        kind=kind,
        transition=to_reset(cursor, source, token_at_least=token_at_least),
        effect=lambda state: measure(poller.source, state.checkpoint.cursor, cursor, foreign=is_foreign(state, source)),
        differences=changed_source(source),
        notes=lambda state: unreadable(poller.source, state, source),
    )


def place_plan(poller: WiredPoller, to: Cursor | Literal["beginning"], *, token_at_least: int = 0) -> Plan:
    """The reset to a place that a program names.

    Raises: WrongArgument, for what is neither a place nor a value of the columns; FingerprintMismatch, for a cursor of
    another kind or key; SourceUnavailable, SourceError where the database cannot be asked.
    """
    if isinstance(to, Cursor):
        refuse_foreign(poller.source, to, name=poller.name)
        if isinstance(poller.source, InspectableSource):
            keys = None if to.tiebreaker is None else {name: str(value) for name, value in to.tiebreaker.items()}
            to = typed_cursor(poller.source, clean(to.value, "to"), keys, "to")
        return reset_plan(poller, "reset-to-cursor", to, token_at_least=token_at_least)
    if to != "beginning":
        raise WrongArgument(f'to: {shown(to)} is neither a Cursor nor "beginning".')
    return reset_plan(poller, "reset-to-beginning", None, token_at_least=token_at_least)


def _ends(state: State) -> list[str]:
    """Which of pause, halt and backoff a resume takes back. Where it is both, who and why are the pause's."""
    control, error = state.control, state.delivery.last_error
    if not control.paused and not control.halted:
        return ["The call that failed is made again at once."]
    at = f" since {moment(control.at)}" if control.at else ""
    which = "pause" if control.paused else "halt"
    ends = [f"It ends the {which}{at}, by {control.by or 'unknown'}: {control.reason or 'no reason given'}."]
    if control.paused and control.halted:
        why = f", whose cause was {error.type}{f': {error.message}' if error.message else ''}" if error else ""
        ends.append(f"It ends the halt too{why.rstrip('.')}.")
    return ends
