"""Giving up rows that wait: they are never delivered. The record of each stays, and says who gave it up and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from poller.admin.change_result import ChangedRow
from poller.admin.changes import Base, Change, Changes, Undo
from poller.admin.counts import rows as rows_of
from poller.admin.editor import Applied, Operator
from poller.admin.effects import Effect
from poller.admin.quarantine.choice import Choice, check_choice, chosen, with_whole_ids
from poller.admin.quarantine.records import every_row, is_passed, records_of, settle, unlisting
from poller.admin.refusals import Refused
from poller.admin.wired import WiredPoller
from poller.journal.quarantine.record import QuarantineRecord
from poller.journal.quarantine.records import Quarantine
from poller.model import aside
from poller.model.changes import Transition
from poller.model.document import State, WaitingRow
from poller.observability.otel import recorded


@dataclass(frozen=True)
class Discard(Change):
    """Unlist rows that wait, and say so in their records. Rows behind them are then tried alone. Made again
    after it was killed, it finishes what was left to write.

    Attributes:
        choice: which rows. ids: of those, once the document was read.
    """

    choice: Choice
    ids: tuple[str, ...] = ()

    kind = "quarantine discard"
    typed = False
    skips = True
    asks = False

    def looked(self, on: Changes) -> tuple[Discard, Base]:
        """Raises: WrongArgument, Refused (not passed yet), StoreError."""
        check_choice(self.choice, on.poller)
        copy = on.operator.look()
        records = records_of(on.poller, on.operator)
        choice = with_whole_ids(self.choice, copy.state, records, name=on.name)
        rows = chosen(choice, copy.state, records, name=on.name)
        if choice.ids:
            for row in rows:
                _refuse_ahead(on.poller, copy.state, row)
        return replace(self, choice=choice, ids=tuple(row.id for row in rows) or tuple(choice.ids)), copy

    def _which(self, state: State) -> list[WaitingRow]:
        listed = every_row(state)
        return [listed[id_] for id_ in self.ids if id_ in listed and is_passed(state, listed[id_])]

    def transition(self, on: Changes) -> Transition:
        return unlisting(self._which)

    def effect(self, on: Changes, state: State) -> Effect:
        return Effect(skipped=len(self._which(state)))

    def nothing(self, on: Changes, state: State) -> str | None:
        return None if self._which(state) else f"No such row of {on.name} waits behind the checkpoint."

    def notes(self, on: Changes, state: State) -> Sequence[str]:
        return _followers(state, self._which(state))

    def rows(self, on: Changes, state: State) -> Sequence[ChangedRow]:
        return [changed_row(state, row) for row in self._which(state)]

    def undo(self, state: State) -> Undo | None:
        return "relist"

    def finish(self, on: Changes, state: State, applied: Applied | None) -> Sequence[str]:
        """The records say what became of their rows."""
        records, operator, ids = records_of(on.poller, on.operator), on.operator, self.choice.ids
        if applied is None or applied.before is None:
            return _finish(records, state, ids) or _settle_unlisted(records, operator, state, ids)
        gone = [row.id for row in self._which(applied.before.state)]
        recorded().row_settled(on.name, "discarded", len(gone))
        return settle(records, gone, "discarded", state, by=operator)


def _finish(records: Quarantine, state: State, ids: Sequence[str]) -> list[str]:
    """The last change was a discard of these rows: where it was killed before their records said so, they do now."""
    change = state.control.last_change
    if change is None or change.kind != Discard.kind:
        return []
    meant = [id_ for id_ in (change.after or {}).get("unlisted", ()) if id_ in ids and id_ not in every_row(state)]
    left = [id_ for id_, one in records.records(meant).items() if isinstance(one, QuarantineRecord) and one.waits]
    notes = settle(records, left, "discarded", state, by=change)
    return notes or (["Their records say so now."] if left else [])


def _settle_unlisted(records: Quarantine, operator: Operator, state: State, ids: Sequence[str]) -> list[str]:
    """Rows that the document does not list wait no longer, whatever their records say. One that is set aside at this
    moment has the token of the worker who is about to list it, and stays."""
    over = state.lease.fencing_token + (state.lease.owner_id is None)
    found = records.records([id_ for id_ in ids if id_ not in every_row(state)])
    known = [one for one in found.values() if isinstance(one, QuarantineRecord) and one.waits]
    left = [one.id for one in known if one.fencing_token < over]
    notes = settle(records, left, "discarded", state, by=operator)
    return notes or (["Nothing listed it. Its record says now that it waits no longer."] if left else [])


def changed_row(state: State, row: WaitingRow) -> ChangedRow:
    """A row that waits, as the result of a change shows it."""
    pending = any(one.id == row.id for one in state.quarantine)
    return ChangedRow(id=row.id, pk=row.cursor.tiebreaker or {}, status="pending" if pending else "aside")


def _followers(state: State, rows: Sequence[WaitingRow]) -> list[str]:
    """What becomes of the rows behind: whose turn comes."""
    before, after = aside.heads(state), aside.heads(aside.without(state, [row.id for row in rows]))
    next_ = [row for key, row in after.items() if before[key].id != row.id]
    free = [row for row in next_ if any(one.id == row.id for one in state.aside)]
    waits = len(next_) - len(free)
    notes = []
    if free:
        notes.append(
            f"{rows_of(len(free))} behind it will be tried next."
            if len(free) == 1
            else f"{rows_of(len(free))} behind them will be tried, each as the next of its ordering key."
        )
    if waits:
        notes.append(f"Of {waits} ordering key{'s' * (waits > 1)} the next row waits for a person too.")
    return notes


def _refuse_ahead(poller: WiredPoller, state: State, row: WaitingRow) -> None:
    """Raises: Refused, for a row that the checkpoint has not passed."""
    if not is_passed(state, row):
        raise Refused(
            f"The checkpoint of {poller.name!r} has not passed the row {row.id} yet: it would be read again. Nothing "
            "was changed.",
            next_step="Discard it when the rows before it were delivered.",
        )
