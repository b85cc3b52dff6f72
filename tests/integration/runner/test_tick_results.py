"""The result and the events of a tick, and a database that fails."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import get_args

import pytest

from poller import Batch, TickResult
from poller.model import transitions
from poller.model.document import State
from poller.observability import BatchCommitted, BatchStarted, TickFailed, TickFinished
from poller.ports import Bound, Lag
from poller.stores import MemoryStore
from poller.tick import Outcome
from tests.integration.runner.clockwork import MIDNIGHT
from tests.integration.runner.fakes import TableGone, World, Worlds, add, cursor_of, raising, row, settled, stamp_of
from tests.integration.runner.wire import Wire, preceded

# --- what it reports


def test_lag_and_pending_are_reported_for_what_is_left(worlds: Worlds) -> None:
    world = worlds(rows=35, max_batches_per_tick=1)
    result = world.tick()
    assert (result.pending, result.lag_seconds) == (25, 25.0)
    assert result.bound is not None
    assert result.bound.kind == "none"


def _halt(world: World) -> None:
    world.change(lambda state: transitions.halt(state, reason="failed", now=world.runtime.utcnow()))


STOPPED: dict[str, Callable[[World], None]] = {
    "held_elsewhere": World.take_over,
    "paused": World.pause,
    "halted": _halt,
}


@pytest.mark.parametrize("outcome", STOPPED)
def test_a_tick_that_stops_early_reports_the_lag_every_30_seconds(worlds: Worlds, outcome: str) -> None:
    world = worlds(rows=35, max_batches_per_tick=1, lease_ttl="60s")
    world.tick()
    STOPPED[outcome](world)
    world.events.clear()
    world.table.lags = 0
    results = []
    for second in range(50):
        if second == 10:
            add(world, 36, 2)
        world.runtime.sleep(1)
        results.append(world.tick())
    assert {result.outcome for result in results} == {outcome}
    assert [result.pending for result in results] == [25] * 30 + [27] * 20
    assert [result.lag_seconds for result in results] == [25.0] * 30 + [27.0] * 20
    assert [event.lag_seconds for event in world.emitted(TickFinished)] == [result.lag_seconds for result in results]
    assert world.table.lags == 2


def test_an_idle_tick_reports_the_lag_of_rows_above_the_bound(worlds: Worlds) -> None:
    """Each asks anew: a table that waits behind a forgotten transaction must not look like one that is quiet."""
    world = worlds(rows=5)
    world.tick()
    world.table.below = Bound("exact", None)
    results = []
    for number in range(6, 9):
        add(world, number, 1)
        world.runtime.sleep(1)
        results.append(world.tick())
    assert {result.outcome for result in results} == {"idle"}
    assert [(result.pending, result.lag_seconds) for result in results] == [(1, 1.0), (2, 2.0), (3, 3.0)]
    assert [event.pending for event in world.emitted(TickFinished)][1:] == [1, 2, 3]


def test_a_tick_that_loses_the_lease_twice_reports_the_lag(worlds: Worlds) -> None:
    world = settled(worlds())
    add(world, 1, 5)
    world.wire.write_faults.extend([preceded(lambda: world.put(world.body))] * 2)
    result = world.tick()
    assert (result.outcome, result.pending, result.lag_seconds) == ("held_elsewhere", 5, 5.0)


def test_a_failing_tick_reports_the_rows_that_wait_now(worlds: Worlds) -> None:
    world = worlds(rows=5)
    assert world.tick().pending == 0
    world.table.rows += [row(number) for number in range(6, 12)]

    def refuse(batch: Batch) -> None:
        raise ValueError("no")

    results = [world.tick_when_due(refuse) for _ in range(3)]
    assert {(result.outcome, result.pending) for result in results} == {("handler_failed", 6)}


def test_an_unknown_lag_fails_no_tick(worlds: Worlds) -> None:
    world = worlds(rows=5)

    def refuse(*_: object, **__: object) -> Lag:
        raise TableGone("connection reset")

    world.table.lag = refuse  # type: ignore[method-assign]
    result = world.tick()
    assert (result.outcome, result.rows, result.lag_seconds, result.pending) == ("delivered", 5, None, None)


def test_a_result_is_json_of_its_documented_fields(worlds: Worlds) -> None:
    world = worlds(rows=3)
    data = world.tick().as_json()
    assert set(data) == {
        "outcome", "rows", "batches", "cursor", "fencing_token", "duration_seconds", "lag_seconds", "pending", "bound",
        "error", "retry_at", "aside", "quarantined",
    }  # fmt: skip
    assert data["cursor"] == {"kind": "timestamp+pk", "value": stamp_of(3), "tiebreaker": {"id": 3}}
    assert data["error"] is None


def test_outcomes_are_those_of_the_design() -> None:
    outcomes = get_args(Outcome)
    assert set(outcomes) == {
        "idle", "delivered", "held_elsewhere", "paused", "lease_lost", "handler_failed", "backing_off", "blocked",
        "commit_unknown", "halted",
    }  # fmt: skip
    assert [name for name in outcomes if TickResult(outcome=name).ok] == ["idle", "delivered", "held_elsewhere"]


def test_events_follow_the_tick_in_its_order(worlds: Worlds) -> None:
    world = worlds(rows=12)
    world.tick()
    assert world.names() == [
        "lease_acquired", "began", "batch_started", "batch_committed", "batch_started", "lease_released",
        "batch_committed", "tick",
    ]  # fmt: skip
    assert [event.rows for event in world.emitted(BatchStarted)] == [10, 2]
    assert [event.rows for event in world.emitted(BatchCommitted)] == [10, 2]
    (finished,) = world.emitted(TickFinished)
    assert (finished.outcome, finished.rows, finished.batches) == ("delivered", 12, 2)


def test_an_observer_that_raises_stops_no_tick_and_no_other(worlds: Worlds) -> None:
    world = worlds(rows=3)

    def broken(event: object) -> None:
        raise RuntimeError("the monitoring is down")

    world.worker._runner.context.emit._observers = (broken, *world.worker._runner.context.emit._observers)
    assert world.tick().outcome == "delivered"
    assert "batch_committed" in world.names()


# --- whose clock


def test_stamps_in_the_document_are_by_the_stores_clock(worlds: Worlds) -> None:
    world = worlds(rows=25)
    ahead = timedelta(days=3)

    class Server:
        def utcnow(self) -> datetime:
            return (world.runtime.utcnow() + ahead).replace(microsecond=0)

    world.store = MemoryStore(Server())
    world.wire = Wire(world.store)
    worker = world.another()
    states: list[State] = []

    def handle(batch: Batch) -> None:
        world.runtime.sleep(20.4)
        states.append(world.state)

    world.tick(handle, worker=worker)
    lease = states[0].lease
    begun = MIDNIGHT + ahead
    assert lease.acquired_at == begun
    assert lease.heartbeat_at == begun + timedelta(seconds=15)
    assert lease.expires_at == begun + timedelta(seconds=75)
    updated = world.state.checkpoint.updated_at
    assert updated is not None
    assert abs(updated - (begun + timedelta(seconds=61.2))) < timedelta(seconds=1), "the precision of both times"
    assert (world.state.checkpoint.last_successful_batch_id or "").startswith(f"batch_{begun:%Y%m%d}_")


# --- what commits write into the document for people who look


@pytest.mark.guarantee(
    "Cost",
    "What the document keeps for people to look at costs no request, counts rows once, and can stop no poller",
)
def test_rows_that_landed_are_counted_once(worlds: Worlds) -> None:
    for options in ({}, {"max_uncommitted": 4}, {"concurrency": 2}):
        world = settled(worlds(rows=10, batch_size=10, **options))
        before = sum(entry.rows for entry in world.state.history)
        add(world, 11, 35)
        assert world.tick(world.busy(0.5)).outcome == "delivered"
        entries = world.state.history
        assert sum(entry.rows for entry in entries) - before == 35, options
        assert (entries[-1].token, entries[-1].at.date()) == (world.state.lease.fencing_token, MIDNIGHT.date())
        assert entries[-1].handler_seconds >= 1.5, options
        assert entries[-1].lag_seconds is not None, options


def test_a_call_that_failed_counts_for_nothing(worlds: Worlds) -> None:
    world = settled(worlds(rows=10))
    before = world.state.history
    add(world, 11, 1)
    assert world.tick(raising(ValueError())).outcome == "handler_failed"
    assert world.state.history == before


# --- the database fails


def test_a_database_that_fails_is_an_error_and_never_idle(worlds: Worlds) -> None:
    world = settled(worlds(rows=3))
    add(world, 4, 3)
    world.table.faults.append(TableGone("no such table"))
    with pytest.raises(TableGone):
        world.tick()
    assert world.wire.counts == (1, 0), "no lease was taken"
    (failed,) = world.emitted(TickFailed)
    assert (failed.error_type, failed.error) == ("TableGone", "no such table")
    assert world.tick().rows == 3


def test_a_database_that_fails_in_mid_drain_gives_the_lease_back(worlds: Worlds) -> None:
    world = worlds(rows=25)
    world.table.faults.extend([None, TableGone("connection reset")])
    with pytest.raises(TableGone):
        world.tick()
    state = world.state
    assert state.checkpoint.cursor == cursor_of(row(10)), "what was committed stays"
    assert (state.lease.owner_id, state.delivery.attempts) == (None, 0)
    assert world.tick(worker=world.another()).rows == 15
    assert world.delivered == list(range(1, 26))
