"""Whether pollers are healthy, as whoever asks computes it: from documents and databases, not from what runs here.

An idle tick writes nothing, so that "no timer fires any more" looks like "no rows" to everything that waits for a sign
of life. What is computed here is right though every timer is frozen and every worker is dead. The rule is
`poller.model.health`. Nothing here holds a row, a key, a cursor, a URL or the value of a setting: it is shown to people
who may not read the table.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Self

from pydantic import Field, PrivateAttr

from poller.model.result import ResultModel
from poller.model.stamps import Stamp


class HealthBound(ResultModel):
    """Below what rows are read, without its value."""

    kind: str
    """How it was found: exact, observed, observed-strict, heuristic, none."""
    age_seconds: float | None = None
    """How far it lies behind the database's clock."""
    held_by: str | None = None
    """Which transaction holds it back, if one does."""
    held_seconds: float | None = None
    """For how long at least rows have waited above it; null where none waits, or where that is not known."""
    below_checkpoint: bool = False
    """Whether the server has not come as far as the checkpoint, so that no row is read."""


class PollerHealth(ResultModel):
    """One poller's health."""

    name: str
    healthy: bool
    reason: str | None = None
    """Why it is unhealthy, in one sentence; null where it is healthy."""
    next_step: str | None = None
    """What to do then: a command, or a sentence."""
    waiting_for: str | None = None
    """What a poller waits for that does not work now, in one sentence: a person who paused it, its schedule, the end of
    a pause after a failure, an open transaction, its next tick; null where nothing waits."""
    late_seconds: float | None = None
    """How long ago the first moment of its schedule was at which the oldest row that may be read should have been
    delivered; null where no row waits, or where that moment is still to come."""
    lag_seconds: float | None = None
    """Age of the oldest row not yet delivered, by the database's clock."""
    pending: int | None = None
    """Rows not yet delivered, counted up to a cap; null where they were not counted."""
    pending_capped: bool = False
    """There are at least so many."""
    bound: HealthBound | None = None
    """Null where it was not asked for: where nothing waits that is done every few minutes only."""
    exists: bool | None = None
    """Whether it has a state document; before the first tick it has none. Null where that is not known."""
    paused: bool | None = None
    """An operator stopped it; null where it is not known."""
    halted: bool | None = None
    """A row failed too often; an operator must resume. Null where it is not known."""
    backing_off_until: Stamp | None = None
    """After a call that failed: no call is made before, by the store's clock."""
    aside: int | None = None
    """Rows set aside, which are tried again by themselves."""
    aside_due: int | None = None
    """How many of them may be tried now: work for a worker, beside `pending`."""
    quarantined: int | None = None
    """Rows that wait for a person."""
    owner_id: str | None = None
    """Who holds the lease and is at work; null where nobody does."""
    last_commit: Stamp | None = None
    """When the checkpoint moved last, or was made, by the store's clock."""
    error: str | None = None
    """What kept this look from being complete: the store, the database, the configuration, a changed source."""
    _failure: Exception | None = PrivateAttr(default=None)

    @property
    def failure(self) -> Exception | None:
        """The exception behind `error`; None in a health that was kept."""
        return self._failure

    def because_of(self, failure: Exception) -> Self:
        """The same, with the exception that ended the look."""
        self._failure = failure
        return self


class HealthWarning(ResultModel):
    """Something wrong with the application as a whole, though its pollers work."""

    condition: str
    """Which: `two_apps`; `unlisted`: only the worst of the pollers are in `pollers`."""
    sentence: str
    """What it is."""
    next_step: str
    """What to do."""


class Health(ResultModel):
    """The health of an application's pollers."""

    app_name: str
    healthy: bool
    """Whether all of them are."""
    computed_at: Stamp
    """When, by the store's clock where it has one."""
    pollers: list[PollerHealth] = Field(default_factory=list)
    """The worst first: unhealthy ones, the latest of them first."""
    warnings: list[HealthWarning] = Field(default_factory=list)
    """What makes no poller unhealthy."""


def worst_first(app_name: str, computed_at: datetime, pollers: Iterable[PollerHealth]) -> Health:
    """The health of an application whose pollers were looked at."""
    ordered = sorted(pollers, key=lambda one: (one.healthy, -(one.late_seconds or 0.0), one.name))
    healthy = all(one.healthy for one in ordered)
    return Health(app_name=app_name, healthy=healthy, computed_at=computed_at, pollers=ordered)
