"""What commands print under `--json`, as models: `schemas/` is generated from them, so documents and schemas agree."""

from __future__ import annotations

from typing import Literal

from poller.admin.status import PollerStatus
from poller.backfill.status import BackfillStatus
from poller.model.cursor import Cursor
from poller.model.result import ResultModel


class StatusOutput(ResultModel):
    """`poller status --json`."""

    pollers: list[PollerStatus]
    """The configured ones that were asked for."""
    backfills: list[BackfillStatus] | None
    """Theirs that are not finished, and those that were named; null if the store did not list its documents."""
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


class PoisonDemoOutput(ResultModel):
    """`poller demo --poison --json`: the closing table."""

    rows_written: int
    rows_delivered: int
    """Different rows that reached the handler and were done."""
    missing: int
    """Rows that never were; anything but 0 is a failure."""
    delivered_twice: int
    """Rows that were done twice; anything but 0 is a failure."""
    calls_to_find: int
    """From the first half to the row that failed alone."""
    calls_to_find_at_most: int
    """2 log2(batch_size) + 4."""
    strikes: int
    """Tries of the row alone that failed after others had worked."""
    delivered_before_replay: int
    """Rows done while the poison row waited."""
    delivered_by_replay: int
    """The poison row and those that waited behind it."""
    in_order_per_aircraft: bool
    """True if the flights of its aircraft were done in order."""
    elapsed_seconds: float
    ok: bool


class DashboardOutput(ResultModel):
    """`poller dashboard --json`: one line, as soon as the page is served."""

    url: str
    """Where. The page of one poller is below it."""


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


class FindingOutput(ResultModel):
    """One thing that was looked at."""

    check: str
    """What was looked at: `storage`, `state`, `index`, `bound`, ..."""
    severity: Literal["ok", "warn", "error"]
    """`error`: rows could be skipped or repeated, or nothing runs; `warn`: it works, at a price or a risk."""
    message: str
    """What was found."""
    fix: str | None
    """The statement or command that fixes it, or a sentence where there is none."""


class PollerCheck(ResultModel):
    """One poller's findings."""

    name: str
    app_name: str
    errors: int
    warnings: int
    findings: list[FindingOutput]


class CheckOutput(ResultModel):
    """`poller check --json`."""

    ok: bool
    """True if there is no error."""
    pollers: list[PollerCheck]


class InitOutput(ResultModel):
    """`poller init --json`."""

    config: str
    """The configuration that was written, or added to."""
    handlers: str
    """The module that was written, or added to."""
    name: str
    """The poller's name."""
    app_name: str
    table: str
    cursor_column: str | None
    """Null if triggers are to record the table's changes; so is `cursor_kind`, and `pk_columns` is empty."""
    cursor_kind: str | None
    cursor_time_zone: str | None
    pk_columns: list[str]
    setting: str | None
    """The environment variable that must hold the database's URL; null if the file has the URL itself: it holds no
    secret."""
    added: bool
    """True if the poller was added to a file that was there; else both files are new."""
    findings: list[FindingOutput]
    """What to fix in the database, such as the index to create."""
    next: list[str]
    """The commands that come next."""


class RecheckOutput(ResultModel):
    """`poller recheck --json`."""

    name: str
    app_name: str
    compared: int
    """Rows of the table that were compared with what was delivered."""
    stretches: int
    """Parts of the order that are known to have been delivered within the time; 0: nothing could be compared."""
    complete: bool
    """True if all of them were compared."""
    late_rows: int
    """Rows under the cursor that were never delivered."""
    redelivered: int
    """The number of them that a handler took now."""
    late: list[Cursor]
    """Where they stand, the first thousand."""


class CaptureCost(ResultModel):
    """What one written row costs beside what it costs now: an estimate, of an UPDATE."""

    rows: int
    """From how many rows of the table it was estimated; 0: the table is empty."""
    json_bytes: int
    """A row as JSON, on average."""
    bytes_per_change: int
    """That the database grows by, index included."""
    microseconds: float
    """That it takes longer, without the way to the server."""


class CaptureBreak(ResultModel):
    """One place where the changes and the table disagree."""

    change: int | None
    """The id of the change; null for a row of the table that no change explains."""
    what: str
    """What is wrong, without a value of any row."""


class CaptureProof(ResultModel):
    """What `--verify` found."""

    changes: int
    """The newest ones, which were compared."""
    rows: int
    """Rows of the table."""
    compared: int
    """Those of them that a change left."""
    gaps: int
    """Places among the changes where some were not captured."""
    breaks: int
    """Anything but 0 is a failure."""
    first_breaks: list[CaptureBreak]


class CaptureOutput(ResultModel):
    """`poller capture --json`."""

    name: str
    app_name: str
    action: Literal["print", "install", "remove", "verify"]
    changed: bool
    """True if something was installed or removed."""
    table: str | None
    change_table: str | None
    standing: Literal["absent", "installed", "damaged", "removed"] | None
    """What was there before: `damaged`, if triggers were missing, disabled, or of another table; null with `verify`
    and `remove`."""
    key: list[str]
    columns: list[str]
    """Those that are captured."""
    old_values: bool | None
    """True if changes keep the old values."""
    gap: str | None
    """Why changes may have been missed before, so that a gap is written; null if none was."""
    statements: list[str]
    """What installing runs, in this order."""
    warnings: list[str]
    cost: CaptureCost | None
    proof: CaptureProof | None


class PruneReader(ResultModel):
    """A poller or backfill that reads the table."""

    name: str
    """Its application and its own name."""
    done: int | None
    """It is done with rows up to this number; null at the beginning."""
    waiting: int
    """Rows that it passed and that wait, for another try or for a person: they are left in place."""


class PruneOutput(ResultModel):
    """`poller prune --json`."""

    name: str
    app_name: str
    changed: bool
    """True if rows were deleted."""
    table: str
    """The one that is pruned."""
    change_table: bool
    """False for an outbox: the poller's own table."""
    readers: list[PruneReader]
    """The one that is the farthest behind first: it is the limit."""
    older_than: str | None
    """How old a change must be; null for an outbox."""
    rows: int
    """That were deleted, or could be if nothing was changed."""
    pruned_through: int | None
    """The last change that was pruned, now or before; 0 if none was, null for an outbox."""
    bytes: int | None
    """The table's size before, with its indexes; null if the database does not say."""
