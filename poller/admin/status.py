"""Where a poller stands, and its picture (`poller.admin.look`).

The models are what `poller status --json` prints of one poller.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Self, TypeVar

from pydantic import Field, PrivateAttr

from poller.admin.failing import FailingOutput, failing
from poller.admin.wired import WiredPoller
from poller.errors import PollerError
from poller.lease.state_file import Copy
from poller.model.changes import kept_by
from poller.model.conditions import worse
from poller.model.cursor import Cursor
from poller.model.document import DeliveryError
from poller.model.redact import error_line
from poller.model.result import ResultModel
from poller.model.stamps import Stamp
from poller.model.view import TABLE, PollerFacts, PollerView, Severity
from poller.tick.result import BoundOutput


class LeaseOutput(ResultModel):
    """Who works. Where the state document was not read, nothing of it is known."""

    owner_id: str | None = None
    """Null where no worker holds the lease, or where it is not known."""
    kept_by: str | None = None
    """The operator for whom the lease is reserved without a worker, after `--break-lease`; null for a worker's
    lease."""
    fencing_token: int | None = None
    """Grows with every acquisition and every reset; null if it is not known."""
    live: bool | None = None
    """True if another must keep away; null if it is not known."""
    expires_in_seconds: float | None = None
    """When it may be taken over, if it is not renewed."""
    acquired_at: Stamp | None = None
    """The moment since which, by the store's clock."""
    heartbeat_at: Stamp | None = None
    """Last renewal, by the store's clock."""
    heartbeat_age_seconds: float | None = None
    """The time since then, by the store's clock; null where no worker holds the lease, or where the store gives no
    time."""


class ControlOutput(ResultModel):
    """Who paused or halted the poller, why and when."""

    by: str | None = None
    reason: str | None = None
    at: Stamp | None = None
    cancelled: bool = False
    """The worker that holds the lease was cancelled: nothing of the batch in hand is committed."""


class ConditionOutput(ResultModel):
    """One thing that is so; docs/health.md lists them all."""

    name: str
    severity: Severity
    """`well`, `warning` or `unhealthy`."""
    sentence: str
    next_step: str | None = None
    """A command, or a sentence; null if nothing is to be done."""
    since: Stamp | None = None
    """By the store's clock; null if that is not known."""


class OperatorsCondition(ConditionOutput):
    """The same, with what only an operator may see."""

    detail: str | None = None
    """The error, and the row that fails."""
    do: str | None = None
    """What to do, with the row's key or what a database needs."""


