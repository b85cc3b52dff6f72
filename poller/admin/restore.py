"""Resets, also of a document that is gone: to a checkpoint that was kept outside its document, or to a place."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from poller.admin.change_result import ChangeOutput
from poller.admin.changes import StateEditor
from poller.admin.conversation import Conversation
from poller.admin.cursors import changed_source, impossible, is_foreign, located, refuse_foreign
from poller.admin.editor import Operator
from poller.admin.effects import BACK, NOTHING, Effect, measure, uncounted
from poller.admin.plans import Plan
from poller.admin.quarantine.relisting import unlisted
from poller.admin.recovery import Recovery
from poller.admin.refusals import WrongArgument, clean, whole
from poller.admin.request import Request
from poller.admin.waiting_rows import left_waiting
from poller.admin.wired import WiredPoller, operator_of
from poller.delivery.ordering import key_columns
from poller.errors import FingerprintMismatch, SourceError, StateCorrupt
from poller.model import aside
from poller.model.changes import Transition
from poller.model.checkpoint_file import Origin, begin, read_origin, restore, undoes
from poller.model.cursor import Cursor
from poller.model.document import Change, Checkpoint, Lease, State
from poller.model.fingerprint import SourceDescription, differences
from poller.model.limits import HIGHEST_TOKEN, LARGEST_BODY
from poller.ports import Found

KIND = "reset-to-checkpoint"
UNKNOWN_BEFORE = "there is no document that says where it was"


def find_checkpoint(poller: WiredPoller, name: str | os.PathLike[str]) -> Origin:
    """A local file: an export, a backup or a whole state document; or a backup of this poller in the store by its name,
    with or without its folder.

    Raises: WrongArgument, where there is none or it holds no checkpoint; StoreUnavailable, StoreDenied.
    """
    name = clean(os.fspath(name) if isinstance(name, os.PathLike) else name, "FILE")
    operator = operator_of(poller, KIND)
    body = _local(Path(name))
    if body is not None:
        return _read(operator, body, location=f"file {name}", app=poller.app_name)
    backup = name if name.startswith("backups/") else operator.backups + name
    found = operator.store.read(backup)
    if not isinstance(found, Found):
        raise WrongArgument(
            f"There is neither a file {name} nor a backup {backup} in the store.", next_step=_newest(operator)
        )
    return _read(operator, found.body, location=operator.store.locate(backup), app=poller.app_name)


def read_checkpoint(poller: WiredPoller, body: bytes, *, location: str) -> Origin:
    """The checkpoint in these bytes; `location`: where they come from, for people. Raises: WrongArgument."""
    return _read(operator_of(poller, KIND), body, location=location, app=poller.app_name)


def restore_checkpoint(
    poller: WiredPoller,
    checkpoint: Origin,
    request: Request | None = None,
    conversation: Conversation | None = None,
    *,
    rebind: bool = False,
    token_at_least: int = 0,
) -> ChangeOutput:
    """Go back to a checkpoint, also where the state document is gone or cannot be read.

    Args:
        rebind: also a checkpoint of another source: it then belongs to this one.
        token_at_least: for the document's fencing token, where a higher one is known from elsewhere.

    Raises: FingerprintMismatch (it belongs to another source), WrongArgument (the columns cannot hold its cursor;
        `token_at_least`), LeaseHeld, Refused, WriteConflict, StoreError, StateCorrupt (a newer version's document),
        SourceError.
    """
    whole(token_at_least, "token_at_least", least=0, most=HIGHEST_TOKEN)
    editor = StateEditor(poller, request, conversation)
    with poller.alone():
        return _Restoring(editor, poller, checkpoint, rebind=rebind, token_at_least=token_at_least).carry_out()


def reset_to_place(
    poller: WiredPoller, plan: Plan, request: Request | None = None, conversation: Conversation | None = None
) -> ChangeOutput:
    """What `reset_plan` or `place_plan` plans, also if there is no state document: then one is made there.

    Raises: as `StateEditor.carry_out`.
    """
    editor = StateEditor(poller, request, conversation)
    copy = editor.operator.file.read()
    if copy is not None:
        return editor.carry_out(plan, copy)
    recovery = Recovery(editor.operator)
    lease = Lease(fencing_token=recovery.highest_token)
    checkpoint = Checkpoint(generation=recovery.highest_generation)
    start = State(poller_name=editor.name, checkpoint=checkpoint, lease=lease)
    effect = uncounted(UNKNOWN_BEFORE, BACK if plan.kind == "reset-to-beginning" else None)
    return _made_again(editor, poller, recovery, plan.kind, start, plan.transition, effect=effect)


def _made_again(
    editor: StateEditor,
    poller: WiredPoller,
    recovery: Recovery,
    kind: str,
    start: State,
    transition: Transition,
    *,
    notes: Sequence[str] = (),
    more: Sequence[str] = (),
    effect: Effect = NOTHING,
) -> ChangeOutput:
    """A document in the place of one that is gone or cannot be read. Rows that wait by their records are listed in it.

    `notes`, `more`: for people, before and after what is said of the document. Raises: StoreError, Refused.
    """
    again = unlisted(poller, editor.operator, start)
    columns = key_columns(poller.source, poller.options.ordering_key)

    def lines(after: State) -> list[tuple[str, str]]:
        moves = [
            ("cursor", f"unknown -> {after.checkpoint.cursor or 'the beginning'}"),
            ("token", f"-> {after.lease.fencing_token}"),
        ]
        return moves if effect is NOTHING else [*moves, *(("rows", line) for line in effect.lines())]

    return editor.create(
        recovery,
        kind,
        start,
        lambda state, change, now: aside.relisted(transition(state, change, now), again.rows, columns),
        lines=lines,
        notes=[*notes, _found(recovery), *again.notes(poller.name), *more],
        effect=effect,
    )


def _read(operator: Operator, body: bytes, *, location: str, app: str) -> Origin:
    try:
        return read_origin(body, location=location, app=app, now=operator.file.clock.now())
    except StateCorrupt as error:
        raise WrongArgument(
            error.message, next_step="Nothing was changed. Give an export, a backup or a whole state document."
        ) from None


def _local(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            return file.read(LARGEST_BODY + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise WrongArgument(f"The file {path} cannot be read: {error.strerror or error}.") from None


def _newest(operator: Operator) -> str:
    backups = list(operator.store.names(operator.backups))
    return f"The newest backup is {backups[-1]}." if backups else "There is no backup of this poller."


class _Restoring:
    """Of a document that is there, is gone, or cannot be read."""

    def __init__(
        self, editor: StateEditor, poller: WiredPoller, origin: Origin, *, rebind: bool, token_at_least: int
    ) -> None:
        self.editor = editor
        self.poller = poller
        self.origin = origin
        source = located(poller.source)
        kept = source.as_stored(origin.export.source_fingerprint, origin.export.source)
        self.source: SourceDescription = kept or source
        self._rebind = rebind
        self._token = token_at_least

    def carry_out(self) -> ChangeOutput:
        """The whole of it. Raises: FingerprintMismatch, and as `StateEditor.carry_out`."""
        self._refuse_other_source()
        self._refuse_impossible(self.origin.export.cursor)
        try:
            gone = self.editor.operator.file.read() is None
        except StateCorrupt:
            gone = True
        if gone:
            return self._recover()
        return self.editor.carry_out(
            Plan(
                kind=KIND,
                transition=self._transition(self._token),
                effect=self._effect,
                differences=changed_source(self.source),
                notes=self._notes,
            )
        )

    def _transition(self, token_at_least: int) -> Transition:
        def restored(state: State, change: Change, now: datetime) -> State:
            return restore(
                state, self.origin, source=self.source, token_at_least=token_at_least, change=change, now=now
            )

        return restored

    def _refuse_other_source(self) -> None:
        """A checkpoint of another source means nothing here, unless the operator says that it does."""
        export = self.origin.export
        if is_foreign(export, self.source) and not self._rebind:
            found = differences(export.source, self.source)
            shown = "; ".join(map(str, found))
            raise FingerprintMismatch(
                f"The {self.origin.location} holds a checkpoint of another source, {export.source_fingerprint}; "
                f"{self.poller.name!r} is configured with {self.source.fingerprint()}"
                + (f" ({shown})." if shown else "."),
                stored=export.source_fingerprint,
                configured=self.source.fingerprint(),
                differences=found,
                next_step="Nothing was changed. Put the former source back into the configuration, or, if the cursor "
                f"is right for the new one, add {self.editor.conversation.option('rebind')}.",
            )
        refuse_foreign(self.poller.source, export.cursor, name=self.poller.name)

    def _refuse_impossible(self, cursor: Cursor | None) -> None:
        """What the column cannot hold is no place to go on from. Where the database cannot be asked it is let through:
        a way back must not need it. Raises: WrongArgument."""
        try:
            why = impossible(self.poller.source, cursor)
        except SourceError:  # a table that cannot be read is no fault of the checkpoint's
            return
        if why:
            raise WrongArgument(
                f"The cursor {cursor} of the {self.origin.location} cannot be one of {self.poller.name!r}: {why}.",
                next_step=f"Nothing was changed. Give another file, or say where to go on: poller reset-to-cursor "
                f"{self.poller.name}.",
            )

    def _effect(self, state: State) -> Effect:
        effect = measure(
            self.poller.source,
            state.checkpoint.cursor,
            self.origin.export.cursor,
            foreign=is_foreign(state, self.source),
        )
        if effect.skips and undoes(state, self.origin):
            return effect.model_copy(update={"skipped": 0, "open_ended": False, "unknown": False})
        return effect

    def _notes(self, state: State) -> list[str]:
        notes = [f"It goes back to the {self.origin.location}."]
        if undoes(state, self.origin):
            notes.append("It takes back the last reset: rows that were delivered before it count as delivered.")
        if self.origin.export.fencing_token > state.lease.fencing_token:
            notes.append(f"The fencing token goes on above that of the {self._of_token}.")
        return notes + self._foreign_notes()

    @property
    def _of_token(self) -> str:
        return f"{self.origin.location}, {self.origin.export.fencing_token}"

    def _foreign_notes(self) -> list[str]:
        export = self.origin.export
        if export.poller == self.poller.name:
            return []
        document = self.origin.document
        notes = [f"The checkpoint was taken from the poller {export.poller!r}."]
        return notes if document is None else [*notes, *left_waiting(export.poller, document)]

    # --- a document that is gone -----------------------------------------------------------------------------------

    def _recover(self) -> ChangeOutput:
        """Raises: StateCorrupt (a newer version's document), StoreError, Refused."""
        operator = self.editor.operator
        recovery = Recovery(operator)
        start = begin(self.editor.name, self.source, self.origin, now=operator.file.clock.now())
        token = max(self._token, recovery.highest_token + 1)
        higher = self.origin.export.fencing_token > recovery.highest_token
        above = f"The highest fencing token is that of the {self._of_token}: it goes on above it."
        return _made_again(
            self.editor,
            self.poller,
            recovery,
            KIND,
            start,
            self._transition(token),
            notes=[f"It goes back to the {self.origin.location}.", *self._foreign_notes()],
            more=[above] if higher else [],
        )


def _found(recovery: Recovery) -> str:
    if not recovery.existed:
        return (
            "There is no document and no trace of one: one is made. A fenced sink may have seen a fencing token before."
        )
    if recovery.body is None:
        return "There is no document: one is made, with a fencing token above the highest that left a trace."
    return "The document cannot be read: it is replaced, and its bytes are kept as a backup."
