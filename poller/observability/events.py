"""One typed event per fact. Rules emit them; observers format, count or send them.

A failure of an observer is logged: watching a poller must never stop it.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, ClassVar, TypeAlias

from poller.model.escape import each_text, escape_lines, shown
from poller.model.redact import shortened
from poller.model.stamps import stamp

__all__ = [
    "AuditFailed",
    "BatchCommitted",
    "BatchStarted",
    "Began",
    "BoundHeld",
    "CaptureGapMet",
    "ClockWentBack",
    "CommitUnknown",
    "Emitter",
    "FactsTaken",
    "FingerprintBound",
    "HandlerFailed",
    "HandlerTimedOut",
    "LateRows",
    "LeaseAcquired",
    "LeaseExpired",
    "LeaseLostEvent",
    "LeaseReleased",
    "LeaseRenewed",
    "LeaseTakenOver",
    "Observer",
    "PollerEvent",
    "PollerHalted",
    "PruneFailed",
    "QueryTimedOut",
    "Rechecked",
    "RowDeliveredLater",
    "RowQuarantined",
    "RowSetAside",
    "ServerBelowCheckpoint",
    "StaleCommitRefused",
    "TableLarge",
    "TablePruned",
    "TableReplaced",
    "TenureEvent",
    "TickFailed",
    "TickFinished",
    "TieRepeated",
    "TwoApps",
    "WriteRedone",
    "WriteResent",
    "WriteResolved",
    "YieldedToOperator",
    "log_events",
    "log_failure",
]

logger = logging.getLogger("poller")
BUSY_HERE = "a batch of this poller still runs in this process"
"""The `error` of a tick `held_elsewhere` where the owner is this very process."""
LONGEST_LOGGED = 20_000
"""The most characters of an error that ends nothing that are logged: searching more for secrets takes time."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class PollerEvent:
    """The fields of every event: which poller, and when by this machine's clock."""

    name: ClassVar[str] = "event"
    level: ClassVar[int] = logging.INFO

    poller: str
    at: datetime

    # Of all events at once: made for each of them, these three are what the import of this module takes longest for.

    def __repr__(self) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={value!r}' for name, value in self._values())})"

    def __eq__(self, other: object) -> bool:
        return self._values() == other._values() if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash((type(self), self._values()))

    def _values(self) -> tuple[tuple[str, Any], ...]:
        return tuple((item.name, getattr(self, item.name)) for item in fields(self))

    def as_json(self) -> dict[str, Any]:
        """The event as one flat JSON object, `event` first."""
        data: dict[str, Any] = {"event": self.name}
        for item in fields(self):
            value = getattr(self, item.name)
            data[item.name] = stamp(value) if isinstance(value, datetime) else value
        return data


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class TenureEvent(PollerEvent):
    """An event of one tenure: `fencing_token` says which, `owner_id` whose."""

    owner_id: str
    fencing_token: int


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Began(PollerEvent):
    """There was no state document and no trace of one, so this process created it, at `cursor` (null: the beginning),
    where `start_from` says. Once in a poller's life: a second one means that all its state was deleted."""

    name: ClassVar[str] = "began"
    level: ClassVar[int] = logging.WARNING
    start_from: str | None
    cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class LeaseAcquired(TenureEvent):
    """This worker has the lease, which was free."""

    name: ClassVar[str] = "lease_acquired"
    level: ClassVar[int] = logging.DEBUG


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class LeaseTakenOver(TenureEvent):
    """This worker has the lease, which its former owner let expire."""

    name: ClassVar[str] = "lease_taken_over"
    level: ClassVar[int] = logging.WARNING
    previous_owner_id: str | None
    previous_fencing_token: int


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class LeaseExpired(PollerEvent):
    """An owner let its lease expire, and a tick freed it without taking it over: rows wait for their bound."""

    name: ClassVar[str] = "lease_expired"
    level: ClassVar[int] = logging.WARNING
    previous_owner_id: str | None
    previous_fencing_token: int


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class LeaseRenewed(TenureEvent):
    """A heartbeat was written."""

    name: ClassVar[str] = "lease_renewed"
    level: ClassVar[int] = logging.DEBUG


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class LeaseReleased(TenureEvent):
    """The lease was given back."""

    name: ClassVar[str] = "lease_released"
    level: ClassVar[int] = logging.DEBUG


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class LeaseLostEvent(TenureEvent):
    """The tenure is over against its owner's will; `reason` as in `LeaseLost`."""

    name: ClassVar[str] = "lease_lost"
    level: ClassVar[int] = logging.WARNING
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class StaleCommitRefused(TenureEvent):
    """A commit came after the tenure was over; the checkpoint was not touched."""

    name: ClassVar[str] = "stale_commit_refused"
    level: ClassVar[int] = logging.WARNING
    batch_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class CommitUnknown(TenureEvent):
    """It was not known before the deadline whether a commit was applied; the next tick reads it."""

    name: ClassVar[str] = "commit_unknown"
    level: ClassVar[int] = logging.WARNING
    batch_id: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class WriteResent(PollerEvent):
    """A write got no usable answer and is sent again, the same bytes under the same condition."""

    name: ClassVar[str] = "write_resent"
    level: ClassVar[int] = logging.WARNING
    attempt: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class WriteResolved(PollerEvent):
    """A write whose answer was lost had been applied: its write id is in the document."""

    name: ClassVar[str] = "write_resolved"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class WriteRedone(PollerEvent):
    """An operator changed the document during a tenure; the worker's change was made again on top."""

    name: ClassVar[str] = "write_redone"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class YieldedToOperator(TenureEvent):
    """An operator who lost too many races left a request; this tenure pauses its writes for a moment."""

    name: ClassVar[str] = "yielded_to_operator"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class FingerprintBound(PollerEvent):
    """A document without a fingerprint was bound to the configured source by its first tenure."""

    name: ClassVar[str] = "fingerprint_bound"
    level: ClassVar[int] = logging.WARNING
    fingerprint: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class BatchStarted(TenureEvent):
    """A batch is given to the handler."""

    name: ClassVar[str] = "batch_started"
    level: ClassVar[int] = logging.DEBUG
    batch_id: str
    rows: int
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class BatchCommitted(TenureEvent):
    """The handler succeeded and the checkpoint moved."""

    name: ClassVar[str] = "batch_committed"
    level: ClassVar[int] = logging.DEBUG
    batch_id: str
    rows: int
    cursor: str
    handler_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class HandlerFailed(TenureEvent):
    """A call of the handler failed, or named rows that did; what is not done comes again. `key`: of the row that
    failed, if one alone did, or of the first that was named, as `batch.key` says it. `failed`: how many rows were
    named; null if the whole call failed. `trace`: its traceback, from the handler's own code on, without secrets;
    null where `error_text` is false, or there is none."""

    name: ClassVar[str] = "handler_failed"
    level: ClassVar[int] = logging.ERROR
    batch_id: str
    attempt: int
    error: str
    trace: str | None = None
    key: str | None = None
    failed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class RowSetAside(TenureEvent):
    """A row was passed without success: it is retried automatically (failures 4), or follows one that is (`behind`).
    `row` is its id, by which `poller quarantine` takes it, `key` what `batch.key` says of it, if it is known."""

    name: ClassVar[str] = "row_set_aside"
    level: ClassVar[int] = logging.WARNING

    row: str
    behind: bool
    error: str | None
    key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class RowDeliveredLater(TenureEvent):
    """A row that had been set aside was delivered (failures 5)."""

    name: ClassVar[str] = "row_delivered_later"

    row: str
    failures: int
    key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class RowQuarantined(TenureEvent):
    """A row is poison, or its handler rejected it: it waits for a person (failures 5)."""

    name: ClassVar[str] = "row_quarantined"
    level: ClassVar[int] = logging.ERROR

    row: str
    failures: int
    strikes: int
    error: str | None
    key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class HandlerTimedOut(TenureEvent):
    """The handler ran longer than `handler_timeout`: the lease is no longer renewed."""

    name: ClassVar[str] = "handler_timed_out"
    level: ClassVar[int] = logging.ERROR
    batch_id: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class QueryTimedOut(TenureEvent):
    """The query for the next rows did not end at its `query_timeout`: the lease is no longer renewed."""

    name: ClassVar[str] = "query_timed_out"
    level: ClassVar[int] = logging.ERROR
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class PollerHalted(PollerEvent):
    """A row or the pending batch failed too often, or the handler rejected a row; nothing runs until an operator
    resumes."""

    name: ClassVar[str] = "halted"
    level: ClassVar[int] = logging.ERROR
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class AuditFailed(PollerEvent):
    """A record for the audit trail could not be written; work continues without it. `record`: what it says; of an
    operator's change also by whom, and which backup holds what it replaced."""

    name: ClassVar[str] = "audit_failed"
    level: ClassVar[int] = logging.WARNING
    error: str
    record: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Rechecked(PollerEvent):
    """The table was compared with the deliveries within the window: how many rows, and how many of them are late."""

    name: ClassVar[str] = "rechecked"
    level: ClassVar[int] = logging.DEBUG
    compared: int
    late: int
    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class LateRows(PollerEvent):
    """There are rows below the cursor that were never delivered: they appeared after it had passed (a restore, a bulk
    load that keeps old times, a wrong clock). `examples`: the cursors of the first of them."""

    name: ClassVar[str] = "late_rows"
    level: ClassVar[int] = logging.WARNING
    rows: int
    complete: bool
    examples: list[str]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class BoundHeld(PollerEvent):
    """Rows above the bound wait, because something holds it or it is not known yet; once per change of reason."""

    name: ClassVar[str] = "bound_held"
    level: ClassVar[int] = logging.WARNING
    kind: str
    held_by: str | None
    reason: str | None
    age_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class ClockWentBack(PollerEvent):
    """The database's clock is lower than before (a fail-over, a clock that was set): rows wait until it has caught up;
    otherwise they could be skipped."""

    name: ClassVar[str] = "clock_went_back"
    level: ClassVar[int] = logging.WARNING
    clock: str | None
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class ServerBelowCheckpoint(PollerEvent):
    """The database has not reached the checkpoint: it went back (a crash that lost commits, a restore, a fail-over), or
    the checkpoint was set ahead. No row is read; `reason` says what ends this."""

    name: ClassVar[str] = "server_below_checkpoint"
    level: ClassVar[int] = logging.ERROR
    kind: str
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class FactsTaken(PollerEvent):
    """The document did not say what its checkpoint rests on, as those of older versions do not: it rests on the table
    as it is now."""

    name: ClassVar[str] = "facts_taken"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class TieRepeated(PollerEvent):
    """The table was changed, so that rows which share the checkpoint's value may have another order now: they are
    delivered again, from `cursor` on. `reason` says what changed."""

    name: ClassVar[str] = "tie_repeated"
    level: ClassVar[int] = logging.WARNING
    cursor: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class TableReplaced(PollerEvent):
    """Another table has the source's name, and holds the row at the checkpoint: the poller goes on in it. Rows that
    share the checkpoint's value are delivered again, from `cursor` on."""

    name: ClassVar[str] = "table_replaced"
    level: ClassVar[int] = logging.WARNING
    cursor: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class CaptureGapMet(PollerEvent):
    """Changes of a captured table were missed, or may be: the poller stops before them, in every tick, until a person
    says how to go on. `change`: the number of the change before which it stops; None if it is not one change."""

    name: ClassVar[str] = "capture_gap"
    level: ClassVar[int] = logging.ERROR
    change: int | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class TickFinished(PollerEvent):
    """One tick is over; the fields are those of `TickResult`."""

    name: ClassVar[str] = "tick"
    outcome: str
    rows: int
    batches: int
    cursor: str | None
    fencing_token: int | None
    duration_seconds: float
    lag_seconds: float | None
    pending: int | None
    bound: dict[str, Any] | None
    error: str | None
    retry_at: str | None = None
    aside: int | None = None
    quarantined: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class TickFailed(PollerEvent):
    """A tick failed: the store or the database could not be reached, or is not as configured."""

    name: ClassVar[str] = "tick_failed"
    level: ClassVar[int] = logging.ERROR
    error_type: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class TablePruned(PollerEvent):
    """An automatic prune deleted rows of a change table or an outbox, up to the number `through`. `bytes`: of the
    table afterwards, with its indexes; null if the database does not say."""

    name: ClassVar[str] = "pruned"
    table: str
    rows: int
    through: int
    bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class PruneFailed(PollerEvent):
    """An automatic prune was refused, or the database or the store did not answer. Rows are delivered all the same, and
    it is tried again an hour later."""

    name: ClassVar[str] = "prune_failed"
    level: ClassVar[int] = logging.WARNING
    error_type: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class TableLarge(PollerEvent):
    """A change table or an outbox is larger than `warn_size`, after it was pruned."""

    name: ClassVar[str] = "table_large"
    level: ClassVar[int] = logging.WARNING
    table: str
    bytes: int
    warn_size: int


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class TwoApps(PollerEvent):
    """Another configuration works under this `app_name` and in this store, for longer than a deployment takes: two apps
    were given one name, or some processes have an old configuration. Each takes the other's leases, and drops work
    messages for pollers that it does not have. `only_there`: those pollers; `poller`: one of ours."""

    name: ClassVar[str] = "two_apps"
    level: ClassVar[int] = logging.WARNING
    app: str
    since: datetime
    only_there: list[str]
    error: str


