"""Which rows wait, and why; and one of them with its content. Takes no lease, changes nothing.

The models are what `poller quarantine list --json` and `poller quarantine show --json` print.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from poller.admin.quarantine.choice import Choice, check_choice, no_such_row, oldest_first, with_whole_ids
from poller.admin.quarantine.records import every_row, is_passed, records_of
from poller.admin.wired import WiredPoller, operator_of
from poller.errors import StateCorrupt, StoreError
from poller.journal.quarantine.record import Act, QuarantineRecord, Status
from poller.model import aside
from poller.model.cursor import Cursor, KeyValue
from poller.model.document import DeliveryError, State, WaitingRow
from poller.model.result import ResultModel
from poller.model.stamps import Stamp

OTHERS_READ = 200
"""So many records of rows that are not listed are looked at: most of them are settled."""


class LastError(ResultModel):
    """How a row failed last."""

    type: str
    message: str
    """The first line; empty with `error_text = false`."""
    at: Stamp | None
    batch_id: str | None


class WaitingRowOutput(ResultModel):
    """One row that waits, without its content."""

    id: str
    """One version of a row: `--id` takes it."""
    status: Literal["aside", "pending"]
    """It is retried automatically, or it waits for a person."""
    pk: dict[str, KeyValue]
    """The primary key, by column."""
    ordering_key: dict[str, KeyValue | None] | None
    """By column: later rows with the same values wait behind it; null if the record does not say."""
    cursor: Cursor
    """Where it stands."""
    passed: bool
    """True if the checkpoint is behind it; else it is not tried before that."""
    current: bool
    """False for one from before the last reset: it holds nothing up, and a replay must say which version is meant."""
    behind: bool
    """It never failed: it waits because an earlier row of its ordering key does."""
    failures: int
    """Calls with it alone that failed."""
    strikes: int
    """Those since whose predecessor another row was delivered; with `max_attempts` it waits for a person."""
    since: Stamp | None
    retry_at: Stamp | None
    """No automatic try before; null: at once, or never."""
    error: LastError | None
    """How it failed last; null for one that only follows another, and where the record does not say."""
    problem: str | None = None
    """Why its record cannot be read; null if it can."""


class QuarantineOutput(ResultModel):
    """`poller quarantine list --json`."""

    name: str
    app_name: str
    document: str
    """The state document, which lists them."""
    aside: list[WaitingRowOutput]
    """Those that are retried automatically, the oldest first."""
    pending: list[WaitingRowOutput]
    """Those that wait for a person, the oldest first."""
    room: int
    """The number of rows that may still wait (`max_quarantined`); below 0 if a report named more."""
    unlisted: list[str]
    """Ids of records that say that their rows wait, of rows that the document does not list: who delivered them or gave
    them up was killed before the record said so, or lost its lease before it listed them, or a call failed before they
    were listed and they were delivered later. They hold nothing up, and a discard by id settles them. At
    most 200 records are read."""


class ActOutput(ResultModel):
    """Who did something, when and why."""

    by: str | None
    """Null: the poller itself."""
    at: Stamp | None
    reason: str | None


class ContentOutput(ResultModel):
    """What the record of a row holds."""

    status: Status
    """As the record says; what the state document lists counts."""
    row_key: str
    """Its idempotency key: what `batch.key(row)` says."""
    row: dict[str, Any]
    """Its columns. Values that JSON has no form for are texts."""
    kinds: dict[str, str]
    """Of which type such a text is, by column."""
    opened: ActOutput
    """Who set it aside."""
    settled: ActOutput | None
    """Who settled it; null while it waits."""
    batch_id: str | None
    fencing_token: int
    generation: int
    """The checkpoint's generation when it was set aside."""
    created_at: Stamp | None
    updated_at: Stamp | None
    openings: int = Field(ge=0)
    """So many times before it was set aside and settled."""


class QuarantineShowOutput(ResultModel):
    """`poller quarantine show --json`."""

    name: str
    app_name: str
    document: str
    """Where the record is kept."""
    waits: WaitingRowOutput | None
    """As the state document lists it; null for one that waits no longer."""
    record: ContentOutput | None
    """Its content; null if the record is missing or cannot be read: `waits.problem` says why."""


