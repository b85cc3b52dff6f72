"""What a query or a handler that outlasts its limit does to the batches after it, and how soon that is noticed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from poller import Batch
from poller.model.document import State
from poller.observability import HandlerTimedOut, LeaseLostEvent, LeaseRenewed, QueryTimedOut
from poller.ports import InspectableSource
from poller.sources import SqlSource
from tests.integration.runner.fakes import Table, World, Worlds

SHORT = {"handler_timeout": "60s", "lease_ttl": "60s", "heartbeat_interval": "15s"}


class SlowTable(Table):
    """Its queries may take so long."""

    def __init__(self, runtime: Any, seconds: float) -> None:
        super().__init__(runtime)
        self._seconds = seconds

    @property
    def query_timeout(self) -> timedelta:
        return timedelta(seconds=self._seconds)


def slow_once(world: World, seconds: float) -> Callable[[Batch], None]:
    """A handler after whose first batch the next page takes so long."""

    def handle(batch: Batch) -> None:
        world.table.page_seconds = 0 if world.seen else seconds
        world.take(batch)
        world.runtime.sleep(50)

    return handle


def test_after_a_slow_query_no_batch_starts_without_a_heartbeat(worlds: Worlds) -> None:
    world = worlds(rows=30, tick_timeout="30m", read_ahead=0, **SHORT)
    result = world.tick(slow_once(world, 130))
    assert (result.outcome, result.rows, world.delivered) == ("delivered", 10, list(range(1, 11)))
    assert world.emitted(LeaseLostEvent) == []
    assert (world.state.lease.owner_id, world.state.delivery.attempts) == (None, 0)


def test_a_query_reported_as_too_long_is_no_handler(worlds: Worlds) -> None:
    world = worlds(rows=30, tick_timeout="30m", read_ahead=0, **SHORT)
    world.tick(slow_once(world, 130))
    assert world.emitted(HandlerTimedOut) == []
    (event,) = world.emitted(QueryTimedOut)
    assert event.seconds == pytest.approx(120)


def test_a_query_within_its_own_query_timeout_keeps_the_lease(worlds: Worlds) -> None:
    world = worlds(rows=0, tick_timeout="60m", **SHORT)
    rows = World(30).table.rows
    world.table = SlowTable(world.runtime, 300)
    world.table.rows = rows
    world.worker = world.another()
    result = world.tick(slow_once(world, 290))
    assert (result.outcome, result.rows) == ("delivered", 30)
    assert world.emitted(QueryTimedOut) == []


def test_a_sql_source_states_its_query_limit_and_answers_operators() -> None:
    source = SqlSource("sqlite://", table="t", cursor_column="at", pk_columns=["id"], query_timeout="5m")
    assert source.query_timeout == timedelta(minutes=5)
    assert isinstance(source, InspectableSource)
    assert source.query_timeout == timedelta(minutes=5)


def test_a_short_limit_is_noticed_at_once_not_at_the_next_beat(worlds: Worlds) -> None:
    world = worlds(rows=5, handler_timeout="5s")
    events: list[HandlerTimedOut] = []

    def handle(batch: Batch) -> None:
        world.runtime.sleep(5.5)
        events.extend(world.emitted(HandlerTimedOut))

    world.tick(handle)
    assert [event.seconds for event in events] == [pytest.approx(5)]


def test_a_short_limit_of_a_later_batch_is_noticed_too(worlds: Worlds) -> None:
    world = worlds(rows=30, handler_timeout="5s")
    events: list[HandlerTimedOut] = []

    world.table.page_seconds = 6

    def handle(batch: Batch) -> None:
        world.runtime.sleep(1 if batch.rows[0]["id"] == 1 else 5.5)
        events.extend(world.emitted(HandlerTimedOut))

    world.tick(handle)
    assert [event.seconds for event in events] == [pytest.approx(5)]


def test_what_hangs_is_noted_by_the_clock_of_the_store(worlds: Worlds) -> None:
    """Stamps in the document are the store's time, whatever this machine's clock says (protocol 3)."""
    world = worlds(rows=5, handler_timeout="10s")
    states: list[State] = []

    def handle(batch: Batch) -> None:
        world.runtime.wall_error = 3600
        world.runtime.sleep(11)
        states.append(world.state)

    began = world.runtime.utcnow()
    world.tick(handle)
    error = states[0].delivery.last_error
    assert error is not None
    assert error.at is not None
    assert error.at - began < timedelta(minutes=1)


def test_a_beat_that_fails_in_no_way_we_know_is_tried_again(worlds: Worlds) -> None:
    """A driver's own error, say: the lease must not be lost by a thread that ended."""
    world = worlds(rows=5)

    def broken(do: Callable[[], Any]) -> Any:
        raise OSError(116, "Stale file handle")

    def handle(batch: Batch) -> None:
        world.wire.write_faults.append(broken)
        world.runtime.sleep(100)

    assert world.tick(handle).outcome == "delivered"
    assert world.emitted(LeaseRenewed) != []


def test_a_last_beat_that_fails_is_retried_no_faster_than_others(worlds: Worlds) -> None:
    world = worlds(rows=5, handler_timeout="20s")

    def broken(do: Callable[[], Any]) -> Any:
        raise OSError(116, "Stale file handle")

    states: list[State] = []

    def handle(batch: Batch) -> None:
        world.runtime.sleep(19)
        world.wire.forget()
        world.wire.write_faults.append(broken)
        world.runtime.sleep(20)
        states.append(world.state)

    world.tick(handle)
    assert len(world.wire.writes) == 3, "the note that failed, the same once more, and the commit"
    error = states[0].delivery.last_error
    assert error is not None
    assert error.message.startswith("still running after")
