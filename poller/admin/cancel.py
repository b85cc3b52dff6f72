"""Stopping the handler that runs now: the poller is paused, what is in hand is not committed, and its worker stops.

The change itself is one write (`transitions.cancel`). The worker finds it by its next heartbeat, stops the handler as
far as a handler can be stopped, and gives the lease back when that has ended. Whoever asked waits for that, for as long
as a worker needs; a handler that goes on after it is outlived: its lease is no longer renewed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from poller.admin.change_result import ChangeOutput, Place, Stopped
from poller.admin.changes import StateEditor
from poller.admin.conversation import Conversation
from poller.admin.editor import Operator
from poller.admin.plans import cancel_plan
from poller.admin.request import Request
from poller.admin.wired import WiredPoller
from poller.errors import StoreError
from poller.model.changes import cancelled_worker, kept_by
from poller.model.timing import Timing

LOOK_EVERY = 0.25
"""How often, in seconds, it is looked whether the worker has given the lease back."""
STOPPING = 1.0
"""For so many seconds a handler that can be stopped may take to end."""


def patience(timing: Timing) -> float:
    """How many seconds a worker may need: until its next heartbeat, for its requests, and to stop its handler."""
    return timing.heartbeat + timing.grace + STOPPING


def cancel(
    poller: WiredPoller,
    request: Request | None = None,
    conversation: Conversation | None = None,
    *,
    wait: bool = True,
) -> ChangeOutput:
    """Pause a poller and stop the handler that runs now; see `Poller.cancel`.

    Raises: StoreError (also where there is no state document yet), WriteConflict, WrongArgument (`reason`), and what
        `conversation` refuses by. Nothing is changed then.
    """
    editor = StateEditor(poller, request, conversation)
    return await_worker(editor, editor.carry_out(cancel_plan(editor.name)), wait=wait)


def await_worker(editor: StateEditor, output: ChangeOutput, *, wait: bool) -> ChangeOutput:
    """The result of a cancel with what became of the handler. `wait`: until its worker has given the lease back, or has
    had the time to. Raises nothing."""
    here, conversation = output.after, editor.conversation
    if output.dry_run or here is None:
        return output
    if here.owner_id is None:
        return _with(output, _Seen("none"))
    try:
        return _with(output, _awaited(editor, output, here, wait=wait))
    except KeyboardInterrupt:
        if not conversation.interrupt_ends_wait:
            raise
        return _with(output, _Seen("unknown"))


def _awaited(editor: StateEditor, output: ChangeOutput, here: Place, *, wait: bool) -> _Seen:
    """What became of the handler once it ended, or once its worker has had the time to stop it."""
    runtime = editor.operator.file.runtime
    until = runtime.monotonic() + (patience(editor.operator.file.timing) if wait else 0.0)
    owner, waiting = here.owner_id or "", False
    while True:
        seen = _look(editor.operator, here)
        if seen.handler is not None:
            return seen
        if runtime.monotonic() >= until:
            known = wait and seen.note is None
            return replace(seen, handler="running") if known else _Seen("unknown", seen.note)
        if not waiting:
            waiting = True
            editor.conversation.waiting(output, owner, until - runtime.monotonic())
        runtime.sleep(LOOK_EVERY)


@dataclass(frozen=True, slots=True)
class _Seen:
    """One look at the lease: what became of the handler, None where that is not decided; why it could not be looked
    at; and in how many seconds the lease ends."""

    handler: Stopped | None
    note: str | None = None
    left: float | None = None


def _look(operator: Operator, here: Place) -> _Seen:
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
