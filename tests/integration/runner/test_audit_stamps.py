"""The audit trail's own times are the store's, as those of the document beside it; whatever goes wrong in writing it is
told, and ends nothing."""

from __future__ import annotations

from datetime import datetime, timedelta

from poller.observability import AuditFailed
from poller.stores import MemoryStore
from tests.integration.runner.fakes import World, Worlds, row
from tests.integration.runner.wire import Wire

TTL, MARGIN = 60.0, 5.0


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
    (entry,) = world.worker.context.audit.entries()
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
    (told,) = world.told(AuditFailed)
    assert told.error == "OSError: [Errno 116] Stale file handle"
    assert [entry["kind"] for entry in world.worker.context.audit.entries()] == ["takeover"]
    assert world.runtime.errors == []
