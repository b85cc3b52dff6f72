"""A tenure that an operator cancelled: its handler is stopped as far as it can be, nothing of its batch is committed,
and the lease is given back once the handler has ended, if it is still this tenure's."""

from __future__ import annotations

import pytest

from poller import Batch, TickResult
from poller.errors import LeaseLost
from poller.observability import BatchCommitted, LeaseLostEvent, LeaseReleased
from tests.integration.runner.fakes import World, Worlds, once
from tests.integration.runner.wire import lost_after, lost_before, preceded

TTL, MARGIN, HEARTBEAT = 60.0, 5.0, 20.0
WHY = "cancelled by ann: wrong"


def given_back(world: World, result: TickResult) -> None:
    assert (result.outcome, result.error, result.rows) == ("paused", WHY, 0)
    state = world.state
    assert (state.lease.owner_id, state.checkpoint.cursor, state.delivery.attempts) == (None, None, 0)
    assert state.delivery.last_error is None
    assert world.emitted(BatchCommitted) == []
    assert [event.reason for event in world.emitted(LeaseLostEvent)] == ["cancelled"]
    once(world, LeaseReleased)


def test_the_next_heartbeat_sets_lost_and_the_handler_may_end(worlds: Worlds) -> None:
    world = worlds(rows=25)

    def handle(batch: Batch) -> None:
        world.cancel()
        assert not batch.lost.is_set()
        assert batch.lost.wait(HEARTBEAT + 1)
        with pytest.raises(LeaseLost) as lost:
            batch.check()
        assert lost.value.reason == "cancelled"
        raise lost.value

    given_back(world, world.tick(handle))
    assert world.tick().outcome == "paused"
    world.resume()
    assert world.tick().rows == 25


@pytest.mark.parametrize("ends", ["well", "badly"])
def test_a_call_that_ended_before_the_heartbeat_commits_nothing(worlds: Worlds, ends: str) -> None:
    world = worlds(rows=25)

    def handle(batch: Batch) -> None:
        world.cancel()
        if ends == "badly":
            raise ValueError("no such customer")

    given_back(world, world.tick(handle))


def test_nothing_else_starts_here_until_an_ignoring_handler_ends(worlds: Worlds) -> None:
    world = worlds(rows=25)

    def handle(batch: Batch) -> None:
        world.cancel()
        world.runtime.sleep(HEARTBEAT + 1)
        before = world.body
        world.runtime.sleep(TTL + MARGIN)
        assert world.body == before, "its lease is no longer renewed"
        here = world.tick()
        assert (here.outcome, here.error) == ("held_elsewhere", "a batch of this poller still runs in this process")

    given_back(world, world.tick(handle))


def test_the_lease_of_whoever_took_over_is_not_given_back(worlds: Worlds) -> None:
    world = worlds(rows=5)

    def handle(batch: Batch) -> None:
        world.cancel()
        world.runtime.sleep(HEARTBEAT + 1)
        world.resume()
        world.runtime.sleep(TTL + MARGIN)
        world.take_over()

    result = world.tick(handle)
    assert (result.outcome, result.error) == ("paused", WHY)
    assert (world.state.lease.owner_id, world.state.lease.fencing_token) == ("other/1", 2)
    assert world.emitted(LeaseReleased) == []


def test_a_cancel_that_was_taken_back_in_time_stops_nothing(worlds: Worlds) -> None:
    world = worlds(rows=5)

    def handle(batch: Batch) -> None:
        world.take(batch)
        world.cancel()
        world.resume()
        world.runtime.sleep(HEARTBEAT + 1)
        assert not batch.lost.is_set()

    assert world.tick(handle).rows == 5


def test_a_resume_after_the_loss_still_gets_the_lease_back(worlds: Worlds) -> None:
    """Beside the release, whose answer is lost too."""
    world = worlds(rows=5)

    def handle(batch: Batch) -> None:
        world.cancel()
        world.runtime.sleep(HEARTBEAT + 1)
        world.wire.write_faults.extend([preceded(lambda: world.resume()), lost_after])

    result = world.tick(handle)
    assert (result.outcome, result.error) == ("paused", WHY)
    assert world.state.lease.owner_id is None
    assert world.tick(worker=world.another()).rows == 5


def test_a_cancel_between_two_batches_keeps_what_was_committed(worlds: Worlds) -> None:
    world = worlds(rows=25)
    stop = world.runtime.event()

    def between() -> None:
        world.runtime.sleep(1)
        world.cancel()
        stop.set()

    def handle(batch: Batch) -> None:
        world.take(batch)
        world.table.page_seconds = 2
        world.runtime.start(between)

    result = world.tick(handle, stop=stop)
    assert (result.outcome, result.rows) == ("delivered", 10)
    assert (world.state.lease.owner_id, world.state.delivery.attempts) == (None, 0)
    assert world.state.control.paused


def test_a_release_that_fails_leaves_the_lease_to_expire(worlds: Worlds) -> None:
    world = worlds(rows=5)

    def handle(batch: Batch) -> None:
        world.cancel()
        world.runtime.sleep(HEARTBEAT + 1)
        world.wire.write_faults.extend([lost_before] * 1000)

    result = world.tick(handle)
    assert (result.outcome, result.error) == ("paused", WHY)
    assert world.emitted(LeaseReleased) == []
    assert world.runtime.monotonic() < TTL, "what cannot be released is left to expire, not waited for"
    world.wire.write_faults.clear()
    world.resume()
    assert world.tick().outcome == "held_elsewhere"
    world.runtime.sleep(TTL + MARGIN)
    assert world.tick().rows == 5
