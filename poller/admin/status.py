"""Where a poller stands: its document by one read, what waits by a few queries. Nothing is written, no lease is taken.

The models are what `poller status --json` prints of one poller.
"""

from __future__ import annotations

import contextlib
from datetime import datetime
from typing import Any, Self, TypeVar

from pydantic import PrivateAttr

from poller.admin.failing import FailingOutput, failing, with_row
from poller.admin.health_facts import facts_of, rows_of, rule_of
from poller.admin.kept_health import seen_before
from poller.admin.wired import WiredPoller, operator_of
from poller.delivery.ordering import check_ordering_key
from poller.delivery.preflight import check_fingerprint, reads_of
from poller.delivery.result import BoundOutput
from poller.delivery.watches import PENDING_CAP
from poller.errors import PollerError, SourceError, SourceUnavailable
from poller.lease.state_file import Copy
from poller.model.changes import cancelled_worker, kept_by
from poller.model.cursor import Cursor
from poller.model.document import DeliveryError
from poller.model.health import judge
from poller.model.health_memory import Facts, remembered
from poller.model.redact import error_line
from poller.model.result import ResultModel
from poller.model.stamps import Stamp
from poller.ports import InspectableSource, Lag


class LeaseOutput(ResultModel):
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
    """How long that was ago, by the store's clock; null where nobody holds the lease, or where the store gives no
    time."""


class ControlOutput(ResultModel):
    """Who paused or halted the poller, why and when."""

    by: str | None = None
    reason: str | None = None
    at: Stamp | None = None
    cancelled: bool = False
    """The worker that holds the lease was cancelled: nothing of the batch in hand is committed."""


class PollerStatus(ResultModel):
    """One poller's place."""

    name: str
    app_name: str
    document: str
    """Where its state is kept."""
    exists: bool | None = None
    """Whether the state document is there; before the first tick it is not. Null where the store did not say, or what
    stands there could not be read."""
    paused: bool | None = None
    """An operator stopped it; null where it is not known."""
    halted: bool | None = None
    """A batch failed too often; an operator must resume. Null where it is not known."""
    control: ControlOutput = ControlOutput()
    cursor: Cursor | None = None
    """Everything up to here was delivered; of a poller that never ran, where it will start. Null is the beginning; with
    `lease.fencing_token` null too, or where `exists` is false and `error` is set, it is not known."""
    checkpoint_updated_at: Stamp | None = None
    """When it moved last, by the store's clock."""
    last_successful_batch_id: str | None = None
    lease: LeaseOutput = LeaseOutput()
    lag_seconds: float | None = None
    """Age of the oldest row not yet delivered, by the database's clock."""
    pending: int | None = None
    """Rows not yet delivered, counted up to a cap; null where they were not counted."""
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
    failing: FailingOutput = FailingOutput()
    stalled_seconds: float | None = None
    """For so long rows that may be read, or that were set aside and may be tried again, have waited for a tick, since
    the first moment of the schedule from which that is so, and nothing was committed. Null where none waits, where that
    moment is to come, where a person paused the poller or a worker is at work, and where it is not known since when
    they have waited."""
    error: str | None = None
    """What kept this status from being complete: an unreachable store or database, a changed source."""
    _failure: Exception | None = PrivateAttr(default=None)
    _seen_at: datetime | None = PrivateAttr(default=None)

    @property
    def seen_at(self) -> datetime | None:
        """When its document was read, by the store's clock: ages count from here. None where none was read."""
        return self._seen_at

    @property
    def failure(self) -> Exception | None:
        """The exception behind `error`: a `PollerError`, or a fault in poller."""
        return self._failure

    def failed(self, failure: Exception) -> Self:
        """This status, ended by an exception."""
        error = str(failure) if isinstance(failure, PollerError) else _fault(failure)
        status = self.model_copy(update={"error": error})
        status._failure = failure
        return status


S = TypeVar("S", bound=PollerStatus)

_NEVER_RAN = {
    "exists": False,
    "paused": False,
    "halted": False,
    "lease": LeaseOutput(fencing_token=0, live=False),
    "attempts": 0,
    "failing": FailingOutput(failures=0, aside=0, quarantined=0),
}


