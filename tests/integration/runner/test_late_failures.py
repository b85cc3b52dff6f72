"""Handlers that end when their lease is over, or by what is no ordinary exception; ticks that are out of time."""

from __future__ import annotations

import asyncio
import logging

import pytest

from poller.handler.batch import Batch
from poller.model.document import Lease
from poller.observability import HandlerFailed, LeaseExpired, LeaseLostEvent, LeaseTakenOver
from tests.integration.runner.fakes import COLD, MEMORY, World, Worlds, raising
from tests.integration.runner.wire import Fault, preceded

TTL = 60.0


class Timeout(BaseException):
    """As gevent's, trio's `Cancelled` and pytest's `fail` are: no `Exception`."""


def test_whatever_a_handler_raises_counts_and_halts_in_the_end(worlds: Worlds) -> None:
    world = worlds(rows=1, max_attempts=3, on_poison="halt")
    ends = [world.tick_when_due(raising(Timeout("10 seconds"))).outcome for _ in range(3)]
    assert ends == ["handler_failed", "handler_failed", "halted"]
    error = world.state.delivery.last_error
    assert error is not None
    assert (error.type, error.message) == ("Timeout", "10 seconds")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), GeneratorExit()])
def test_who_interrupts_the_process_is_no_failure_of_the_batch(worlds: Worlds, error: BaseException) -> None:
    world = worlds(rows=5)
    with pytest.raises(type(error)):
        world.tick(raising(error))
    assert (world.state.delivery.attempts, world.state.lease.owner_id) == (0, None)


def overstays(world: World) -> None:
    """Nothing answers for longer than the lease lasts."""
    world.wire.down = True
    world.runtime.sleep(TTL)
    world.wire.down = False


def dribbling(world: World) -> Fault:
    """An answer that takes for ever to come in, so that the thread that waits for it judges nothing."""
    return preceded(lambda: world.runtime.sleep(1000))


def test_a_handler_that_raises_after_its_lease_reports_both(worlds: Worlds, caplog: pytest.LogCaptureFixture) -> None:
    world = worlds(rows=5)

    def handle(batch: Batch) -> None:
        overstays(world)
        raise ValueError("the sink refused row 3")

    with caplog.at_level(logging.ERROR):
        result = world.tick(handle)
    assert result.outcome == "lease_lost"
    assert "ValueError: the sink refused row 3" in (result.error or "")
    assert "the sink refused row 3" in caplog.text
    assert [event.reason for event in world.emitted(LeaseLostEvent)] == ["deadline"]
    assert world.emitted(HandlerFailed) == [], "it is not counted: another may be at work on the batch"


def test_its_text_is_kept_out_where_only_types_of_errors_are_shown(
    worlds: Worlds, caplog: pytest.LogCaptureFixture
) -> None:
    world = worlds(rows=5, error_text=False)

    def handle(batch: Batch) -> None:
        overstays(world)
        raise ValueError("Jane Doe")

    result = world.tick(handle)
    assert "ValueError" in (result.error or "")
    assert "Jane" not in (result.error or "") + caplog.text


def test_an_async_handler_cut_before_the_deadline_lost_its_lease(worlds: Worlds) -> None:
    """One grace before it: from then on nothing is written, so it is reported as lost."""
    world = worlds(rows=5)

    async def handle(batch: Batch) -> None:
        world.wire.write_faults.append(dribbling(world))
        world.runtime.sleep(TTL - 1.5)
        await asyncio.sleep(60)

    assert world.tick(handle).outcome == "lease_lost"
    assert [event.reason for event in world.emitted(LeaseLostEvent)] == ["deadline"]


def test_a_lease_lost_between_two_batches_is_reported(worlds: Worlds) -> None:
    world = worlds(rows=25)

    def handle(batch: Batch) -> None:
        world.table.page_seconds = TTL + 1
        world.wire.write_faults.extend([lambda do: do(), dribbling(world)])

    assert world.tick(handle).outcome == "lease_lost"
    assert len(world.emitted(LeaseLostEvent)) == 1


def test_a_tick_out_of_time_asks_the_database_nothing_more(worlds: Worlds) -> None:
    world = worlds(rows=30, tick_timeout="60s", handler_timeout="60s")
    result = world.tick(world.busy(61))
    assert (result.outcome, result.rows) == ("delivered", 10)
    assert (result.lag_seconds, world.table.lags) == (None, 0)


def test_a_poller_whose_entry_is_slow_still_delivers_a_batch(worlds: Worlds) -> None:
    world = worlds(rows=30, tick_timeout="60s", handler_timeout="60s")
    world.table.page_seconds = 70
    assert world.tick().rows == 10


def test_a_lease_left_to_expire_is_reported_beside_kept_samples(worlds: Worlds) -> None:
    """The write that keeps them frees the lease: the acquire after it finds nothing to take over."""
    world = worlds(rows=3).begun()
    world.take_over()
    world.table.below, world.table.memory = COLD, MEMORY
    world.runtime.sleep(TTL + 5)
    assert world.tick().outcome == "idle"
    assert world.state.lease.owner_id is None
    (event,) = world.emitted(LeaseExpired)
    assert (event.previous_owner_id, event.previous_fencing_token) == ("other/1", 1)
    _, record = world.worker.context.audit.entries()
    assert (record["kind"], record["before"]["owner_id"]) == ("takeover", "other/1")
    world.table.below = world.table.below.__class__("none")
    assert world.tick().outcome == "delivered"
    assert world.emitted(LeaseTakenOver) == []


def test_a_lease_that_was_given_back_is_no_news(worlds: Worlds) -> None:
    world = worlds(rows=3).begun()
    world.table.below, world.table.memory = COLD, MEMORY
    world.runtime.sleep(90)
    world.tick()
    assert isinstance(world.state.lease, Lease)
    assert world.emitted(LeaseExpired) == []
    assert [entry["kind"] for entry in world.worker.context.audit.entries()] == ["created"]
