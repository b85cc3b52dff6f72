"""Who works: held, released, expired, and two workers that are never in the handler at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from poller import Batch, TickResult
from poller.observability import (
    LeaseAcquired,
    LeaseTakenOver,
    StaleCommitRefused,
)
from tests.integration.runner.fakes import Worlds, row
from tests.integration.runner.wire import lost_before

TTL, MARGIN = 60.0, 5.0


# --- free or not


def test_a_live_lease_is_respected_without_a_write_or_a_query(worlds: Worlds) -> None:
    world = worlds(rows=5).begun()
    world.take_over()
    world.table.pages.clear()
    result = world.tick()
    assert (result.outcome, result.fencing_token) == ("held_elsewhere", 1)
    assert "other/1" in (result.error or "")
    assert world.wire.counts == (1, 0)
    assert world.table.pages == []
    assert (result.rows, world.delivered) == (0, [])


@pytest.mark.guarantee(
    "One worker at a time",
    "A released lease is taken at once; a drain commits and releases in one write",
)
def test_a_released_lease_is_taken_at_once_by_whoever_comes(worlds: Worlds) -> None:
    world = worlds(rows=5)
    world.tick()
    world.table.rows += [row(6)]
    assert world.tick(worker=world.another()).outcome == "delivered"
    assert world.runtime.monotonic() == 0.0
    assert [event.fencing_token for event in world.emitted(LeaseAcquired)] == [1, 2]
    assert world.emitted(LeaseTakenOver) == []


def test_an_expired_lease_is_taken_over_with_the_next_token(worlds: Worlds) -> None:
    world = worlds(rows=5).begun()
    world.take_over()
    world.runtime.sleep(TTL + MARGIN - 0.1)
    assert world.tick().outcome == "held_elsewhere"
    world.runtime.sleep(0.1)
    result = world.tick()
    assert (result.outcome, result.fencing_token) == ("delivered", 2)
    (event,) = world.emitted(LeaseTakenOver)
    assert (event.previous_owner_id, event.previous_fencing_token, event.fencing_token) == ("other/1", 1, 2)
    assert world.seen[0].attempt == 2, "the batch had been started by the one who vanished"
    *_, entry = world.audit()
    assert (entry["kind"], entry["before"]) == ("takeover", {"owner_id": "other/1", "fencing_token": 1})
    assert entry["after"]["fencing_token"] == 2


# --- two at once


@pytest.mark.parametrize("theirs", [None, 5.0])
def test_another_programs_rewrite_does_not_shorten_a_held_lease(worlds: Worlds, theirs: float | None) -> None:
    """It knows only the documented fields, and leaves `ttl_seconds` out: the next heartbeat is taken for the end."""
    world = worlds(rows=1)
    others: list[str] = []
    another = world.another()

    def handle(batch: Batch) -> None:
        world.change(
            lambda state: state.model_copy(
                update={"lease": state.lease.model_copy(update={"ttl_seconds": theirs, "expires_at": None})}
            )
        )
        world.runtime.sleep(16)
        for _ in range(14):
            world.runtime.sleep(1)
            others.append(world.tick(worker=another).outcome)
        assert batch.remaining() > 0

    assert world.tick(handle).outcome == "delivered"
    assert set(others) == {"held_elsewhere"}


def test_a_vanished_workers_late_commit_changes_nothing(worlds: Worlds) -> None:
    """The first stands still past its ttl (its heartbeats too); the second takes over and finishes; the first wakes."""
    world = worlds(rows=5)
    frozen, other = world.worker, world.another()
    results: list[TickResult] = []

    def handle(batch: Batch) -> None:
        world.take(batch)
        world.wire.write_faults.extend([lost_before] * 1000)
        world.runtime.sleep(TTL + MARGIN)
        world.wire.write_faults.clear()
        results.append(world.tick(worker=other))

    assert world.tick(handle, worker=frozen).outcome == "lease_lost"
    assert results[0].outcome == "delivered"
    assert [(seen.token, seen.attempt) for seen in world.seen] == [(1, 1), (2, 2)]
    assert len(world.emitted(StaleCommitRefused)) == 1
    assert world.state.lease.fencing_token == 2


def test_a_tick_beside_a_running_batch_of_its_process_does_nothing(worlds: Worlds) -> None:
    world = worlds(rows=5)
    second: list[TickResult] = []

    def handle(batch: Batch) -> None:
        world.take(batch)
        world.wire.forget()
        second.append(world.tick())
        assert world.wire.counts == (0, 0)

    assert world.tick(handle).outcome == "delivered"
    assert second[0].outcome == "held_elsewhere"
    assert "this process" in (second[0].error or "")
    assert world.delivered == [1, 2, 3, 4, 5]


def test_the_loser_of_the_race_for_a_lease_looks_again_and_leaves(worlds: Worlds) -> None:
    world = worlds(rows=5).begun()

    def race(do: Callable[[], Any]) -> Any:
        world.take_over()
        return do()

    world.wire.write_faults.append(race)
    result = world.tick()
    assert result.outcome == "held_elsewhere"
    assert world.delivered == []
    assert world.state.lease.owner_id == "other/1"


def test_the_loser_to_a_finished_worker_delivers_what_is_left(worlds: Worlds) -> None:
    world = worlds(rows=15).begun()
    other = world.another(max_batches_per_tick=1)

    def race(do: Callable[[], Any]) -> Any:
        world.tick(worker=other)
        return do()

    world.wire.write_faults.append(race)
    assert world.tick().rows == 5
    assert world.delivered == list(range(1, 16)), "rows read before the race are read again"
