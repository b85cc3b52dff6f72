"""Pausing, cancelling and resuming a backfill by its name: all its parts, each with a document, are one change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from poller.admin.change_result import ChangedPart, ChangeOutput
from poller.admin.changes import Change, Changes, Preview
from poller.admin.effects import NOTHING
from poller.admin.pausing import Cancel, Kind, Pause, Resume, Waiting, await_worker
from poller.admin.request import ChangeOptions
from poller.admin.wired import WiredApp
from poller.backfill.documents import Document
from poller.backfill.listing import Backfills
from poller.backfill.wired import LivePoller
from poller.errors import ConfigError
from poller.model.document import State
from poller.model.part_names import FINISHED

_HANDLERS = (None, "none", "ended", "unknown", "running")
"""What became of a handler; of several the last in this order stands for all."""


@dataclass(frozen=True)
class _Stopping(Change):
    """A part that is finished is not stopped."""

    def nothing(self, on: Changes, state: State) -> str | None:
        if FINISHED in state.checkpoint.metadata:
            return f"{on.name} is finished: there is nothing to {self.kind}."
        return super().nothing(on, state)


@dataclass(frozen=True)
class PausePart(_Stopping, Pause):
    """No new batch of it starts."""


@dataclass(frozen=True)
class CancelPart(_Stopping, Cancel):
    """No new batch of it starts, and of the one in hand nothing is committed."""


@dataclass(frozen=True)
class ResumePart(Resume):
    """No worker takes up a backfill, unlike a poller: `command` does."""

    command: str = "the same poller backfill command as before"

    def notes(self, on: Changes, state: State) -> Sequence[str]:
        return [*super().notes(on, state), f"To go on with it, run: {self.command}"]


def pause(
    app: WiredApp[LivePoller], name: str, *, reason: str | None = None, by: str | None = None, dry_run: bool = False
) -> ChangeOutput:
    """Pause a backfill by its name, with all its parts, or one part: no new batch of it starts, in no process.

    Args:
        app: whose backfill it is; `poller.App` is one. reason, by, dry_run: as of `Poller.pause`.

    Raises: ConfigError (no backfill of that name, or none of a configured poller), and as `Poller.pause`.
    """
    return _by_name(app, name, "pause", ChangeOptions(reason=reason, by=by, dry_run=dry_run, file=str(app.path)))


def cancel(
    app: WiredApp[LivePoller],
    name: str,
    *,
    reason: str | None = None,
    by: str | None = None,
    dry_run: bool = False,
    wait: bool = True,
) -> ChangeOutput:
    """Pause a backfill and stop the handlers that run for it now. Arguments and errors: as `pause`; `wait`: as of
    `Poller.cancel`."""
    request = ChangeOptions(reason=reason, by=by, dry_run=dry_run, file=str(app.path))
    return _by_name(app, name, "cancel", request, wait=wait)


def resume(
    app: WiredApp[LivePoller], name: str, *, reason: str | None = None, by: str | None = None, dry_run: bool = False
) -> ChangeOutput:
    """Take back the pause or halt of a backfill, or of one part. No worker takes it up: `notes` say which command does.
    Arguments and errors: as `pause`."""
    return _by_name(app, name, "resume", ChangeOptions(reason=reason, by=by, dry_run=dry_run, file=str(app.path)))


def _by_name(
    app: WiredApp[LivePoller], name: str, kind: Kind, request: ChangeOptions, *, wait: bool = True
) -> ChangeOutput:
    backfills = Backfills(app)
    documents = backfills.named(name)
    if not documents:
        raise ConfigError(f"There is no backfill {name!r} of {app.app_name}.", key=name)
    return BackfillChanges(backfills, documents, kind, request).make(wait=wait)


class BackfillChanges:
    """One change of all documents of a backfill, or of the one of a part. If it fails on one part, the parts before it
    are changed: the same change again changes the others.

    Args:
        documents: those of the backfill (`Backfills.named`).

    Attributes:
        change: of each document. parts: where each is changed.

    Raises: ConfigError, for a source that cannot be made; WrongArgument (`reason`).
    """

    def __init__(self, backfills: Backfills, documents: Sequence[Document], kind: Kind, request: ChangeOptions) -> None:
        self.change: Change = {"pause": PausePart, "cancel": CancelPart, "resume": ResumePart}[kind]()
        words = backfills.command(documents[0]) if kind == "resume" else None
        if words is not None:
            self.change = ResumePart(command=request.command(*words))
        self.parts = [Changes(backfills.poller(one), request) for one in documents]
        self._name = documents[0].base
        self._location = backfills.location(self._name)

    def prepare(self) -> list[Preview]:
        """What it would do to each part. Raises: as `Changes.prepare`."""
        return [part.prepare(self.change) for part in self.parts]

    def make(
        self, *, wait: bool = True, changed: Callable[[ChangeOutput], object] = bool, waiting: Waiting | None = None
    ) -> ChangeOutput:
        """Make it.

        Args:
            wait, waiting: of a cancel, as of `await_worker`. changed: called with what was done to each part, also
                where the next one fails.

        Raises: as `Changes.make`.
        """
        cancels = self.change.kind == "cancel"
        outputs: list[ChangeOutput] = []
        for part in self.parts:
            try:
                outputs.append(part.make(self.change))
            except BaseException:
                if cancels:  # those before it are cancelled; what became of their handlers is not waited for
                    for one, output in zip(self.parts, outputs, strict=False):
                        changed(await_worker(one, output, wait=False))
                raise
            if not cancels:
                changed(outputs[-1])
        if cancels:  # each worker has the same time, from when the last part was changed
            pairs = list(zip(self.parts, outputs, strict=True))
            outputs = [await_worker(part, output, wait=wait, waiting=waiting) for part, output in pairs]
            for output in outputs:
                changed(output)
        return outputs[0] if len(outputs) == 1 else _together(self._location, self._name, outputs)


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
        parts=[ChangedPart.model_validate(one, from_attributes=True) for one in outputs],
    )
