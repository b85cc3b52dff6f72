"""What commands print under `--json`, as models: `schemas/` is generated from them, so documents and schemas agree."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from poller.delivery.result import Outcome
from poller.model.cursor import Cursor, KeyValue
from poller.model.document import DeliveryError
from poller.model.stamps import Stamp


class _Output(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class BoundOutput(_Output):
    """Below what rows are read."""

    kind: str
    """How it was found: exact, observed, observed-strict, heuristic, none; before there is any row, how it will be."""
    value: str | None = None
    """The bound, in the cursor column's own form."""
    age_seconds: float | None = None
    """How far it lies behind the database's clock."""
    held_by: str | None = None
    """Which transaction holds it back, if one does."""
    reason: str | None = None
    """Why this kind was taken, or why it does not advance."""
    below_checkpoint: bool = False
    """Whether the server has not come as far as the checkpoint: it went back, or the checkpoint was put ahead. No row
    is read until the checkpoint is moved."""


class TickOutput(_Output):
    """One tick's result (`poller.TickResult`)."""

    outcome: Outcome
    """What it came to."""
    rows: int = Field(ge=0)
    """Rows delivered and committed in this tick."""
    batches: int = Field(ge=0)
    """In how many batches."""
    cursor: Cursor | None
    """Where the checkpoint stands."""
    fencing_token: int | None
    """The token of this tick's tenure, or of the document where it took none."""
    duration_seconds: float = Field(ge=0)
    """How long it took."""
    lag_seconds: float | None
    """Age of the oldest row not yet delivered, by the database's clock."""
    pending: int | None
    """Rows not yet delivered, counted up to a cap."""
    bound: BoundOutput | None
    """Below what rows were read."""
    error: str | None
    """One line, where the outcome has a reason."""


class LeaseOutput(_Output):
    """Who works. Where the state document was not read, nothing of it is known."""

    owner_id: str | None = None
    """Null where nobody holds the lease, or where it is not known."""
    kept_by: str | None = None
    """The operator for whom the lease is kept though nobody works, after `--break-lease`; null for a worker's lease."""
    fencing_token: int | None = None
    """Grows with every acquisition and every reset; null where it is not known."""
    live: bool | None = None
    """Whether another must keep away; null where it is not known."""
    expires_in_seconds: float | None = None
    """When it may be taken over, if it is not renewed."""
    acquired_at: Stamp | None = None
    """Since when, by the store's clock."""
    heartbeat_at: Stamp | None = None
    """Last renewal, by the store's clock."""
    heartbeat_age_seconds: float | None = None
    """How long that was ago, by the store's clock; null where nobody holds the lease, or where the store tells no
    time."""


class ControlOutput(_Output):
    """Who paused or halted the poller, why and when."""

    by: str | None = None
    reason: str | None = None
    at: Stamp | None = None


class PollerStatus(_Output):
    """One poller's place."""

    name: str
    app_name: str
    document: str
    """Where its state is kept."""
    exists: bool | None = None
    """Whether the state document is there; before the first tick it is not. Null where the store did not tell, or what
    stands there could not be read."""
    paused: bool | None = None
    """An operator stopped it; null where it is not known."""
    halted: bool | None = None
    """A batch failed too often; an operator must resume. Null where it is not known."""
    control: ControlOutput = ControlOutput()
    cursor: Cursor | None = None
    """Everything up to here was delivered; of a poller that never ran, where it will start. Null is the beginning; with
    `lease.fencing_token` null too, or where `exists` is false and `error` is told, it is not known."""
    checkpoint_updated_at: Stamp | None = None
    """When it moved last, by the store's clock."""
    last_successful_batch_id: str | None = None
    lease: LeaseOutput = LeaseOutput()
    lag_seconds: float | None = None
    """Age of the oldest row not yet delivered, by the database's clock."""
    pending: int | None = None
    """Rows not yet delivered, counted up to a cap; null where the database does not tell."""
    pending_capped: bool = False
    """There are at least so many."""
    null_cursors: int | None = None
    """Rows without a value in the cursor column, which are never read (`on_null_cursor`), counted up to a cap; null
    where they were not counted."""
    null_cursors_capped: bool = False
    """There are at least so many."""
    bound: BoundOutput | None = None
    above_bound: bool = False
    """Rows are pending, and none of them may be read yet: they all wait above the bound."""
    attempts: int | None = None
    """How often the pending batch was started; null where it is not known."""
    last_error: DeliveryError | None = None
    """How it last failed."""
    error: str | None = None
    """What kept this status from being complete: an unreachable store or database, a changed source."""


class BackfillStatus(PollerStatus):
    """The place of a backfill, or of one of its parts: that of a poller, with a range."""

    poller: str
    """Whose source is read and whose handler is called."""
    begins: str
    """The first value of the cursor column that is in it, in the column's own form."""
    ends: str
    """The first value that is not in it any more."""
    begins_key: dict[str, KeyValue] | None = None
    """Where rows of one value were cut by their keys: it begins behind the row of `begins` with this key."""
    ends_key: dict[str, KeyValue] | None = None
    """The same of its end: the row of `ends` with this key is its last."""
    finished: bool
    """Whether every row of it was delivered."""
    finished_at: Stamp | None = None
    begun_by: str | None = None
    """Who began it; null where an earlier version did."""
    begun_at: Stamp | None = None


class StatusOutput(_Output):
    """`poller status --json`."""

    pollers: list[PollerStatus]
    """The configured ones that were asked for."""
    backfills: list[BackfillStatus] | None
    """Theirs that are not finished, and those that were named; null where the store did not list its documents."""
    backfills_unread: int = 0
    """So many documents were not looked at in search of backfills: there are too many."""


class DemoOutput(_Output):
    """`poller demo --json`: the closing table."""

    rows_written: int
    rows_delivered: int
    """Different rows that reached a handler."""
    missing: int
    """Rows that never did; anything but 0 is a failure."""
    delivered_twice: int
    """Rows that reached a handler twice."""
    killed_batch_rows: int
    """Rows of the batch whose worker was killed: only these may be delivered twice."""
    twice_outside_killed_batch: int
    """Rows delivered twice for any other reason; anything but 0 is a failure."""
    token_before_kill: int
    token_after_takeover: int
    takeover_seconds: float
    """From the kill to the other worker's first batch."""
    elapsed_seconds: float
    ok: bool


class SchemaExportOutput(_Output):
    """`poller schema export --json`."""

    directory: str
    written: list[str]
    """Files that were made or changed; with `--check`, that would be."""
    unchanged: list[str]


def as_json(output: BaseModel) -> dict[str, Any]:
    """The output as it is printed."""
    return output.model_dump(mode="json")
