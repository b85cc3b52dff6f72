"""The result of one tick. Outcomes are values; what could not be tried at all is an exception."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias

from pydantic import Field

from poller.model.cursor import Cursor
from poller.model.result import ResultModel
from poller.model.stamps import Stamp
from poller.ports import Bound

Outcome: TypeAlias = Literal[
    "idle",
    "delivered",
    "held_elsewhere",
    "paused",
    "lease_lost",
    "handler_failed",
    "backing_off",
    "blocked",
    "commit_unknown",
    "halted",
]
SUCCESSES = frozenset({"idle", "delivered", "held_elsewhere"})
"""Outcomes under which everything is as it should be: `run --once` exits 0, a Functions timer returns."""
HELD_FOR = 60.0
"""Seconds behind the database's clock from which on a bound that a transaction holds keeps rows from their moment."""


class BoundOutput(ResultModel):
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
    """True if the server has not come as far as the checkpoint: it went back, or the checkpoint was put ahead. No row
    is read until the checkpoint is moved."""


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
    """The time it took."""
    lag_seconds: float | None
    """Age of the oldest row not yet delivered, by the database's clock."""
    pending: int | None
    """Rows not yet delivered, counted up to a cap."""
    bound: BoundOutput | None
    """Below what rows were read."""
    error: str | None
    """One line, if the outcome has a reason."""
    retry_at: Stamp | None = None
    """After a call that failed: no call is made before, by the store's clock."""
    aside: int | None = Field(default=None, ge=0)
    """Rows set aside, which are retried automatically; null if it is not known."""
    quarantined: int | None = Field(default=None, ge=0)
    """Rows that wait for a person; null if it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TickResult:
    """One tick's result.

    Attributes:
        outcome: `idle` (no rows), `delivered`, `held_elsewhere` (another owner is at work), `paused`, `halted`,
            `handler_failed` (a call failed; what was not done comes again), `backing_off` (a call failed, and the next
            one waits for its time), `blocked` (a row has to wait, and as many as may wait do), `lease_lost` (another
            may have taken over; the batch comes again), `commit_unknown` (the store did not answer in time; the next
            tick reads the truth).
        rows, batches: how much was delivered and committed in this tick.
        cursor: where the checkpoint stands as far as this tick knows.
        fencing_token: of this tick's tenure, or of the document where it took none; None before the first document.
        duration_seconds: how long the tick took.
        lag_seconds: age of the oldest row not yet delivered, by the database's clock; None if it is not known.
        pending: how many rows are not yet delivered, counted up to a cap; None if it is not known.
        bound: below what rows were read.
        error: one line, for each outcome but `idle` and `delivered`.
        retry_at: after a call that failed (`handler_failed`, `backing_off`), when the next one may be made, by the
            store's clock; None if it may be made at once.
        aside: how many rows are set aside and retried automatically, those that follow one of them included; None
            where it is not known.
        quarantined: how many rows wait for a person; None if it is not known.
        failing_row: after a call that failed, what `batch.key` says of the row that failed, if that is known; not
            part of the JSON, where `error` names it.
        next_command: words of the `poller` command by which a person gets past that row, or sees it among those that
            wait; empty if there is none. Not part of the JSON.
        left: whether the tick ended for lack of time, or after `max_batches_per_tick`, with rows left that it could
            have delivered; not part of the JSON.
        exception: what the handler raised, for the caller that wants to raise it again; not part of the JSON.
        trace: its traceback, without secrets; None where `error_text` is off. Not part of the JSON either.
    """

    outcome: Outcome
    rows: int = 0
    batches: int = 0
    cursor: Cursor | None = None
    fencing_token: int | None = None
    duration_seconds: float = 0.0
    lag_seconds: float | None = None
    pending: int | None = None
    bound: Bound | None = None
    error: str | None = None
    retry_at: datetime | None = None
    aside: int | None = None
    quarantined: int | None = None
    failing_row: str | None = None
    next_command: tuple[str, ...] = ()
    left: bool = False
    exception: BaseException | None = field(default=None, repr=False, compare=False)
    trace: str | None = field(default=None, repr=False, compare=False)

    @property
    def ok(self) -> bool:
        """True if everything is as it should be."""
        return self.outcome in SUCCESSES

    @property
    def held_up(self) -> bool:
        """True if rows wait above a bound that is held back: a tick finds them once the bound has passed them."""
        return self.bound is not None and self.pending != 0 and is_held_back(self.bound)

    def as_json(self) -> dict[str, Any]:
        """As `TickOutput` and `schemas/tick-result.schema.json` describe it."""
        output = TickOutput.model_validate(self, from_attributes=True)
        return {**output.model_dump(mode="json"), "duration_seconds": round(self.duration_seconds, 6)}


def is_held_back(bound: Bound) -> bool:
    """True if a transaction holds the bound back for `HELD_FOR` or for an unknown time, or the database's clock does.
    The usual distance of a bound, and a configured delay, are none."""
    if bound.clock_went_back:
        return True
    return bound.held_by is not None and (bound.age_seconds is None or bound.age_seconds >= HELD_FOR)
