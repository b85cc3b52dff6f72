"""How a lease is kept while a handler runs, given up when it hangs, and seen to be lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from poller import Batch
from poller.errors import LeaseLost
from poller.model.document import State
from poller.observability import (
    HandlerTimedOut,
    LeaseLostEvent,
    LeaseRenewed,
    StaleCommitRefused,
)
from poller.ports import Task
from tests.integration.runner.fakes import Worlds, cursor_of, row
from tests.integration.runner.wire import lost_before, preceded

TTL, MARGIN = 60.0, 5.0


# --- heartbeats


@pytest.mark.guarantee("One worker at a time", "A handler longer than the lease keeps it")
def test_a_handler_longer_than_three_ttls_keeps_its_lease(worlds: Worlds) -> None:
    world = worlds(rows=5)
    other, results = world.another(), []

    def compete() -> None:
        for _ in range(40):
            world.runtime.sleep(5)
            results.append(world.tick(worker=other).outcome)

    world.runtime.start(compete)
    assert world.tick(world.busy(3.3 * TTL)).outcome == "delivered"
    assert set(results) == {"held_elsewhere"}
    renewals = world.emitted(LeaseRenewed)
    assert len(renewals) == 13, "every 15 s of 198 s"
    assert world.delivered == [1, 2, 3, 4, 5]
    assert world.emitted(LeaseLostEvent) == []


def test_a_commit_is_a_heartbeat_and_resets_its_timer(worlds: Worlds) -> None:
    world = worlds(rows=100)
    assert world.tick(world.busy(10)).rows == 100
    assert world.emitted(LeaseRenewed) == []


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), KeyboardInterrupt()])
@pytest.mark.parametrize("begun", [False, True], ids=["before", "after"])
def test_a_heartbeat_that_cannot_begin_gives_lease_and_start_back(
    worlds: Worlds, monkeypatch: pytest.MonkeyPatch, error: BaseException, begun: bool
) -> None:
    """The handler never ran, so nothing may count towards a halt; nor may a thread that did begin keep the lease."""
    world = worlds(rows=5, max_attempts=1)
    spawn = world.runtime.spawn

    def fail(target: Callable[[], None], name: str) -> Task:
        if begun or not name.startswith("poller-heartbeat"):
            spawn(target, name)
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(world.runtime, "spawn", fail)
        with pytest.raises(type(error)):
            world.tick()
    assert (world.state.lease.owner_id, world.state.delivery.attempts) == (None, 0)
    world.wire.forget()
    world.runtime.sleep(TTL)
    assert world.wire.counts == (0, 0)
    assert world.tick().outcome == "delivered"


def test_no_heartbeat_follows_the_end_of_a_tick(worlds: Worlds) -> None:
    world = worlds(rows=5)
    world.tick(world.busy(20))
    count = len(world.wire.writes)
    world.runtime.sleep(1000)
    assert len(world.wire.writes) == count


def test_a_heartbeat_moves_nothing_but_the_lease(worlds: Worlds) -> None:
    world = worlds(rows=5)
    states: list[State] = []

    def handle(batch: Batch) -> None:
        for _ in range(2):
            states.append(world.state)
            world.runtime.sleep(16)

    world.tick(handle)
    before, after = states
    assert after.lease.heartbeat_at is not None
    assert before.lease.heartbeat_at is not None
    assert after.lease.heartbeat_at > before.lease.heartbeat_at
    assert after.lease.fencing_token == before.lease.fencing_token
    assert (after.checkpoint, after.delivery, after.control) == (before.checkpoint, before.delivery, before.control)


def test_a_heartbeat_that_fails_is_sent_again_and_nothing_is_lost(worlds: Worlds) -> None:
    world = worlds(rows=5)

    def handle(batch: Batch) -> None:
        world.take(batch)
        world.wire.write_faults.extend([lost_before] * 10)
        world.runtime.sleep(100)

    assert world.tick(handle).outcome == "delivered"


@pytest.mark.guarantee("One worker at a time", "A hung handler or query does not hold its poller for ever")
def test_a_hung_handler_is_named_and_then_outlived(worlds: Worlds) -> None:
    world = worlds(rows=5, handler_timeout="100s")
    other, when = world.another(), []

    def wait_for_it() -> None:
        while world.tick(worker=other).outcome != "delivered":
            world.runtime.sleep(1)
        when.append(world.runtime.monotonic())

    def handle(batch: Batch) -> None:
        world.runtime.start(wait_for_it)
        world.runtime.sleep(300)

    result = world.tick(handle)
    assert result.outcome == "lease_lost"
    assert 100 + TTL <= when[0] <= 100 + TTL + MARGIN + 1
    (event,) = world.emitted(HandlerTimedOut)
    assert event.seconds == pytest.approx(100)
    assert (world.delivered, world.state.checkpoint.cursor) == ([1, 2, 3, 4, 5], cursor_of(row(5)))


def test_after_a_handler_that_was_given_up_no_other_batch_starts(worlds: Worlds) -> None:
    """Its heartbeat has ended, so the next one would run without."""
    world = worlds(rows=30, handler_timeout="20s")
    result = world.tick(world.busy(30))
    assert (result.outcome, result.rows) == ("delivered", 10)
    assert world.state.lease.owner_id is None
    assert world.state.delivery.last_error is None


def test_a_query_that_hangs_for_good_ends_its_tenure_and_is_named(worlds: Worlds) -> None:
    world = worlds(rows=15, handler_timeout="10s", lease_ttl="9s", heartbeat_interval="3s")
    states: list[State] = []

    def handle(batch: Batch) -> None:
        world.table.page_seconds = 1000

    def look() -> None:
        world.runtime.sleep(125)
        states.append(world.state)

    world.runtime.start(look)
    assert world.tick(handle).outcome == "lease_lost"
    last = states[0].delivery.last_error
    assert last is not None
    assert (last.type, last.batch_id) == ("QueryTimeout", None)
    assert "query for the next rows" in last.message


# --- lost


def test_a_lost_lease_is_shown_to_the_handler_before_its_deadline(worlds: Worlds) -> None:
    """Even where the thread that renews it hangs in a request that does not end."""
    world = worlds(rows=5)
    shown: list[tuple[float, bool, float]] = []

    def handle(batch: Batch) -> None:
        world.wire.write_faults.append(preceded(lambda: world.runtime.sleep(1000)))
        for second in (57, 58, 59, 60):
            world.runtime.sleep(second - world.runtime.monotonic())
            shown.append((second, batch.lost.is_set(), batch.remaining()))
        with pytest.raises(LeaseLost) as lost:
            batch.check()
        assert (lost.value.reason, lost.value.fencing_token) == ("deadline", 1)

    assert world.tick(handle).outcome == "lease_lost"
    assert shown == [(57, False, 2.0), (58, True, 1.0), (59, True, 0.0), (60, True, 0.0)]


def test_a_commit_after_the_deadline_is_refused_and_says_so(worlds: Worlds) -> None:
    world = worlds(rows=5)

    def handle(batch: Batch) -> None:
        world.wire.down = True
        world.runtime.sleep(TTL)
        world.wire.down = False
        world.wire.forget()

    result = world.tick(handle)
    assert (result.outcome, result.rows) == ("lease_lost", 0)
    assert world.wire.counts == (0, 0), "nothing is even sent"
    (refused,) = world.emitted(StaleCommitRefused)
    assert (refused.fencing_token, refused.reason) == (1, "deadline")
    assert len(world.emitted(LeaseLostEvent)) == 1
    assert world.state.checkpoint.cursor is None


def test_a_commit_under_a_lease_taken_over_is_refused_by_the_store(worlds: Worlds) -> None:
    """Here the clock of the first has stood still, so that it still trusts its lease: the store knows better."""
    world = worlds(rows=5)

    def handle(batch: Batch) -> None:
        world.take(batch)
        world.take_over()

    result = world.tick(handle)
    assert result.outcome == "lease_lost"
    (refused,) = world.emitted(StaleCommitRefused)
    assert refused.reason == "taken_over"
    state = world.state
    assert state.checkpoint.cursor is None
    assert (state.lease.owner_id, state.lease.fencing_token) == ("other/1", 2)
    assert [entry["kind"] for entry in world.audit()] == ["created", "lease_lost"]


def test_a_failure_under_a_lease_taken_over_writes_nothing(worlds: Worlds) -> None:
    world = worlds(rows=5)

    def handle(batch: Batch) -> None:
        world.take_over()
        raise ValueError("too late to matter")

    assert world.tick(handle).outcome == "lease_lost"
    assert world.state.lease.owner_id == "other/1"
    assert world.state.delivery.last_error is None


def test_a_lease_lost_between_two_batches_starts_no_other(worlds: Worlds) -> None:
    world = worlds(rows=25)

    def handle(batch: Batch) -> None:
        world.take(batch)
        world.table.page_seconds = TTL + 1
        world.wire.write_faults.extend([lambda do: do(), *[lost_before] * 1000])

    result = world.tick(handle)
    assert (result.outcome, result.rows) == ("lease_lost", 10)
    assert world.delivered == list(range(1, 11))
    assert len(world.emitted(LeaseLostEvent)) == 1


def test_while_a_release_is_under_way_the_lease_is_not_trusted(worlds: Worlds) -> None:
    """It may have landed, and another may be at work already."""
    world = worlds(rows=5)
    left: list[float] = []

    def handle(batch: Batch) -> None:
        left.append(batch.remaining())
        world.wire.write_faults.append(preceded(lambda: left.append(batch.remaining())))

    world.tick(handle)
    assert left == [59.0, 0.0]


def test_a_tick_does_not_end_while_a_write_of_its_own_is_under_way(worlds: Worlds) -> None:
    world = worlds(rows=5)
    under_way: list[int] = []

    def dribbling(do: Callable[[], Any]) -> Any:
        under_way.append(1)
        world.runtime.sleep(200)
        under_way.pop()
        return do()

    def handle(batch: Batch) -> None:
        world.wire.write_faults.append(dribbling)
        world.runtime.sleep(30)

    assert world.tick(handle).outcome == "lease_lost"
    assert under_way == []
