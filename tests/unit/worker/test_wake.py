"""The looks between two moments of a schedule: laws of the pauses, without a clock."""

from __future__ import annotations

import pytest

from poller import TickResult
from poller.ports import Bound
from poller.tick import Outcome
from poller.worker.course import FIRST, Awake, after_look, ready_in

IDLE, ROW = TickResult(outcome="idle"), TickResult(outcome="delivered", rows=1)


def young(age: float, bound_age: float = 1.0, **about: object) -> TickResult:
    bound = Bound("exact", "2026-04-01", age_seconds=bound_age, **about)  # type: ignore[arg-type]
    return TickResult(outcome="idle", bound=bound, pending=1, lag_seconds=age)


def test_without_a_row_nothing_wakes() -> None:
    assert after_look(None, IDLE, 5.0) is None
    assert after_look(None, TickResult(outcome="delivered", rows=0), 5.0) is None


@pytest.mark.parametrize(
    "outcome",
    ["paused", "halted", "handler_failed", "backing_off", "blocked", "lease_lost", "commit_unknown"],
)
def test_what_is_not_well_is_left_to_the_schedule(outcome: Outcome) -> None:
    assert after_look(Awake(0.0, FIRST), TickResult(outcome=outcome, error="no"), 0.02) is None


def test_another_worker_at_the_lease_counts_as_no_row() -> None:
    assert after_look(Awake(0.0, FIRST), TickResult(outcome="held_elsewhere"), 0.02) == Awake(0.0, 2 * FIRST)


def test_a_row_that_is_too_young_is_read_when_it_is_old_enough() -> None:
    awake = after_look(None, young(0.3), 7.0)
    assert awake is not None
    assert awake.since == 7.0
    assert awake.pause == pytest.approx(0.7)
    assert after_look(None, young(0.995), 7.0) == Awake(7.0, FIRST), "never sooner than the first pause"


@pytest.mark.parametrize(
    "result",
    [
        young(0.3, held_by="a transaction"),
        young(0.3, clock_back=2.0),
        young(0.3, below_checkpoint=True),
        young(3.0),
        TickResult(outcome="idle", pending=1, bound=Bound("exact", "17")),
        TickResult(outcome="idle", pending=0, lag_seconds=0.3, bound=Bound("exact", "1", age_seconds=1.0)),
    ],
    ids=["held", "clock went back", "below the checkpoint", "old enough long ago", "a number", "none waits"],
)
def test_a_row_that_waits_for_something_else_wakes_nothing(result: TickResult) -> None:
    assert ready_in(result) is None
    assert after_look(None, result, 7.0) is None
