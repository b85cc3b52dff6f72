"""The result of one tick. Outcomes are values; what could not be tried at all is an exception."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from poller.model.cursor import Cursor
from poller.ports import Bound

Outcome: TypeAlias = Literal[
    "idle",
    "delivered",
    "held_elsewhere",
    "paused",
    "lease_lost",
    "handler_failed",
    "commit_unknown",
    "halted",
]
OUTCOMES: tuple[str, ...] = get_args(Outcome)
SUCCESSES = frozenset({"idle", "delivered", "held_elsewhere"})
"""Outcomes under which everything is as it should be: `run --once` exits 0, a Functions timer returns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TickResult:
    """One tick's result.

    Attributes:
        outcome: `idle` (no rows), `delivered`, `held_elsewhere` (another owner is at work), `paused`, `halted`,
            `handler_failed` (the batch will come again), `lease_lost` (another may have taken over; the batch will
            come again), `commit_unknown` (the store did not answer in time; the next tick reads the truth).
        rows, batches: how much was delivered and committed in this tick.
        cursor: where the checkpoint stands as far as this tick knows.
        fencing_token: of this tick's tenure, or of the document where it took none; None before the first document.
        duration_seconds: how long the tick took.
        lag_seconds: age of the oldest row not yet delivered, by the database's clock; None where it is not known.
        pending: how many rows are not yet delivered, counted up to a cap; None where it is not known.
        bound: below what rows were read.
        error: one line, for `handler_failed`, `lease_lost`, `commit_unknown`, `halted`, `paused` and `held_elsewhere`.
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
    exception: BaseException | None = field(default=None, repr=False, compare=False)
    trace: str | None = field(default=None, repr=False, compare=False)

    @property
    def ok(self) -> bool:
        """Whether everything is as it should be."""
        return self.outcome in SUCCESSES

    def as_json(self) -> dict[str, Any]:
        """As `--json` prints it and `schemas/tick-result.schema.json` describes it."""
        return {
            "outcome": self.outcome,
            "rows": self.rows,
            "batches": self.batches,
            "cursor": None if self.cursor is None else self.cursor.model_dump(mode="json"),
            "fencing_token": self.fencing_token,
            "duration_seconds": round(self.duration_seconds, 6),
            "lag_seconds": self.lag_seconds,
            "pending": self.pending,
            "bound": bound_as_json(self.bound),
            "error": self.error,
        }


def bound_as_json(bound: Bound | None) -> dict[str, Any] | None:
    """The bound in force as `--json` prints it: `kind`, `value`, `age_seconds`, `held_by`, `reason`,
    `below_checkpoint`."""
    if bound is None:
        return None
    return {
        "kind": bound.kind,
        "value": bound.value,
        "age_seconds": bound.age_seconds,
        "held_by": bound.held_by,
        "reason": bound.reason,
        "below_checkpoint": bound.below_checkpoint,
    }
