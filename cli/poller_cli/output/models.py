"""What commands print under `--json`, as models: `schemas/` is generated from them, so documents and schemas agree."""

from __future__ import annotations

from pydantic import Field

from poller.admin.status import BoundOutput, PollerStatus
from poller.backfill.status import BackfillStatus
from poller.delivery.result import Outcome
from poller.model.cursor import Cursor
from poller.model.result import ResultModel


class TickOutput(ResultModel):
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


class StatusOutput(ResultModel):
    """`poller status --json`."""

    pollers: list[PollerStatus]
    """The configured ones that were asked for."""
    backfills: list[BackfillStatus] | None
    """Theirs that are not finished, and those that were named; null where the store did not list its documents."""
    backfills_unread: int = 0
    """So many documents were not looked at in search of backfills: there are too many."""


class DemoOutput(ResultModel):
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


class SinkDdlOutput(ResultModel):
    """`poller sink ddl --json`."""

    statements: list[str]
    """In the order in which they are to be run."""


class SchemaExportOutput(ResultModel):
    """`poller schema export --json`."""

    directory: str
    written: list[str]
    """Files that were made or changed; with `--check`, that would be."""
    unchanged: list[str]