Observer: TypeAlias = Callable[[PollerEvent], None]


class Emitter:
    """Passes each event to every observer, whatever the others do."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = tuple(observers)

    def __call__(self, event: PollerEvent) -> None:
        """Emit one event. Raises nothing."""
        for observer in self._observers:
            try:
                observer(event)
            except Exception as error:  # noqa: BLE001 - whatever an observer raises
                log_failure(event.poller, f"An observer failed on the event {event.name}; the poller continues.", error)


raised: ContextVar[bool] = ContextVar("poller_raised", default=False)
"""True if the caller of the tick raises its failure again, so that its host logs it with its traceback: then the log
has it only once (see `log_events`)."""


def log_events(event: PollerEvent) -> None:
    """The default observer: one record per event through the logger `poller.<name>`, fields as `extra`. A handler's
    traceback follows in the same record. Failures that are `raised` are warnings without one."""
    data = event.as_json()
    trace = data.pop("trace", None)
    data = each_text(data, shown)
    name = data.pop("event")
    poller = data.pop("poller")
    data.pop("at")
    lines = " ".join([name, *(f"{k}={v}" for k, v in data.items() if v is not None and k != "owner_id")])
    if isinstance(trace, str):
        data["trace"] = escape_lines(trace)
        lines += "" if raised.get() else f"\n{trace}"
    level = min(event.level, logging.WARNING) if raised.get() else event.level
    logging.getLogger(f"poller.{poller}").log(
        level, "%s", escape_lines(lines, f"{poller}: "), extra={"poller_event": data}
    )


def log_failure(poller: str, text: str, error: BaseException) -> None:
    """Log an error that ends nothing, with its traceback in the same record, each line with the poller's name."""
    with suppress(Exception):  # logging to a closed stream raises, and so may an error's `__str__`
        trace = "".join(traceback.format_exception(error)).rstrip()
        logger.error("%s", escape_lines(shortened(f"{text}\n{trace}", LONGEST_LOGGED), f"{poller}: "))