def list_waiting(poller: WiredPoller) -> QuarantineOutput:
    """Which rows of a poller wait. Raises: StateCorrupt, StoreUnavailable, StoreDenied."""
    operator = operator_of(poller, "quarantine")
    state = aside.after_reset(operator.look().state)
    listed = every_row(state)
    reader = records_of(poller, operator)
    records = reader.records(list(listed))
    others = [id_ for id_ in reader.ids() if id_ not in listed][:OTHERS_READ]
    left = {id_ for id_, one in reader.records(others).items() if isinstance(one, QuarantineRecord) and one.waits}

    def outputs(rows: tuple[WaitingRow, ...]) -> list[WaitingRowOutput]:
        return [_row(poller, state, row, records.get(row.id)) for row in oldest_first(rows)]

    return QuarantineOutput(
        name=poller.name,
        app_name=poller.app_name,
        document=operator.file.location,
        aside=outputs(state.aside),
        pending=outputs(state.quarantine),
        room=aside.room(state, poller.options.limits),
        unlisted=sorted(left.difference(every_row(aside.after_reset(operator.look().state))) if left else ()),
    )


def show_waiting(poller: WiredPoller, id_: str) -> QuarantineShowOutput:
    """One row with its content, also one that waits no longer, as long as its record is kept.

    Raises: WrongArgument (no such row), StateCorrupt (the record of one that waits no longer), StoreUnavailable,
        StoreDenied.
    """
    choice = Choice(ids=(id_,))
    check_choice(choice, poller)
    operator = operator_of(poller, "quarantine")
    state = aside.after_reset(operator.look().state)
    records = records_of(poller, operator)
    (id_,) = with_whole_ids(choice, state, records, name=poller.name).ids
    row = every_row(state).get(id_)
    record: QuarantineRecord | StateCorrupt | None
    try:
        record = records.read(id_)
    except StateCorrupt as error:
        if row is None:
            raise
        record = error
    if row is None and record is None:
        raise no_such_row(poller.name, id_)
    return QuarantineShowOutput(
        name=poller.name,
        app_name=poller.app_name,
        document=poller.store.locate(records.name(id_)),
        waits=None if row is None else _row(poller, state, row, record),
        record=_content(record) if isinstance(record, QuarantineRecord) else None,
    )


def missing_record(poller: WiredPoller, id_: str) -> StoreError:
    """The error for a row that is listed, and whose record is not there."""
    return StoreError(
        f"The record of {id_} of {poller.name!r} is missing: it was removed from the store.",
        next_step="Hand over the row as the table has it now (--current), or discard it.",
    )


def _row(
    poller: WiredPoller, state: State, row: WaitingRow, record: QuarantineRecord | StateCorrupt | None
) -> WaitingRowOutput:
    known = record if isinstance(record, QuarantineRecord) else None
    problem = record.message if isinstance(record, StateCorrupt) else None
    return WaitingRowOutput(
        id=row.id,
        status="aside" if any(one.id == row.id for one in state.aside) else "pending",
        pk=row.cursor.tiebreaker or {},
        ordering_key=None if known is None else known.ordering_key,
        cursor=row.cursor,
        passed=is_passed(state, row),
        current=row.generation == state.checkpoint.generation,
        behind=row.behind,
        failures=row.failures,
        strikes=row.strikes,
        since=row.since,
        retry_at=row.retry_at,
        error=None if known is None or known.error is None else _error(known.error, poller.options.error_text),
        problem=missing_record(poller, row.id).message if record is None else problem,
    )


def _error(error: DeliveryError, text: bool) -> LastError:
    return LastError(type=error.type, message=error.message if text else "", at=error.at, batch_id=error.batch_id)


def _act(act: Act) -> ActOutput:
    return ActOutput(by=act.by, at=act.at, reason=act.reason)


def _content(record: QuarantineRecord) -> ContentOutput:
    return ContentOutput(
        status=record.status,
        row_key=record.row_key,
        row=record.row,
        kinds=record.kinds,
        opened=_act(record.opened),
        settled=None if record.settled is None else _act(record.settled),
        batch_id=record.batch_id,
        fencing_token=record.fencing_token,
        generation=record.generation,
        created_at=record.created_at,
        updated_at=record.updated_at,
        openings=len(record.openings),
    )
