"""Going back to a checkpoint that was kept outside its document, also if that is gone or cannot be read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from poller.admin.changes import Base, Beginning, Change, Changes
from poller.admin.cursors import changed_source, impossible, is_foreign, refuse_foreign
from poller.admin.editor import Operator
from poller.admin.effects import Effect, measure
from poller.admin.recovery import Recovery
from poller.admin.refusals import WrongArgument, clean, whole
from poller.admin.resets import made_again
from poller.admin.waiting_rows import left_waiting
from poller.admin.wired import WiredPoller, operator_of
from poller.errors import FieldDifference, FingerprintMismatch, SourceError, StateCorrupt
from poller.model.changes import Transition
from poller.model.checkpoint_file import ReturnPoint, begin, read_origin, restore, undoes
from poller.model.document import OperatorChange as Record
from poller.model.document import State
from poller.model.fingerprint import SourceDescription, differences
from poller.model.limits import HIGHEST_TOKEN, LARGEST_BODY
from poller.ports import Found

KIND = "reset-to-checkpoint"


def find_checkpoint(poller: WiredPoller, name: str | os.PathLike[str]) -> ReturnPoint:
    """A local file: an export, a backup or a whole state document; or a backup of this poller in the store by its name,
    with or without its folder.

    Raises: WrongArgument, if there is none or it holds no checkpoint; StoreUnavailable, StoreDenied.
    """
    name = clean(os.fspath(name) if isinstance(name, os.PathLike) else name, "FILE")
    body = _local(Path(name))
    if body is not None:
        return read_checkpoint(poller, body, location=f"file {name}")
    folder = "" if name.startswith("backups/") else operator_of(poller, KIND).backups
    return find_backup(poller, folder + name, typed=name)


def find_backup(poller: WiredPoller, backup: str, *, typed: str | None = None) -> ReturnPoint:
    """A backup in the store, by its whole name; `typed`: as an operator called it. Raises: as `find_checkpoint`."""
    operator = operator_of(poller, KIND)
    found = operator.store.read(backup)
    if not isinstance(found, Found):
        raise WrongArgument(
            f"There is neither a file {typed or backup} nor a backup of that name in the store.",
            next_step=_newest(operator),
        )
    return read_checkpoint(poller, found.body, location=f"backup {backup}")


def read_checkpoint(poller: WiredPoller, body: bytes, *, location: str) -> ReturnPoint:
    """The checkpoint in these bytes; `location`: where they come from, for people. Raises: WrongArgument."""
    now = operator_of(poller, KIND).file.clock.now()
    try:
        return read_origin(body, location=location, app=poller.app_name, now=now)
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


@dataclass(frozen=True)
class Restore(Change):
    """Go back to a checkpoint. Also puts back a document that is gone or cannot be read.

    Attributes:
        origin: the checkpoint. rebind: also one of another source: it then belongs to this one.
        token_at_least: for the document's fencing token, if a higher one is known from elsewhere.

    Raises: WrongArgument (`token_at_least`).
    """

    origin: ReturnPoint
    rebind: bool = False
    token_at_least: int = 0

    kind = KIND
    taken_back = "It takes back the last reset: rows that were delivered before it count as delivered."

    def __post_init__(self) -> None:
        whole(self.token_at_least, "token_at_least", least=0, most=HIGHEST_TOKEN)

    def looked(self, on: Changes) -> tuple[Restore, Base]:
        """Raises: StateCorrupt (a newer version's document), FingerprintMismatch, WrongArgument."""
        self._refuse_other_source(on)
        self._refuse_impossible(on)
        try:
            copy = on.operator.file.read()
        except StateCorrupt:
            copy = None
        return self, copy or Recovery(on.operator)

    def transition(self, on: Changes, token_at_least: int | None = None) -> Transition:
        token, source = self.token_at_least if token_at_least is None else token_at_least, self._source(on)

        def restored(state: State, record: Record, now: datetime) -> State:
            return restore(state, self.origin, source=source, token_at_least=token, change=record, now=now)

        return restored

    def _source(self, on: Changes) -> SourceDescription:
        """As the kept checkpoint describes it, if it is the configured one."""
        kept = on.source.as_stored(self.origin.export.source_fingerprint, self.origin.export.source)
        return kept or on.source

    def differences(self, on: Changes, state: State) -> Sequence[FieldDifference]:
        return changed_source(self._source(on))(state)

    def _refuse_other_source(self, on: Changes) -> None:
        """A checkpoint of another source means nothing here, unless the operator says that it does."""
        export, source, name = self.origin.export, self._source(on), on.poller.name
        if is_foreign(export, source) and not self.rebind:
            found = differences(export.source, source)
            shown = "; ".join(map(str, found))
            raise FingerprintMismatch(
                f"The {self.origin.location} holds a checkpoint of another source, {export.source_fingerprint}; "
                f"{name!r} is configured with {source.fingerprint()}" + (f" ({shown})." if shown else "."),
                stored=export.source_fingerprint,
                configured=source.fingerprint(),
                differences=found,
                next_step=f"Nothing was changed. Put the former source back into the configuration, or, "
                f"{self.instead(on)}.",
            )
        refuse_foreign(on.poller.source, export.cursor, name=name)

    def instead(self, on: Changes) -> str:
        """What to do about a checkpoint of another source, if that is meant."""
        return f"if the cursor is right for the new one, add {on.request.option('rebind')}"

    def _refuse_impossible(self, on: Changes) -> None:
        """What the column cannot hold is not a place to go on from. If the database cannot be asked it is let through:
        a way back must not need it. Raises: WrongArgument."""
        cursor, name = self.origin.export.cursor, on.poller.name
        try:
            why = impossible(on.poller.source, cursor)
        except SourceError:  # a table that cannot be read is no fault of the checkpoint's
            return
        if why:
            raise WrongArgument(
                f"The cursor {cursor} of the {self.origin.location} cannot be one of {name!r}: {why}.",
                next_step=f"Nothing was changed. Give another file, or say where to go on: poller reset-to-cursor "
                f"{name}.",
            )

    def effect(self, on: Changes, state: State) -> Effect:
        here, there = state.checkpoint.cursor, self.origin.export.cursor
        effect = measure(on.poller.source, here, there, foreign=is_foreign(state, self._source(on)))
        if effect.skips and self._takes_back(state):
            return effect.model_copy(update={"skipped": 0, "open_ended": False, "unknown": False})
        return effect

    def _takes_back(self, state: State) -> bool:
        """True if it only goes back to where the poller had come before a change: what lies between was delivered, or
        knowingly skipped, before that."""
        return undoes(state, self.origin)

    def notes(self, on: Changes, state: State) -> Sequence[str]:
        notes = [f"It goes back to the {self.origin.location}."]
        if self._takes_back(state):
            notes.append(self.taken_back)
        if self.origin.export.fencing_token > state.lease.fencing_token:
            notes.append(f"The fencing token goes on above that of the {self._of_token}.")
        return notes + self._foreign_notes(on)

    @property
    def _of_token(self) -> str:
        return f"{self.origin.location}, {self.origin.export.fencing_token}"

    def _foreign_notes(self, on: Changes) -> list[str]:
        export, document = self.origin.export, self.origin.document
        if export.poller == on.poller.name:
            return []
        notes = [f"The checkpoint was taken from the poller {export.poller!r}."]
        return notes if document is None else [*notes, *left_waiting(export.poller, document)]

    def begin(self, on: Changes, recovery: Recovery) -> Beginning:
        start = begin(on.name, self._source(on), self.origin, now=on.operator.file.clock.now())
        token = max(self.token_at_least, recovery.highest_token + 1)
        higher = self.origin.export.fencing_token > recovery.highest_token
        above = f"The highest fencing token is that of the {self._of_token}: it goes on above it."
        return made_again(
            on,
            recovery,
            start,
            self.transition(on, token),
            notes=[f"It goes back to the {self.origin.location}.", *self._foreign_notes(on)],
            more=[above] if higher else [],
        )
