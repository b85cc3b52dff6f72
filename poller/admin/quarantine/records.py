"""The records of a poller's waiting rows, for a person."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from poller.admin.editor import Operator
from poller.admin.wired import WiredPoller
from poller.errors import StoreError
from poller.journal.quarantine.record import Settled
from poller.journal.quarantine.records import Quarantine
from poller.model import aside, transitions
from poller.model.changes import Transition
from poller.model.document import OperatorChange, State, WaitingRow


def records_of(poller: WiredPoller, operator: Operator) -> Quarantine:
    """The records beside the operator's document."""
    return Quarantine(
        poller.store,
        app_name=poller.app_name,
        poller_name=poller.name,
        runtime=poller.runtime,
        timing=poller.options.timing,
        clock=operator.file.clock,
        error_text=poller.options.error_text,
    )


def every_row(state: State) -> dict[str, WaitingRow]:
    """All rows that the document lists, of any generation, by id: those aside first, each group as it is listed."""
    return {row.id: row for row in (*state.aside, *state.quarantine)}


def is_passed(state: State, row: WaitingRow) -> bool:
    """True if the checkpoint is behind the row; one that is ahead is read again as any other, once it is unlisted."""
    return row.at is not None or row.generation != state.checkpoint.generation


def unlisting(which: Callable[[State], Sequence[WaitingRow]]) -> Transition:
    """What becomes of a state in which these rows wait no longer."""

    def without(state: State, record: OperatorChange, now: datetime) -> State:
        gone = aside.without(state, [row.id for row in which(state)])
        control = gone.control.model_copy(update={"last_change": record})
        return transitions.freed(gone.model_copy(update={"control": control}), now=now)

    return without


def settle(
    records: Quarantine,
    ids: Sequence[str],
    status: Settled,
    state: State,
    *,
    by: Operator | OperatorChange,
) -> list[str]:
    """Say in the records of rows that a person unlisted what became of them. The rows are unlisted whatever their
    records say, so nothing is raised: notes for people say which record does not.

    `state`: of the document that lists them no more; one that was opened since stays as it is. `by`: who, and why.
    """
    notes = []
    for id_ in ids:
        try:
            records.settle(
                id_,
                status,
                by=by.by,
                reason=by.reason,
                fencing_token=state.lease.fencing_token,
                generation=state.checkpoint.generation,
                deadline=records.runtime.monotonic() + records.timing.tenure,
            )
        except StoreError as error:
            notes.append(f"The record of {id_} does not say so: {error.message}")
    return notes