def look(poller: WiredPoller, *, null_cursors: bool = True, silent: SourceUnavailable | None = None) -> PollerStatus:
    """The status of one poller. Raises nothing that is an Exception: what ended the look stands in `error` and
    `failure`, and what was found before it stands beside them.

    `null_cursors`: also count rows without a cursor, for which a table without an index on it is read as a whole.
    `silent`: why the database is not asked.
    """
    operator = operator_of(poller, "status")
    status = PollerStatus(name=poller.name, app_name=poller.app_name, document=operator.file.location)
    try:
        copy = operator.file.read()
        if copy is None:
            status = status.model_copy(update={"exists": False})
            copy = operator.file.read_unless_deleted()
        if copy is None:
            status = status.model_copy(update=_NEVER_RAN)
            start = None if silent is not None else poller.source.start()
            status = status.model_copy(update={"cursor": start})
        else:
            status = with_document(status, copy, poller)
            check_fingerprint(poller.name, copy.state, poller.source)
            check_ordering_key(poller.name, copy.state, poller.source, poller.options.ordering_key)
            poller.source.recall(copy.state.bound or {})
        if silent is not None:
            raise silent
        with reads_of(poller.name, None if copy is None else copy.state, poller.source):
            status = _rows(status, poller, null_cursors=null_cursors)
        if copy is not None:  # by now the server was asked what the names in the configuration mean
            check_fingerprint(poller.name, copy.state, poller.source)
        return _bound(status, poller, copy, operator.file.clock.now())
    except Exception as error:  # noqa: BLE001 - one poller's trouble must not hide another's
        return status.failed(error)


def _fault(error: Exception) -> str:
    return f"{type(error).__name__}: {error_line(error)}. This is a fault in poller; poller check may show more."


def with_document(status: S, copy: Copy, poller: WiredPoller) -> S:
    """The status with what a document says. `poller`: by whose options and clock its lease is judged."""
    state = copy.state
    available = copy.availability(poller.options.timing, poller.runtime.monotonic())
    now = copy.server_time or poller.runtime.utcnow()
    found = status.model_copy(
        update={
            "exists": True,
            "paused": state.control.paused,
            "halted": state.control.halted,
            "control": ControlOutput(
                by=state.control.by,
                reason=state.control.reason,
                at=state.control.at,
                cancelled=not available.free and cancelled_worker(state) is not None,
            ),
            "cursor": state.checkpoint.cursor,
            "checkpoint_updated_at": state.checkpoint.updated_at,
            "last_successful_batch_id": state.checkpoint.last_successful_batch_id,
            "lease": LeaseOutput(
                heartbeat_age_seconds=_heartbeat_age(copy),
                owner_id=state.lease.owner_id,
                kept_by=kept_by(state),
                fencing_token=state.lease.fencing_token,
                live=not available.free,
                expires_in_seconds=None if available.free else available.expires_in,
                acquired_at=state.lease.acquired_at,
                heartbeat_at=state.lease.heartbeat_at,
            ),
            "attempts": state.delivery.attempts,
            "last_error": state.delivery.last_error,
            "failing": failing(state, poller.options, now),
        }
    )
    found._seen_at = now
    return found


def _heartbeat_age(copy: Copy) -> float | None:
    lease = copy.state.lease
    if lease.owner_id is None or lease.heartbeat_at is None or copy.server_time is None:
        return None
    return max(0.0, (copy.server_time - lease.heartbeat_at).total_seconds())


def _rows(status: PollerStatus, poller: WiredPoller, *, null_cursors: bool) -> PollerStatus:
    """What waits, and what will never be read. Raises: SourceError."""
    lag = poller.source.lag(status.cursor, cap=PENDING_CAP)
    counts = {"lag_seconds": lag.seconds, "pending": lag.pending, "pending_capped": lag.pending_capped}
    if null_cursors and isinstance(poller.source, InspectableSource):
        with contextlib.suppress(SourceError):  # too many to count in time: the rest is shown all the same
            count = poller.source.null_cursors(PENDING_CAP + 1)
            counts |= {"null_cursors": min(count, PENDING_CAP), "null_cursors_capped": count > PENDING_CAP}
    return status.model_copy(update=counts)


def _bound(status: PollerStatus, poller: WiredPoller, copy: Copy | None, now: datetime) -> PollerStatus:
    """Below what rows are read, whether all that wait stand above it, for how long others have waited, and whether the
    first of them is the one that fails. `now`: by the store's clock. Raises: SourceError."""
    page = poller.source.page(status.cursor, 1)
    bound = BoundOutput.model_validate(page.bound, from_attributes=True)
    first = page.cursors[0] if page.cursors else None
    alone, most = status.pending == 1 or poller.options.batch_size == 1, poller.options.max_attempts
    known = with_row(status.failing, first, alone=alone, max_attempts=most)
    above = bool(status.pending) and not page.rows
    found: dict[str, Any] = {"bound": bound, "above_bound": above, "failing": known}
    if copy is not None:
        rows = rows_of(page, Lag(status.lag_seconds, status.pending or 0))
        found["stalled_seconds"] = _stalled(facts_of(copy, poller, now, rows), poller)
    return status.model_copy(update=found)


def _stalled(facts: Facts, poller: WiredPoller) -> float | None:
    """By the rule of health. A number does not say when its row came: what looks at the health remember does."""
    before, rows = None, facts.rows
    if rows is not None and rows.readable and rows.age is None:
        before = seen_before(poller.store, poller.app_name, poller.name)
        if before is None:
            return None
    verdict = judge(facts, rule_of(poller), remembered(before, facts))
    return verdict.stalled if verdict.kind in {"due", "late", "max_lag", "not_retried"} else None
