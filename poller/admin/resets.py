"""Resets to a place: the beginning, or right after a row. Also if the state document is gone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from poller.admin.changes import Base, Beginning, Change, Changes
from poller.admin.cursors import changed_source, is_foreign, refuse_foreign, typed_cursor, unreadable
from poller.admin.effects import BACK, NOTHING, Effect, measure, uncounted
from poller.admin.quarantine.relisting import unlisted
from poller.admin.recovery import Recovery
from poller.admin.refusals import WrongArgument, clean, shown, whole
from poller.admin.wired import WiredPoller
from poller.errors import FieldDifference
from poller.model import aside
from poller.model.changes import Transition, to_reset
from poller.model.cursor import Cursor
from poller.model.document import Checkpoint, Lease, State
from poller.model.document import OperatorChange as Record
from poller.model.limits import HIGHEST_TOKEN
from poller.ports import InspectableSource
from poller.tick.ordering import key_columns

UNKNOWN_BEFORE = "there is no document that says where it was"


@dataclass(frozen=True)
class Reset(Change):
    """Move the checkpoint; it then belongs to the configured source, whatever it belonged to before.

    Attributes:
        to: the row to go on after; None: the beginning. token_at_least: for the document's fencing token.
        here: `to` is where the document stands: what a worker that holds the lease has in hand is not committed.
        snapshot: `to` is where a snapshot of the table begins now.

    Raises: WrongArgument (`token_at_least`).
    """

    to: Cursor | None
    token_at_least: int = 0
    here: bool = False
    snapshot: bool = False

    def __post_init__(self) -> None:
        whole(self.token_at_least, "token_at_least", least=0, most=HIGHEST_TOKEN)

    @property
    def kind(self) -> str:
        return "reset-to-beginning" if self.to is None and not self.snapshot else "reset-to-cursor"

    def looked(self, on: Changes) -> tuple[Reset, Base]:
        """Raises: StoreError; with `here` FingerprintMismatch, if the cursor is of another kind or key than the source
        has. With `snapshot` WrongArgument, if the source has none; SourceUnavailable, SourceError."""
        if self.snapshot:
            return replace(self, to=_snapshot(on.poller)), on.operator.file.read() or Recovery(on.operator)
        if not self.here:
            return self, on.operator.file.read() or Recovery(on.operator)
        copy = on.operator.look()
        refuse_foreign(on.poller.source, copy.state.checkpoint.cursor, name=on.poller.name)
        return replace(self, to=copy.state.checkpoint.cursor), copy

    def transition(self, on: Changes) -> Transition:
        return to_reset(self.to, on.source, token_at_least=self.token_at_least)

    def effect(self, on: Changes, state: State) -> Effect:
        foreign = is_foreign(state, on.source)
        if self.snapshot:
            return uncounted("each row of the table is delivered, and then what is written from now on", BACK)
        return measure(on.poller.source, state.checkpoint.cursor, self.to, foreign=foreign)

    def differences(self, on: Changes, state: State) -> Sequence[FieldDifference]:
        return changed_source(on.source)(state)

    def notes(self, on: Changes, state: State) -> Sequence[str]:
        return unreadable(on.poller.source, state, on.source)

    def begin(self, on: Changes, recovery: Recovery) -> Beginning:
        lease = Lease(fencing_token=recovery.highest_token)
        checkpoint = Checkpoint(generation=recovery.highest_generation)
        start = State(poller_name=on.name, checkpoint=checkpoint, lease=lease)
        effect = uncounted(UNKNOWN_BEFORE, BACK if self.to is None else None)
        return made_again(on, recovery, start, self.transition(on), effect=effect)


def _snapshot(poller: WiredPoller) -> Cursor:
    """Where a snapshot begins. Raises: as `Reset.looked`."""
    to = poller.source.begin_snapshot()
    if to is None:
        raise WrongArgument(
            f"to: {poller.name!r} has no snapshot: its source is not a captured table (capture = true).",
            next_step=f"To deliver every row again: poller reset {poller.name} --to beginning",
        )
    return to


def reset_to(poller: WiredPoller, to: Cursor | Literal["beginning", "snapshot"], *, token_at_least: int = 0) -> Reset:
    """The reset to a place that a program names.

    Raises: WrongArgument, for what is neither a place nor a value of the columns; FingerprintMismatch, for a cursor of
    another kind or key; SourceUnavailable, SourceError where the database cannot be asked.
    """
    if isinstance(to, Cursor):
        refuse_foreign(poller.source, to, name=poller.name)
        if isinstance(poller.source, InspectableSource):
            keys = None if to.tiebreaker is None else {name: str(value) for name, value in to.tiebreaker.items()}
            to = typed_cursor(poller.source, clean(to.value, "to"), keys, "to")
        return Reset(to, token_at_least)
    if to == "snapshot":
        return Reset(None, token_at_least, snapshot=True)
    if to != "beginning":
        raise WrongArgument(f'to: {shown(to)} is neither a Cursor nor "beginning" or "snapshot".')
    return Reset(None, token_at_least)


def made_again(
    on: Changes,
    recovery: Recovery,
    start: State,
    transition: Transition,
    *,
    notes: Sequence[str] = (),
    more: Sequence[str] = (),
    effect: Effect = NOTHING,
) -> Beginning:
    """A document in the place of one that is gone or cannot be read. Rows that wait by their records are listed in it.

    `notes`, `more`: for people, before and after what is said of the document. Raises: StoreError.
    """
    again = unlisted(on.poller, on.operator, start)
    columns = key_columns(on.poller.source, on.poller.options.ordering_key)

    def relisted(state: State, record: Record, now: datetime) -> State:
        return aside.relisted(transition(state, record, now), again.rows, columns)

    said = [*notes, _found(recovery), *again.notes(on.poller.name), *more]
    return Beginning(start, relisted, said, effect)


def _found(recovery: Recovery) -> str:
    if not recovery.existed:
        return (
            "There is no document and no trace of one: one is made. A fenced sink may have seen a fencing token before."
        )
    if recovery.body is None:
        return "There is no document: one is made, with a fencing token above the highest that left a trace."
    return "The document cannot be read: it is replaced, and its bytes are kept as a backup."
