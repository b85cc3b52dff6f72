"""Handlers that end when their lease is over, or by what is no ordinary exception; ticks that are out of time."""

from __future__ import annotations

import logging

import pytest

from poller import Batch
from poller.model.document import Lease
from poller.observability import HandlerFailed, LeaseExpired, LeaseLostEvent, LeaseTakenOver
from tests.integration.runner.fakes import COLD, MEMORY, World, Worlds

TTL = 60.0


def overstays(world: World) -> None:
    """Nothing answers for longer than the lease lasts."""
    world.wire.down = True
    world.runtime.sleep(TTL)
    world.wire.down = False


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


def test_a_tick_out_of_time_asks_the_database_nothing_more(worlds: Worlds) -> None:
    world = worlds(rows=30, tick_timeout="60s", handler_timeout="60s")
    result = world.tick(world.busy(61))
    assert (result.outcome, result.rows) == ("delivered", 10)
    assert (result.lag_seconds, world.table.lags) == (None, 0)


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
    _, record = world.audit()
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
    assert [entry["kind"] for entry in world.audit()] == ["created"]
