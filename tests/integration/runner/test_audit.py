"""The audit trail: written beside the work, best effort, never in its way, with the store's times (protocol 11)."""

from __future__ import annotations

from datetime import datetime, timedelta

from poller.observability import (
    AuditFailed,
)
from poller.stores import MemoryStore
from tests.integration.runner.fakes import World, Worlds, row
from tests.integration.runner.wire import Wire, lost_before, preceded

TTL, MARGIN = 60.0, 5.0


def test_a_slow_audit_trail_is_waited_for_a_little_and_no_longer(worlds: Worlds) -> None:
    world = worlds(rows=5).begun()
    world.take_over()
    world.runtime.sleep(TTL + MARGIN)
    began = world.runtime.monotonic()
    world.wire.append_faults.append(preceded(lambda: world.runtime.sleep(0.5)))
    assert world.tick().outcome == "delivered"
    assert [entry["kind"] for entry in world.worker.context.audit.entries()] == ["created", "takeover"]
    world.table.rows += [row(6)]
    world.take_over()
    world.runtime.sleep(TTL + MARGIN)
    began = world.runtime.monotonic()
    world.wire.append_faults.append(preceded(lambda: world.runtime.sleep(1000)))
    assert world.tick().outcome == "delivered"
    assert world.runtime.monotonic() - began <= 5


def test_an_unwritable_audit_trail_is_reported_and_stops_nothing(worlds: Worlds) -> None:
    world = worlds(rows=5).begun()
    world.take_over()
    world.runtime.sleep(TTL + MARGIN)
    world.wire.append_faults.append(lost_before)
    assert world.tick().outcome == "delivered"
    (event,) = world.emitted(AuditFailed)
    assert "No answer" in event.error


class Ahead:
    """A store's clock that is days ahead of this machine's."""

    def __init__(self, world: World) -> None:
        self._world = world

    def utcnow(self) -> datetime:
        return self._world.runtime.utcnow() + timedelta(days=3)


def test_a_workers_records_carry_the_stores_time(worlds: Worlds) -> None:
    world = worlds(rows=5)
    world.store = MemoryStore(Ahead(world))
    world.wire = Wire(world.store)
    world.worker = world.another()
    world.begun().take_over()
    world.runtime.sleep(TTL + MARGIN)
    assert world.tick().outcome == "delivered"
    *_, entry = world.worker.context.audit.entries()
    updated = world.state.checkpoint.updated_at
    assert updated is not None
    assert abs(datetime.fromisoformat(entry["at"]) - updated) < timedelta(minutes=1)


def test_an_unexpected_error_is_reported_and_the_trail_goes_on(worlds: Worlds) -> None:
    world = worlds(rows=5).begun()

    def broken(*_: object) -> None:
        raise OSError(116, "Stale file handle")

    for last in (6, 7):
        world.take_over()
        world.runtime.sleep(TTL + MARGIN)
        if last == 6:
            world.wire.append_faults.append(broken)
        assert world.tick().outcome == "delivered"
        world.table.rows += [row(last)]
    (event,) = world.emitted(AuditFailed)
    assert event.error == "OSError: [Errno 116] Stale file handle"
    assert [entry["kind"] for entry in world.worker.context.audit.entries()] == ["created", "takeover"]
    assert world.runtime.errors == []
