"""The health of pollers, as the process that is asked computes it: from documents and databases, not from what
runs here.

An idle tick writes nothing, so that "no timer fires any more" looks like "no rows" to everything that waits for a sign
of life. What is computed here is right though every timer is frozen and every worker is dead. It is the public half of
each poller's picture (`poller.model.conditions`): no row, no key, no cursor, no place and no text of an error, since it
is shown to people who may not read the table.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Self

from pydantic import Field, PrivateAttr

from poller.admin.status import ConditionOutput, PollerStatus, rank
from poller.model.result import ResultModel
from poller.model.stamps import Stamp
from poller.model.view import Severity


class HealthBound(ResultModel):
    """Below what rows are read, without its value."""

    kind: str
    """How it was found: exact, observed, observed-strict, heuristic, none."""
    age_seconds: float | None = None
    """How far it lies behind the database's clock."""
    held_by: str | None = None
    """Which transaction holds it back, if one does."""
    below_checkpoint: bool = False
    """True if the server has not come as far as the checkpoint, so that no row is read."""


class PollerHealth(ResultModel):
    """One poller's health."""

    name: str
    healthy: bool
    """True if `severity` is not `unhealthy`."""
    word: str
    """The name of the first condition."""
    severity: Severity
    """`well`, `warning` or `unhealthy`: of the worst condition."""
    sentence: str
    """What the first condition says."""
    next_step: str | None = None
    """The first step that any condition names: a command, or a sentence; null if nothing is to be done."""
    conditions: list[ConditionOutput]
    """All that is so, the worst first."""
    late_seconds: float | None = None
    """The time since the first moment of its schedule at which a tick should have delivered the oldest row that may be
    read; null if no row waits, or if that moment is still to come."""
    lag_seconds: float | None = None
    """Age of the oldest row not yet delivered, by the database's clock."""
    pending: int | None = None
    """Rows not yet delivered, counted up to a cap; null if they were not counted."""
    pending_capped: bool = False
    """True if there are at least `pending`."""
    bound: HealthBound | None = None
    """Null if it was not asked for: if nothing waits, that is done every few minutes only."""
    exists: bool | None = None
    """True if it has a state document; before the first tick it has none. Null if that is not known."""
    paused: bool | None = None
    """An operator stopped it; null if that is not known."""
    halted: bool | None = None
    """A row failed too often; an operator must resume. Null if that is not known."""
    error_type: str | None = None
    """The class of the error with which a call failed; null if none did, or if its text is not a class's name."""
    backing_off_until: Stamp | None = None
    """After a call that failed: no call is made before, by the store's clock."""
    aside: int | None = None
    """Rows set aside, which are tried again automatically."""
    aside_due: int | None = None
    """The number of them that may be tried now: work for a worker, beside `pending`."""
    quarantined: int | None = None
    """Rows that wait for a person."""
    owner_id: str | None = None
    """The worker that holds the lease; null if none does."""
    committed_at: Stamp | None = None
    """When the last batch was committed, by the store's clock; null if none was since the checkpoint was created or
    moved."""
    moved_at: Stamp | None = None
    """When an operator moved the checkpoint, unless another change came after that."""
    _failure: Exception | None = PrivateAttr(default=None)

    @property
    def failure(self) -> Exception | None:
        """The exception that ended the look; None if it was complete."""
        return self._failure

    @classmethod
    def of(cls, status: PollerStatus) -> Self:
        """What of a status anybody may see."""
        failing, bound, first = status.failing, status.bound, status.conditions[0]
        public = [ConditionOutput(**one.model_dump(exclude={"detail", "do"})) for one in status.conditions]
        worker = status.lease.live and status.lease.kept_by is None
        found = cls(
            name=status.name,
            healthy=status.severity != "unhealthy",
            word=status.word,
            severity=status.severity,
            sentence=first.sentence,
            next_step=next((one.next_step for one in status.conditions if one.next_step), None),
            conditions=public,
            late_seconds=status.late_seconds,
            lag_seconds=status.lag_seconds,
            pending=status.pending,
            pending_capped=status.pending_capped,
            bound=None if bound is None else HealthBound(**bound.model_dump(exclude={"value", "reason"})),
            exists=status.exists,
            paused=status.paused,
            halted=status.halted,
            error_type=status.error_type,
            backing_off_until=failing.retry_at,
            aside=failing.aside,
            aside_due=failing.aside_due,
            quarantined=failing.quarantined,
            owner_id=status.lease.owner_id if worker else None,
            committed_at=status.committed_at,
            moved_at=status.moved_at,
        )
        found._failure = status.failure
        return found


class Health(ResultModel):
    """The health of an application's pollers."""

    app_name: str
    healthy: bool
    """True if all of them are."""
    computed_at: Stamp
    """When, by the store's clock if it has one."""
    pollers: list[PollerHealth] = Field(default_factory=list)
    """The worst first."""


def worst_first(app_name: str, computed_at: datetime, pollers: Iterable[PollerStatus]) -> Health:
    """The health of an application whose pollers were looked at."""
    found = [PollerHealth.of(one) for one in sorted(pollers, key=rank)]
    healthy = all(one.healthy for one in found)
    return Health(app_name=app_name, healthy=healthy, computed_at=computed_at, pollers=found)
