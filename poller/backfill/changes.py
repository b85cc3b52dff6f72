"""Pausing, cancelling and resuming a backfill by its name: all its parts, each with a document, are one change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from poller.admin import conversation as admin
from poller.admin.cancel import await_worker
from poller.admin.change_result import ChangedPart, ChangeOutput
from poller.admin.changes import StateEditor
from poller.admin.effects import NOTHING
from poller.admin.plans import Plan, cancel_plan, pause_plan, resume_plan
from poller.admin.request import Request
from poller.backfill.documents import FINISHED, Document
from poller.backfill.listing import Backfills
from poller.backfill.wired import Application
from poller.errors import ConfigError
from poller.model.document import State

Kind: TypeAlias = Literal["pause", "cancel", "resume"]


_HANDLERS = (None, "none", "ended", "unknown", "running")
"""What became of a handler; of several the last in this order stands for all."""


class Conversation:
    """With whoever asks for the change of a backfill in parts. As it stands with a program: its call is the agreement,
    and the result says everything.

    Args:
        file: see `poller.admin.conversation.Conversation`.
    """

    def __init__(self, file: str = "") -> None:
        self._file = file

    @property
    def shows(self) -> bool:
        """Whether anybody sees what would be changed."""
        return False

    def part(self, name: str) -> admin.Conversation:  # noqa: ARG002
        """About one part, or about the only one."""
        return admin.Conversation(self._file)

    def begin(self, kind: str, parts: int) -> None:
        """What is asked for, and of how many parts."""

    def nothing(self, why: str) -> None:
        """In the preview, a part with nothing to do."""

    def confirm(self, kind: str) -> None:
        """Return when it is agreed to for all parts that were shown. Raises: Refused."""

    def changed(self, output: ChangeOutput) -> None:
        """What was done to one of several parts."""


def pause(
    app: Application, name: str, *, reason: str | None = None, by: str | None = None, dry_run: bool = False
) -> ChangeOutput:
    """Pause a backfill by its name, with all its parts, or one part: no new batch of it starts, in no process.

    Args:
        app: whose backfill it is; `poller.App` is one. reason, by, dry_run: as of `Poller.pause`.

    Raises: ConfigError (no backfill of that name, or none of a configured poller), and as `Poller.pause`.
    """
    return _by_name(app, name, "pause", Request(reason=reason, by=by, dry_run=dry_run))


def cancel(
    app: Application,
    name: str,
    *,
    reason: str | None = None,
    by: str | None = None,
    dry_run: bool = False,
    wait: bool = True,
) -> ChangeOutput:
    """Pause a backfill and stop the handlers that run for it now. Arguments and errors: as `pause`; `wait`: as of
    `Poller.cancel`."""
    return _by_name(app, name, "cancel", Request(reason=reason, by=by, dry_run=dry_run), wait=wait)


def resume(
    app: Application, name: str, *, reason: str | None = None, by: str | None = None, dry_run: bool = False
) -> ChangeOutput:
    """Take back the pause or halt of a backfill, or of one part. Nothing works at it by itself: `notes` say what does.
    Arguments and errors: as `pause`."""
    return _by_name(app, name, "resume", Request(reason=reason, by=by, dry_run=dry_run))


def _by_name(app: Application, name: str, kind: Kind, request: Request, *, wait: bool = True) -> ChangeOutput:
    backfills = Backfills(app)
    documents = backfills.named(name)
    if not documents:
        raise ConfigError(f"There is no backfill {name!r} of {app.app_name}.", key=name)
    return change(backfills, documents, kind, request, Conversation(str(app.path)), wait=wait)


def change(
    backfills: Backfills,
    documents: Sequence[Document],
    kind: Kind,
    request: Request,
    conversation: Conversation | None = None,
    *,
    wait: bool = True,
) -> ChangeOutput:
    """Pause, cancel or resume a backfill. All parts are shown, then it is agreed to once.

    Args:
        documents: those of the backfill (`Backfills.named`), or the one of a part.
        wait: of a cancel, until each worker has stopped its handler, or has had the time to.

    Where it fails on one part, the parts before it are changed: the same change again changes the others.
    Raises: as `StateEditor.carry_out`; ConfigError, for a source that cannot be made.
    """
    talk = conversation or Conversation()
    plan_for = _resumes(backfills, documents, talk) if kind == "resume" else _stops(kind)
    names = [one.name for one in documents]
    editors = [StateEditor(backfills.poller(one), request, talk.part(one.name)) for one in documents]
    if len(editors) == 1:
        output = editors[0].carry_out(plan_for(names[0]))
        return await_worker(editors[0], output, wait=wait) if kind == "cancel" else output
    talk.begin(kind, len(editors))
    if not request.dry_run:
        if talk.shows:
            for editor in editors:
                nothing = editor.show(plan_for(editor.name))
                if nothing is not None:
                    talk.nothing(nothing)
        talk.confirm(kind)
    outputs: list[ChangeOutput] = []
    for editor in editors:
        outputs.append(editor.carry_out(plan_for(editor.name)))
        if kind != "cancel":
            talk.changed(outputs[-1])
    if kind == "cancel":  # each worker has the same time, from when the last part was changed
        outputs = [await_worker(editor, output, wait=wait) for editor, output in zip(editors, outputs, strict=True)]
        for output in outputs:
            talk.changed(output)
    return _together(backfills.location(documents[0].base), documents[0].base, outputs)


def _stops(kind: Kind) -> Callable[[str], Plan]:
    def plan_for(name: str) -> Plan:
        plan = cancel_plan(name) if kind == "cancel" else pause_plan(name)

        def nothing(state: State) -> str | None:
            if FINISHED in state.checkpoint.metadata:
                return f"{name} is finished: there is nothing to {kind}."
            return plan.nothing(state)

        return replace(plan, nothing=nothing)

    return plan_for


def _resumes(backfills: Backfills, documents: Sequence[Document], talk: Conversation) -> Callable[[str], Plan]:
    """Nothing works at a backfill by itself, unlike at a poller: what does is said."""
    words = backfills.command(documents[0])
    command = talk.part(documents[0].name).command(*words) if words else "the same poller backfill command as before"

    def plan_for(name: str) -> Plan:
        plan = resume_plan(name)
        return replace(plan, notes=lambda state: [*plan.notes(state), f"To go on with it, run: {command}"])

    return plan_for


def _together(location: str, name: str, outputs: Sequence[ChangeOutput]) -> ChangeOutput:
    first = outputs[0]
    return ChangeOutput(
        command=first.command,
        name=name,
        app_name=first.app_name,
        document=location,
        changed=any(one.changed for one in outputs),
        dry_run=first.dry_run,
        by=first.by,
        reason=first.reason,
        before=None,
        after=None,
        effect=NOTHING,
        handler=max((one.handler for one in outputs), key=_HANDLERS.index),
        handler_lease_seconds=max((one.handler_lease_seconds or 0.0 for one in outputs), default=0.0) or None,
        notes=list(dict.fromkeys(note for one in outputs for note in one.notes)),
        parts=[
            ChangedPart(
                name=one.name,
                document=one.document,
                changed=one.changed,
                id=one.id,
                before=one.before,
                after=one.after,
                handler=one.handler,
            )
            for one in outputs
        ],
    )
