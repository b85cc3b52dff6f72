"""Several lanes and rows that fail: which are listed, which come again, and what the others do meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from poller import Batch, Reject, RetryLater
from tests.integration.runner.fakes import Worlds
from tests.integration.runner.laned import LANES, laned


def failing(number: int, how: str) -> Any:
    def then(batch: Batch) -> None:
        for row in batch:
            if row["id"] == number:
                getattr(batch, how)(row, "no such customer")

    return then


@pytest.mark.guarantee(
    "Rows that commit late",
    "With `concurrency` a row that is named as failed is listed before it is passed, and rows that fail again starve"
    " no others",
)
@pytest.mark.parametrize("how", ["fail", "reject"])
def test_a_row_that_is_named_is_listed_before_it_is_passed(worlds: Worlds, how: str) -> None:
    """Another lane goes on meanwhile, and its end may be the last thing that is written."""
    world = laned(worlds, 40, batch_size=1, on_poison="quarantine")
    result = world.world.tick(world.handler(failing(1, how), seconds={2: 5.0}))
    state = world.world.state
    assert (result.outcome, world.checkpoint, world.lost) == ("handler_failed", 40, [])
    assert [row.at for row in (*state.aside, *state.quarantine)] == [1]
    others = [number for number in world.begun if number != 1]
    assert sorted(others) == list(range(2, 41)), "each once"


def test_rows_that_fail_slowly_again_starve_no_others(worlds: Worlds) -> None:
    """Some row aside is always due: each try takes longer than its backoff."""
    options: dict[str, Any] = {"retry_backoff_max": "1s", "max_attempts": 1000}
    world = laned(worlds, 60, batch_size=1, on_poison="quarantine", tick_timeout="1m", handler_timeout="30s", **options)

    def fails(batch: Batch) -> None:
        for row in batch:
            if row["id"] <= 3:
                batch.fail(row, "no such customer")

    for _ in range(12):
        world.world.tick(world.handler(fails, seconds={1: 5.0, 2: 5.0, 3: 5.0}))
    assert (world.checkpoint, world.lost) == (60, [])


SAYS: dict[str, Callable[[Batch, Any], Any]] = {
    "raises": lambda batch, row: _raise(ValueError("no such customer")),
    "fails": lambda batch, row: batch.fail(row, "no such customer"),
    "returns": lambda batch, row: {"batchItemFailures": [{"itemIdentifier": batch.key(row)}]},
    "rejects": lambda batch, row: batch.reject(row, "no such customer"),
    "Reject": lambda batch, row: _raise(Reject(row, "no such customer")),
    "RetryLater": lambda batch, row: _raise(RetryLater("it is down", after="1s")),
}


def _raise(error: Exception) -> None:
    raise error


@pytest.mark.parametrize("says", SAYS)
@pytest.mark.parametrize("mode", ["block", "halt", "quarantine"])
def test_whatever_fails_in_a_lane_nothing_is_lost(worlds: Worlds, says: str, mode: str) -> None:
    """Many rows fail three times, and are well then. What is done never comes again while rows are set aside."""
    world = laned(worlds, 60, customers=20, batch_size=3, on_poison=mode, max_attempts=3, max_aside=30)
    bad, counts = range(1, 61, 4), Counter[int]()

    def then(batch: Batch) -> Any:
        said = None
        for row in batch:
            if row["id"] in bad and counts[row["id"]] < 3:
                counts[row["id"]] += 1
                said = SAYS[says](batch, row) or said
        return said

    for _ in range(60):
        outcome = world.world.tick_when_due(world.handler(then)).outcome
        if outcome == "halted":
            world.world.resume()
    state, done = world.world.state, Counter(row for call in world.calls for row in call.done)
    waits = {(row.cursor.tiebreaker or {})["id"] for row in (*state.aside, *state.quarantine)}
    assert (world.checkpoint, world.lost) == (60, [])
    assert {number for number, _ in done} | waits == set(range(1, 61))
    assert world.overtaken(lambda number: number % 20) == []
    if mode == "quarantine":
        assert max(done.values()) == 1
    else:
        assert not waits


def test_an_outage_counts_once_however_many_lanes_meet_it(worlds: Worlds) -> None:
    world = laned(worlds, 60, on_poison="halt", max_attempts=4)
    down = True

    def then(batch: Batch) -> None:
        if down:
            raise OSError("the other side is down")

    world.world.tick(world.handler(then))
    state = world.world.state
    assert (len(world.calls), state.delivery.failures, state.control.halted) == (LANES, 1, False)
    assert state.delivery.retry_at is not None
    assert (state.delivery.retry_at - world.world.runtime.utcnow()).total_seconds() <= 1
    down = False
    world.world.runtime.sleep(1)
    for _ in range(3):
        world.world.tick(world.handler(then))
    assert (world.checkpoint, world.lost, sorted(world.delivered)) == (60, [], list(range(1, 61)))


def test_a_row_that_can_have_no_record_is_not_passed(worlds: Worlds) -> None:
    """It is too large for one. Those of its call that stand before it are passed, those behind it come again."""
    world = laned(worlds, 60, batch_size=4, on_poison="quarantine")
    world.table.rows[6]["total"] = "x" * 2_000_000
    for _ in range(4):
        assert world.world.tick_when_due(world.handler(failing(7, "fail"))).outcome == "handler_failed"
    assert (world.checkpoint, world.lost, world.world.state.aside) == (6, [], ())
    world.table.rows[6]["total"] = 70
    for _ in range(4):
        world.world.tick_when_due(world.handler())
    assert (world.checkpoint, world.lost, set(world.delivered)) == (60, [], set(range(1, 61)))
