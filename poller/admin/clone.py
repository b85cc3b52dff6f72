"""`clone-checkpoint`: another poller of the same app begins where this one stands; its document may be there or not."""

from __future__ import annotations

import os
from contextlib import nullcontext
from datetime import datetime
from pathlib import Path

from poller.admin.change_result import ChangeOutput
from poller.admin.changes import StateEditor
from poller.admin.conversation import Conversation
from poller.admin.cursors import is_foreign, located
from poller.admin.effects import Effect, measure
from poller.admin.plans import Plan
from poller.admin.recovery import Recovery
from poller.admin.refusals import Refused, WrongArgument, clean
from poller.admin.request import Request
from poller.admin.waiting_rows import left_waiting
from poller.admin.wired import WiredPoller, operator_of
from poller.config.includes import Written
from poller.config.toml_tables import tables
from poller.config.types import is_name
from poller.errors import StateCorrupt
from poller.model.checkpoint_file import clone
from poller.model.document import Change, Lease, State
from poller.model.fingerprint import SourceDescription
from poller.model.part_names import base
from poller.model.redact import redact
from poller.ports import Source

KIND = "clone-checkpoint"


def clone_checkpoint(
    poller: WiredPoller,
    new_name: str,
    request: Request | None = None,
    conversation: Conversation | None = None,
    *,
    new: WiredPoller | None = None,
    file: Path | None = None,
    overwrite: bool = False,
) -> ChangeOutput:
    """Copy the checkpoint of `poller`, with the source it belongs to, to the poller `new_name` of the same app.

    Args:
        new: the poller of that name, where it is configured. file: the configuration file that `poller` stands in; the
            result then says what to add to it, where `new` is not given.
        overwrite: also where the new poller has a checkpoint; its token stays, and grows.

    Raises: WrongArgument (an invalid name, or the same), Refused (there is a checkpoint already, or a backfill's, or
        rows would be skipped), LeaseHeld, StateCorrupt, WriteConflict, StoreError.
    """
    if not is_name(clean(new_name, "NEW_NAME")):
        raise WrongArgument(f"NEW_NAME: invalid name {new_name[:80]!r}: 1 to 63 lower-case letters, digits, hyphens.")
    if new_name == poller.name:
        raise WrongArgument("NEW_NAME: is the poller itself.", next_step="Name another.")
    if new is not None and new.name != new_name:
        raise WrongArgument(f"new: is the poller {new.name!r}, not {new_name!r}.")
    editor = StateEditor(new or poller, request, conversation, name=new_name)
    with poller.alone(), nullcontext() if new is None else new.alone():
        return _Cloning(editor, poller, new, file).carry_out(overwrite=overwrite)


def _is_backfill(state: State) -> bool:
    """Whether the source is a range of rows, which a poller's never is."""
    return {"from", "to"} <= (state.source or {}).keys()


class _Cloning:
    def __init__(self, editor: StateEditor, poller: WiredPoller, new: WiredPoller | None, file: Path | None) -> None:
        self._editor = editor
        self._poller = poller
        self._new = new
        self._file = file
        self._origin = operator_of(poller, KIND).look().state

    def carry_out(self, *, overwrite: bool) -> ChangeOutput:
        """The whole of it. Raises: Refused (there is a checkpoint already, or a backfill's), LeaseHeld, StateCorrupt,
        StoreError."""
        if self._new is None and self._replaces_backfill():
            raise Refused(f"{self._editor.name} is a backfill's name; nothing was changed.", next_step="Name another.")
        plan = Plan(
            kind=KIND, transition=self._transition, effect=self._effect, notes=lambda _: self._notes(replacing=True)
        )
        return self._editor.create_or_replace(plan, self._create, overwrite=overwrite)

    def _replaces_backfill(self) -> bool:
        """Whether the name is that of a backfill, or of one of its parts."""
        editor, name = self._editor, self._editor.name
        prefix = f"state/{editor.operator.file.app_name}/"
        found = editor.operator.store.names(f"{prefix}{name}-")
        parts = [
            one for one in (each.removeprefix(prefix).removesuffix(".json") for each in found) if base(one) == name
        ]
        for one in (name, *parts):
            try:
                there = operator_of(self._poller, KIND, name=one).file.read()
            except StateCorrupt:
                continue  # it is reported with what puts it back
            if there is not None and _is_backfill(there.state):
                return True
        return False

    def _transition(self, state: State, change: Change, now: datetime) -> State:
        return clone(state, self._origin, change=change, now=now)

    def _effect(self, state: State) -> Effect:
        """Counted in whichever configured source the checkpoint belongs to."""
        sources = [one.source for one in (self._new, self._poller) if one is not None]
        source = next((one for one in sources if not is_foreign(self._origin, self._described(one))), None)
        foreign = source is None or is_foreign(state, source.describe())
        return measure(
            source or self._poller.source, state.checkpoint.cursor, self._origin.checkpoint.cursor, foreign=foreign
        )

    def _described(self, source: Source) -> SourceDescription:
        """A checkpoint that describes no source is known by its fingerprint, for which the server is asked."""
        return source.describe() if self._origin.source else located(source)

    def _notes(self, *, replacing: bool = False) -> list[str]:
        name, notes = self._editor.name, [f"It begins where {self._poller.name} stands."]
        notes += left_waiting(self._poller.name, self._origin)
        if self._new is None:
            notes.append(f"{name} is not configured{f' in {self._file}' if self._file else ''} yet.")
            if replacing:
                notes.append(f"Before it is undone, configure {name} there: a reset needs its source.")
        elif is_foreign(self._origin, self._described(self._new.source)):
            notes.append(f"{name} is configured with another source; before it runs: poller rebind {name}")
        return notes

    def _create(self) -> ChangeOutput:
        """A new document; one that was deleted goes on above its old fencing token."""
        editor, operator = self._editor, self._editor.operator
        recovery = Recovery(operator)
        now = operator.file.clock.now()
        output = editor.create(
            recovery,
            KIND,
            State(poller_name=editor.name, lease=Lease(fencing_token=recovery.highest_token, released_at=now)),
            self._transition,
            lines=lambda after: [("cursor", f"none -> {after.checkpoint.cursor or 'the beginning'}")],
            notes=self._notes(),
            strict=False,
            keep=recovery.existed,
        )
        return output.model_copy(update={"configure": self._to_configure()}) if output.changed else output

    def _to_configure(self) -> str | None:
        """What to add to the file, so that the new poller runs; None where it is there."""
        if self._new is not None or self._file is None:
            return None
        written = Written.read(self._file, os.environ).table("pollers")
        return redact(tables(f"pollers.{self._editor.name}", written[self._poller.name]))
