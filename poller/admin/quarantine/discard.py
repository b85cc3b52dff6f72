"""Giving up rows that wait: they are never delivered. The record of each stays, and says who gave it up and why."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from poller.admin.change_result import ChangedRow, ChangeOutput
from poller.admin.changes import StateEditor
from poller.admin.conversation import Conversation
from poller.admin.counts import rows as rows_of
from poller.admin.editor import Operator
from poller.admin.effects import Effect
from poller.admin.plans import Plan
from poller.admin.quarantine.choice import Choice, check_choice, chosen
from poller.admin.quarantine.records import every_row, records_of, settle
from poller.admin.refusals import Refused
from poller.admin.request import Request
from poller.admin.wired import WiredPoller
from poller.journal.quarantine.record import QuarantineRecord
from poller.journal.quarantine.records import Quarantine
from poller.model import aside, transitions
from poller.model.document import Change, State, WaitingRow
from poller.observability.otel import recorded

KIND = "quarantine discard"


def discard(
    poller: WiredPoller, choice: Choice, request: Request | None = None, conversation: Conversation | None = None
) -> ChangeOutput:
    """Unlist rows that wait, and say so in their records. Rows behind them are then tried by themselves.

    Called again after it was killed, it finishes what was left to write.
    Raises: WrongArgument, LeaseHeld, Refused (not confirmed, or not passed yet), WriteConflict, StoreError.
    """
    check_choice(choice, poller)
    editor = StateEditor(poller, request, conversation)
    operator = editor.operator
    records = records_of(poller, operator)
    copy = operator.look()
    rows = chosen(choice, copy.state, records, name=poller.name)
    ids = [row.id for row in rows] or list(choice.ids)
    if choice.ids:
        for row in rows:
            _refuse_ahead(poller, copy.state, row)
    output = editor.carry_out(_plan(poller, ids), copy)
    if output.changed and output.after is not None:
        token, generation = output.after.fencing_token, output.after.generation
        unlisted = [row.id for row in output.rows]
        recorded().row_settled(poller.name, "discarded", len(unlisted))
        notes = settle(
            records,
            unlisted,
            "discarded",
            by=operator.by,
            reason=operator.reason,
            fencing_token=token,
            generation=generation,
        )
    elif editor.request.dry_run:
        notes = []
    else:
        notes = _finish(records, copy.state, choice.ids) or _settle_unlisted(records, operator, copy.state, choice.ids)
    return output.model_copy(update={"notes": [*output.notes, *notes]}) if notes else output


def _finish(records: Quarantine, state: State, ids: Sequence[str]) -> list[str]:
    """The last change was a discard of these rows: where it was killed before their records said so, they do now."""
    change = state.control.last_change
    if change is None or change.kind != KIND:
        return []
    meant = [id_ for id_ in (change.after or {}).get("unlisted", ()) if id_ in ids and id_ not in every_row(state)]
    left = [id_ for id_, one in records.records(meant).items() if isinstance(one, QuarantineRecord) and one.waits]
    token, generation = state.lease.fencing_token, state.checkpoint.generation
    notes = settle(
        records, left, "discarded", by=change.by, reason=change.reason, fencing_token=token, generation=generation
    )
    return notes or (["Their records say so now."] if left else [])


def _settle_unlisted(records: Quarantine, operator: Operator, state: State, ids: Sequence[str]) -> list[str]:
    """Rows that the document does not list wait no longer, whatever their records say. One that is set aside at this
    moment has the token of the worker who is about to list it, and stays."""
    over = state.lease.fencing_token + (state.lease.owner_id is None)
    found = records.records([id_ for id_ in ids if id_ not in every_row(state)])
    known = [one for one in found.values() if isinstance(one, QuarantineRecord) and one.waits]
    left = [one.id for one in known if one.fencing_token < over]
    token, generation = state.lease.fencing_token, state.checkpoint.generation
    notes = settle(
        records, left, "discarded", by=operator.by, reason=operator.reason, fencing_token=token, generation=generation
    )
    return notes or (["Nothing listed it. Its record says now that it waits no longer."] if left else [])


def _plan(poller: WiredPoller, ids: Sequence[str]) -> Plan:
    def which(state: State) -> list[WaitingRow]:
        listed = every_row(state)
        return [listed[id_] for id_ in ids if id_ in listed and _is_passed(state, listed[id_])]

    def without(state: State, change: Change, now: datetime) -> State:
        gone = aside.without(state, [row.id for row in which(state)])
        control = gone.control.model_copy(update={"last_change": change})
        return transitions.freed(gone.model_copy(update={"control": control}), now=now)

    def nothing(state: State) -> str | None:
        return None if which(state) else f"No such row of {poller.name} waits behind the checkpoint."

    return Plan(
        kind=KIND,
        transition=without,
        effect=lambda state: Effect(skipped=len(which(state))),
        nothing=nothing,
        notes=lambda state: _followers(state, which(state)),
        rows=lambda state: [changed_row(state, row) for row in which(state)],
        typed=False,
        skips=True,
        restorable=False,
    )


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
            f"{rows_of(len(free))} behind it will be tried by itself."
            if len(free) == 1
            else f"{rows_of(len(free))} behind them will be tried by themselves, each the next of its ordering key."
        )
    if waits:
        notes.append(f"Of {waits} ordering key{'s' * (waits > 1)} the next row waits for a person too.")
    return notes


def _is_passed(state: State, row: WaitingRow) -> bool:
    """One that is ahead would only be read again."""
    return row.at is not None or row.generation != state.checkpoint.generation


def _refuse_ahead(poller: WiredPoller, state: State, row: WaitingRow) -> None:
    """Raises: Refused, for a row that the checkpoint has not passed."""
    if not _is_passed(state, row):
        raise Refused(
            f"The checkpoint of {poller.name!r} has not passed the row {row.id} yet: it would be read again. Nothing "
            "was changed.",
            next_step="Discard it when the rows before it were delivered.",
        )