class PollerStatus(ResultModel):
    """One poller's place."""

    name: str
    app_name: str
    word: str = "unasked"
    """The name of the first condition."""
    severity: Severity = "well"
    """The severity of the worst condition: nothing else decides whether a poller is healthy."""
    conditions: list[OperatorsCondition] = Field(default_factory=list)
    """All that is so, the worst first; never empty."""
    document: str
    """Where its state is kept."""
    exists: bool | None = None
    """True if the state document is there; before the first tick it is not. Null where the store did not say, or what
    is there could not be read."""
    paused: bool | None = None
    """An operator stopped it; null if it is not known."""
    halted: bool | None = None
    """A batch failed too often; an operator must resume. Null where it is not known."""
    control: ControlOutput = ControlOutput()
    cursor: Cursor | None = None
    """Everything up to here was delivered; of a poller that never ran, its start. Null is the beginning; with
    `lease.fencing_token` null too, or where `exists` is false and `error` is set, it is not known."""
    checkpoint_updated_at: Stamp | None = None
    """When it moved last, by the store's clock: by a commit, a reset, or when it was created."""
    committed_at: Stamp | None = None
    """When the last batch was committed; null if none was since the checkpoint was created or moved."""
    moved_at: Stamp | None = None
    """When an operator moved the checkpoint, unless another change came after that."""
    last_successful_batch_id: str | None = None
    lease: LeaseOutput = LeaseOutput()
    lag_seconds: float | None = None
    """Age of the oldest row not yet delivered, by the database's clock."""
    pending: int | None = None
    """Rows not yet delivered, counted up to a cap; null if they were not counted."""
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
    """The times that the current batch was started; null if it is not known."""
    last_error: DeliveryError | None = None
    """How it last failed."""
    failing: FailingOutput = FailingOutput()
    late_seconds: float | None = None
    """The time since the first moment of the schedule at which a tick should have delivered the oldest row that may be
    read; null if no row waits, or if that moment is still to come."""
    error: str | None = None
    """What kept this status from being complete: an unreachable store or database, a changed source."""
    _failure: Exception | None = PrivateAttr(default=None)
    _seen_at: datetime | None = PrivateAttr(default=None)
    _error_type: str | None = PrivateAttr(default=None)
    _starts_now: bool = PrivateAttr(default=False)

    @property
    def seen_at(self) -> datetime | None:
        """When its document was read, by the store's clock: ages count from here. None if none was read."""
        return self._seen_at

    @property
    def starts_now(self) -> bool:
        """True if it never ran, and delivers no row that comes before its first tick (`start_from = "now"`)."""
        return self._starts_now

    @property
    def error_type(self) -> str | None:
        """The class of the error with which a call failed, as the picture says."""
        return self._error_type

    @property
    def failure(self) -> Exception | None:
        """The exception behind `error`: a `PollerError`, or a fault in poller."""
        return self._failure

    def unborn(self, *, starts_now: bool) -> Self:
        """With what is so before the first tick."""
        status = self.model_copy(update=_NEVER_RAN)
        status._starts_now = starts_now
        return status

    def pictured(self, view: PollerView) -> Self:
        """With its picture."""
        found = [
            OperatorsCondition(
                name=one.name,
                severity=one.severity,
                sentence=one.sentence,
                next_step=one.next,
                since=one.since,
                detail=one.detail,
                do=one.do,
            )
            for one in view.conditions
        ]
        known: dict[str, Any] = {
            "word": view.word,
            "severity": view.severity,
            "conditions": found,
            "late_seconds": view.late,
        }
        if self.halted:  # nothing is searched for until it is resumed
            known["failing"] = self.failing.model_copy(update={"searched_up_to": None})
        status = self.model_copy(update=known)
        status._error_type = view.error_type
        return status

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


def rank(status: PollerStatus) -> tuple[int, int, float, str]:
    """What sorts pollers, the worst first."""
    place = TABLE.index(status.word) if status.word in TABLE else len(TABLE)
    return -worse(status.severity), place, -(status.late_seconds or status.lag_seconds or 0.0), status.name


def _fault(error: Exception) -> str:
    return f"{type(error).__name__}: {error_line(error)}. This is a fault in poller; poller check may show more."


def with_document(status: S, copy: Copy, poller: WiredPoller, facts: PollerFacts) -> S:
    """The status with what a document says; `facts` are what it says too."""
    state = copy.state
    found = status.model_copy(
        update={
            "exists": True,
            "paused": facts.paused,
            "halted": facts.halted,
            "control": ControlOutput(by=facts.by, reason=facts.why, at=state.control.at, cancelled=facts.cancelled),
            "cursor": state.checkpoint.cursor,
            "checkpoint_updated_at": state.checkpoint.updated_at,
            "committed_at": facts.committed_at,
            "moved_at": facts.moved_at,
            "last_successful_batch_id": state.checkpoint.last_successful_batch_id,
            "lease": LeaseOutput(
                heartbeat_age_seconds=None if copy.server_time is None else facts.heartbeat_age,
                owner_id=state.lease.owner_id,
                kept_by=kept_by(state),
                fencing_token=state.lease.fencing_token,
                live=facts.lease_live,
                expires_in_seconds=facts.expires_in,
                acquired_at=state.lease.acquired_at,
                heartbeat_at=state.lease.heartbeat_at,
            ),
            "attempts": facts.attempts,
            "last_error": state.delivery.last_error,
            "failing": failing(state, poller.options, facts),
        }
    )
    found._seen_at = facts.now
    return found
