"""Stops, pauses and interrupts: the batch in hand is finished, the lease given back, the start not counted."""

from __future__ import annotations

import pytest

from poller import Batch
from poller.journal import AuditTrail, DeliveryLog
from poller.model import transitions
from poller.model.document import OperatorChange
from poller.observability import LeaseReleased
from tests.integration.runner.fakes import Worlds, cursor_of, row
from tests.integration.runner.wire import lost_before


def test_a_stop_commits_the_batch_and_releases_by_one_write(worlds: Worlds) -> None:
    world = worlds(rows=50)
    stop = world.runtime.event()

    def handle(batch: Batch) -> None:
        world.take(batch)
        if len(world.seen) == 2:
            stop.set()

    result = world.tick(handle, stop=stop)
    assert (result.outcome, result.rows) == ("delivered", 20)
    assert len(world.wire.writes) == 3, "acquire, commit, commit with release"
    state = world.state
    assert (state.checkpoint.cursor, state.lease.owner_id, state.delivery.attempts) == (cursor_of(row(20)), None, 0)
    assert world.tick(worker=world.another()).rows == 30, "another goes on at once, no ttl to wait for"
    assert world.runtime.monotonic() == 0


def test_a_stop_during_a_page_gives_the_start_back(worlds: Worlds) -> None:
    world = worlds(rows=50)
    stop = world.runtime.event()
    world.table.page_seconds = 2

    def soon() -> None:
        world.runtime.sleep(3)
        stop.set()

    world.runtime.start(soon)
    assert world.tick(stop=stop).rows == 10
    assert (world.state.lease.owner_id, world.state.delivery.attempts) == (None, 0)


def test_a_stop_before_the_acquire_writes_nothing(worlds: Worlds) -> None:
    world = worlds(rows=5)
    world.tick()
    world.table.rows += [row(6)]
    world.wire.forget()
    stop = world.runtime.event()
    stop.set()
    assert world.tick(stop=stop).outcome == "idle"
    assert world.wire.counts == (1, 0)


def test_a_stop_waits_for_the_handler_and_releases_nothing_before(worlds: Worlds) -> None:
    world = worlds(rows=5)
    stop = world.runtime.event()

    def handle(batch: Batch) -> None:
        stop.set()
        world.runtime.sleep(200)
        assert world.emitted(LeaseReleased) == []
        assert world.state.lease.owner_id is not None

    assert world.tick(handle, stop=stop).outcome == "delivered"


@pytest.mark.parametrize("error", [KeyboardInterrupt, GeneratorExit])
def test_an_interrupt_in_the_handler_releases_and_is_raised(worlds: Worlds, error: type[BaseException]) -> None:
    world = worlds(rows=25)

    def handle(batch: Batch) -> None:
        if len(world.seen) == 1:
            raise error
        world.take(batch)

    with pytest.raises(error):
        world.tick(handle)
    state = world.state
    assert (state.lease.owner_id, state.delivery.attempts) == (None, 0)
    assert state.checkpoint.cursor == cursor_of(row(10))
    assert world.tick().rows == 15, "and the same worker can go on"


def test_an_interrupt_in_an_outage_waits_no_longer_than_the_lease(worlds: Worlds) -> None:
    world = worlds(rows=5)

    def handle(batch: Batch) -> None:
        world.wire.write_faults.extend([lost_before] * 1000)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        world.tick(handle)
    assert world.runtime.monotonic() < 60


@pytest.mark.parametrize("log", ["audit", "seen"])
def test_an_interrupt_while_records_are_awaited_frees_the_poller(
    worlds: Worlds, monkeypatch: pytest.MonkeyPatch, log: str
) -> None:
    world = worlds(rows=5)

    def interrupt(self: object, seconds: float) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr({"audit": AuditTrail, "seen": DeliveryLog}[log], "settle", interrupt)
        with pytest.raises(KeyboardInterrupt):
            world.tick()
    world.table.rows.append(row(6))
    assert world.tick().rows == 1


# --- paused


def test_a_paused_poller_does_nothing_and_says_who_and_why(worlds: Worlds) -> None:
    world = worlds(rows=5)
    world.tick()
    world.table.rows += [row(6)]
    world.pause()
    world.wire.forget()
    world.seen.clear()
    result = world.tick()
    assert (result.outcome, result.error) == ("paused", "paused by ann: deploy")
    assert world.wire.counts == (1, 0)
    assert world.delivered == []


def test_a_pause_found_by_a_heartbeat_lets_the_batch_finish(worlds: Worlds) -> None:
    world = worlds(rows=50)

    def handle(batch: Batch) -> None:
        world.take(batch)
        world.runtime.sleep(1)
        world.pause()
        world.runtime.sleep(20)

    result = world.tick(handle)
    assert (result.outcome, result.rows) == ("delivered", 10)
    state = world.state
    assert state.control.paused
    assert (state.lease.owner_id, state.checkpoint.cursor) == (None, cursor_of(row(10)))
    assert "write_redone" in world.names()
    assert world.tick().outcome == "paused"


def test_a_change_by_an_operator_is_copied_to_the_audit_trail_once(worlds: Worlds) -> None:
    world = worlds(rows=5)
    world.tick()
    record = OperatorChange(id="r1", kind="resume", by="ann", reason="done")
    world.change(lambda state: transitions.resume(state, change=record, now=world.runtime.utcnow()))
    for number in (6, 7, 8):
        world.table.rows.append(row(number))
        world.tick()
        world.table.rows.append(row(number + 10))
        world.tick(worker=world.another())
    (entry,) = [one for one in world.audit() if one["id"] == "r1"]
    assert (entry["kind"], entry["by"], entry["reason"]) == ("resume", "ann", "done")
    assert len([line for line in world.store.lines("audit/shop/orders.jsonl") if '"r1"' in line]) == 1
