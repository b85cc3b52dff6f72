"""`checkpoint clone`: another poller of the same app begins where this one stands; its document may be there or not."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from poller.admin.change_result import ChangeOutput
from poller.admin.changes import Base, Beginning, Change, Changes, there_or_first
from poller.admin.cursors import is_foreign, located
from poller.admin.effects import Effect, measure
from poller.admin.recovery import Recovery
from poller.admin.refusals import Refused, WrongArgument, clean
from poller.admin.request import ChangeOptions
from poller.admin.waiting_rows import left_waiting
from poller.admin.wired import WiredPoller, operator_of
from poller.config.includes import WrittenConfig
from poller.config.toml_tables import tables
from poller.config.types import is_name
from poller.errors import StateCorrupt
from poller.model.changes import Transition
from poller.model.checkpoint_file import clone
from poller.model.document import Lease, State
from poller.model.document import OperatorChange as Record
from poller.model.fingerprint import SourceDescription
from poller.model.part_names import base
from poller.model.redact import redact
from poller.ports import Source

KIND = "clone-checkpoint"


@dataclass(frozen=True)
class Clone(Change):
    """Copy a checkpoint, with the source it belongs to, to another poller of the same app: whose `Changes` it is for.

    Attributes:
        poller: where the checkpoint stands. origin: its document.
        new: the other poller, if it is configured. file: the configuration file of `poller`.
        overwrite: also if the other has a checkpoint; its token stays, and grows.
    """

    poller: WiredPoller
    origin: State
    new: WiredPoller | None
    file: Path | None
    overwrite: bool = False

    kind = KIND

    def looked(self, on: Changes) -> tuple[Clone, Base]:
        """Raises: Refused (there is a checkpoint already, or a backfill's), StateCorrupt, StoreError."""
        if self.new is None and self._replaces_backfill(on):
            raise Refused(f"{on.name} is a backfill's name; nothing was changed.", next_step="Name another.")
        return self, there_or_first(on, overwrite=self.overwrite)

    def transition(self, on: Changes) -> Transition:
        def cloned(state: State, record: Record, now: datetime) -> State:
            return clone(state, self.origin, change=record, now=now)

        return cloned

    def effect(self, on: Changes, state: State) -> Effect:
        """Counted in whichever configured source the checkpoint belongs to."""
        sources = [one.source for one in (self.new, self.poller) if one is not None]
        source = next((one for one in sources if not is_foreign(self.origin, self._described(one))), None)
        foreign = source is None or is_foreign(state, source.describe())
        here, there = state.checkpoint.cursor, self.origin.checkpoint.cursor
        return measure(source or self.poller.source, here, there, foreign=foreign)

    def _described(self, source: Source) -> SourceDescription:
        """A checkpoint that describes no source is known by its fingerprint, for which the server is asked."""
        return source.describe() if self.origin.source else located(source)

    def notes(self, on: Changes, state: State) -> Sequence[str]:
        return self._notes(on, replacing=True)

    def _notes(self, on: Changes, *, replacing: bool) -> list[str]:
        name, notes = on.name, [f"It begins where {self.poller.name} stands."]
        notes += left_waiting(self.poller.name, self.origin)
        if self.new is None:
            notes.append(f"{name} is not configured{f' in {self.file}' if self.file else ''} yet.")
            if replacing:
                notes.append(f"Before it is undone, configure {name} there: a reset needs its source.")
        elif is_foreign(self.origin, self._described(self.new.source)):
            notes.append(f"{name} is configured with another source; before it runs: poller rebind {name}")
        return notes

    def begin(self, on: Changes, recovery: Recovery) -> Beginning:
        """A new document; one that was deleted goes on above its old fencing token."""
        lease = Lease(fencing_token=recovery.highest_token, released_at=on.operator.file.clock.now())
        start, notes = State(poller_name=on.name, lease=lease), self._notes(on, replacing=False)
        return Beginning(start, self.transition(on), notes, keep=recovery.existed, strict=False)

    def to_configure(self, name: str) -> str | None:
        """What to add to the file, so that the new poller runs; None if it is there."""
        if self.new is not None or self.file is None:
            return None
        written = WrittenConfig.read(self.file, os.environ).table("pollers")
        return redact(tables(f"pollers.{name}", written[self.poller.name]))

    def _replaces_backfill(self, on: Changes) -> bool:
        """True if the name is that of a backfill, or of one of its parts."""
        prefix = f"state/{on.operator.file.app_name}/"
        found = on.operator.store.names(f"{prefix}{on.name}-")
        parts = [
            one for one in (each.removeprefix(prefix).removesuffix(".json") for each in found) if base(one) == on.name
        ]
        for one in (on.name, *parts):
            try:
                there = operator_of(self.poller, KIND, name=one).file.read()
            except StateCorrupt:
                continue  # it is reported with what puts it back
            if there is not None and {"from", "to"} <= (there.state.source or {}).keys():
                return True  # a poller's source is never a range of rows
        return False


def clone_of(
    poller: WiredPoller,
    new_name: str,
    request: ChangeOptions | None = None,
    *,
    new: WiredPoller | None = None,
    file: Path | None = None,
    overwrite: bool = False,
) -> tuple[Changes, Clone]:
    """The clone of the checkpoint of `poller` to `new_name`, and where it is made. Arguments: as of `Clone`.

    Raises: WrongArgument (an invalid name, or the same), StoreError (`poller` has no document), StateCorrupt.
    """
    if not is_name(clean(new_name, "NEW_NAME")):
        raise WrongArgument(f"NEW_NAME: invalid name {new_name[:80]!r}: 1 to 63 lower-case letters, digits, hyphens.")
    if new_name == poller.name:
        raise WrongArgument("NEW_NAME: is the poller itself.", next_step="Name another.")
    if new is not None and new.name != new_name:
        raise WrongArgument(f"new: is the poller {new.name!r}, not {new_name!r}.")
    on = Changes(new or poller, request, name=new_name)
    return on, Clone(poller, operator_of(poller, KIND).look().state, new, file, overwrite)


def clone_checkpoint(
    poller: WiredPoller,
    new_name: str,
    request: ChangeOptions | None = None,
    *,
    new: WiredPoller | None = None,
    file: Path | None = None,
    overwrite: bool = False,
) -> ChangeOutput:
    """Copy the checkpoint of `poller`, with the source it belongs to, to the poller `new_name` of the same app.

    Arguments: as of `Clone`; the result says what to add to `file`, if `new` is not given.
    Raises: as `clone_of`; Refused (there is a checkpoint already, or a backfill's, or rows would be skipped),
        LeaseHeld, WriteConflict, StoreError.
    """
    on, change = clone_of(poller, new_name, request, new=new, file=file, overwrite=overwrite)
    with nullcontext() if new is None else poller.alone():
        return with_configuration(on.make(change), change)


def with_configuration(output: ChangeOutput, change: Clone) -> ChangeOutput:
    """The result with what to add to the file, if a document was made."""
    if not output.changed or output.before is not None:
        return output
    return output.model_copy(update={"configure": change.to_configure(output.name)})
