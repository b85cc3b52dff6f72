"""Pause, cancel and resume. A cancel waits for the worker to stop its handler.

A cancel is one write (`transitions.cancel`). The worker finds it by its next heartbeat, stops the handler as far as a
handler can be stopped, and gives the lease back when that has ended. The caller waits for that, for as long as a worker
needs; a handler that goes on after it is outlived: its lease is no longer renewed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from poller.admin.change_result import ChangeOutput, CursorPlace, Stopped
from poller.admin.changes import Change, Changes, Undo
from poller.admin.editor import Operator
from poller.admin.request import ChangeOptions
from poller.admin.wired import WiredPoller
from poller.errors import StoreError
from poller.model import backoff
from poller.model.changes import Transition, cancelled_worker, kept_by, to_cancel, to_pause, to_resume
from poller.model.document import State
from poller.model.timing import Timing
from poller.model.when import moment

LOOK_EVERY = 0.25
"""Seconds between two checks whether the worker has given the lease back."""
STOPPING = 1.0
"""The seconds that a handler which can be stopped may take to end."""
Waiting: TypeAlias = Callable[[ChangeOutput, str, float], None]
"""Called once the change was made: for which worker, and for how many seconds at most, it is waited."""


@dataclass(frozen=True)
class _Unfenced(Change):
    """A change beside a worker, which keeps its lease."""

    fenced = False
    strict = False
    asks = False


@dataclass(frozen=True)
class Pause(_Unfenced):
    """No new batch starts; the one in hand is finished."""

    kind = "pause"

    def transition(self, on: Changes) -> Transition:
        return to_pause

    def nothing(self, on: Changes, state: State) -> str | None:
        if not state.control.paused:
            return None
        by = f" by {state.control.by}" if state.control.by else ""
        return f"{on.name} is paused already{by}: {state.control.reason or 'no reason given'}."

    def undo(self, state: State) -> Undo | None:
        return "resume"


@dataclass(frozen=True)
class Cancel(_Unfenced):
    """No new batch starts, and of the one in hand nothing is committed (failures 9)."""

    kind = "cancel"

    def transition(self, on: Changes) -> Transition:
        return to_cancel

    def nothing(self, on: Changes, state: State) -> str | None:
        control = state.control
        worker = cancelled_worker(state)
        if not control.paused or (worker is None and state.lease.owner_id is not None and kept_by(state) is None):
            return None
        by = f" by {control.by}" if control.by else ""
        if worker is not None:
            return f"{on.name} is cancelled already{by}: {control.reason or 'no reason given'}."
        return f"{on.name} is paused already{by}, and no worker is at work: {control.reason or 'no reason given'}."

    def notes(self, on: Changes, state: State) -> Sequence[str]:
        owner = None if kept_by(state) is not None else state.lease.owner_id
        if owner is None:
            return ["No worker is at work: it is only paused."]
        return [f"What {owner} has in hand is not committed: its rows come again after a resume."]

    def undo(self, state: State) -> Undo | None:
        return "resume"


@dataclass(frozen=True)
class Resume(_Unfenced):
    """Neither paused nor halted; the pending batch is tried from its first attempt, and at once if it waits after a
    failed call (failures 1)."""

    kind = "resume"

    def transition(self, on: Changes) -> Transition:
        return to_resume

    def nothing(self, on: Changes, state: State) -> str | None:
        if state.control.paused or state.control.halted or backoff.waits(state):
            return None
        return f"{on.name} is neither paused nor halted."

    def notes(self, on: Changes, state: State) -> Sequence[str]:
        """Which of pause, halt and backoff it takes back. If it is both, who and why are the pause's."""
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

    def undo(self, state: State) -> Undo | None:
        """A pause can be made again; a halt cannot, nor a wait after a failed call."""
        return "pause" if state.control.paused else None


Kind: TypeAlias = Literal["pause", "cancel", "resume"]
CHANGES: Mapping[Kind, type[Change]] = {"pause": Pause, "cancel": Cancel, "resume": Resume}


# --- waiting for the worker of a cancel ------------------------------------------------------------------------------


def patience(timing: Timing) -> float:
    """The number of seconds that a worker may need: until its next heartbeat, for its requests, and to stop its
    handler."""
    return timing.heartbeat + timing.grace + STOPPING


def cancel(poller: WiredPoller, request: ChangeOptions | None = None, *, wait: bool = True) -> ChangeOutput:
    """Pause a poller and stop the handler that runs now; see `Poller.cancel`.

    Raises: StoreError (also where there is no state document yet), WriteConflict, WrongArgument (`reason`). Nothing is
        changed then.
    """
    on = Changes(poller, request)
    return await_worker(on, on.make(Cancel()), wait=wait)


def await_worker(on: Changes, output: ChangeOutput, *, wait: bool, waiting: Waiting | None = None) -> ChangeOutput:
    """The result of a cancel with what became of the handler.

    Args:
        wait: until its worker has given the lease back, or has had the time to.
        waiting: called before the wait; Ctrl-C then only ends the wait, since the change was made and is reported.
    """
    here = output.after
    if output.dry_run or here is None:
        return output
    if here.owner_id is None:
        return _with(output, _Seen("none"))
    try:
        return _with(output, _awaited(on, output, here, wait=wait, waiting=waiting))
    except KeyboardInterrupt:
        if waiting is None:
            raise
        return _with(output, _Seen("unknown"))


def _awaited(on: Changes, output: ChangeOutput, here: CursorPlace, *, wait: bool, waiting: Waiting | None) -> _Seen:
    """What became of the handler once it ended, or once its worker has had the time to stop it."""
    runtime = on.operator.file.runtime
    until = runtime.monotonic() + (patience(on.operator.file.timing) if wait else 0.0)
    while True:
        seen = _look(on.operator, here)
        if seen.handler is not None:
            return seen
        if runtime.monotonic() >= until:
            known = wait and seen.note is None
            return replace(seen, handler="running") if known else _Seen("unknown", seen.note)
        if waiting is not None:
            waiting(output, here.owner_id or "", until - runtime.monotonic())
            waiting = _silently
        runtime.sleep(LOOK_EVERY)


def _silently(output: ChangeOutput, worker: str, seconds: float) -> None:
    """It was said."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """One look at the lease: what became of the handler, None if that is not decided; why it could not be looked
    at; and in how many seconds the lease ends."""

    handler: Stopped | None
    note: str | None = None
    left: float | None = None


def _look(operator: Operator, here: CursorPlace) -> _Seen:
    """`here`: what the cancel wrote."""
    try:
        copy = operator.look()
    except StoreError as error:
        return _Seen(None, f"Whether its handler has stopped is not known: {error.message}")
    state = copy.state
    if kept_by(state) is not None:
        return _Seen("none")
    if (state.lease.owner_id, state.lease.fencing_token) == (None, here.fencing_token):
        return _Seen("ended")
    if cancelled_worker(state) != here.owner_id:
        return _Seen("unknown", "Another operator changed it meanwhile.")
    file = operator.file
    return _Seen(None, left=copy.availability(file.timing, file.runtime.monotonic()).expires_in or 0.0)


def _with(output: ChangeOutput, seen: _Seen) -> ChangeOutput:
    facts: dict[str, Any] = {"handler": seen.handler, "handler_lease_seconds": seen.left}
    if seen.note is not None:
        facts["notes"] = [*output.notes, seen.note]
    return output.model_copy(update=facts)
