"""What is known of the bound goes with the commits, and without one at most once a minute; its holder is reported."""

from __future__ import annotations

from dataclasses import replace

from poller.model.stamps import stamp
from poller.observability import BoundHeld, ClockWentBack
from poller.ports import Bound
from tests.integration.runner.fakes import COLD, MEMORY, World

KNOWN = Bound("observed", value="2026-05-01T00:00:00.000000Z", clock="2026-05-01T00:00:01.000000Z")


def test_the_next_tick_recalls_what_a_commit_kept_of_the_source() -> None:
    world = World(rows=3)
    world.table.memory = MEMORY
    assert world.tick().outcome == "delivered"
    kept = world.state.bound
    assert kept is not None
    assert kept.items() >= MEMORY.items()
    world.tick(worker=world.another())
    assert world.table.recalled == [kept]


def test_a_source_that_remembers_nothing_leaves_what_stands_there() -> None:
    world = World(rows=3)
    world.table.memory = MEMORY
    world.tick()
    world.table.memory = None
    world.table.rows.append({"id": 9, "updated_at": "2026-05-01T00:00:00.000000Z", "total": 1})
    assert world.tick().outcome == "delivered"
    assert world.state.bound is not None


def test_a_cold_process_keeps_its_samples_by_one_write_a_minute() -> None:
    world = World(rows=3)
    world.tick()
    token, released = world.state.lease.fencing_token, world.state.lease.released_at
    world.table.rows.append({"id": 9, "updated_at": "2026-05-01T00:00:00.000000Z", "total": 1})
    world.table.below, world.table.memory = COLD, MEMORY
    world.runtime.sleep(90)
    world.wire.forget()
    for _ in range(5):
        assert world.tick().outcome == "idle"
        world.runtime.sleep(10)
    assert len(world.wire.writes) == 1
    lease = world.state.lease
    assert lease.fencing_token == token
    assert lease.owner_id is None
    assert released is not None
    assert lease.released_at is not None
    assert lease.released_at > released  # stamped anew, or it would no longer count as released
    world.runtime.sleep(20)
    world.tick()
    assert len(world.wire.writes) == 2
    world.table.below = KNOWN
    assert world.tick().outcome == "delivered"


def test_an_idle_process_that_is_not_cold_writes_nothing() -> None:
    world = World(rows=3)
    world.tick()
    world.table.memory = MEMORY
    world.wire.forget()
    for bound in (KNOWN, replace(COLD, cold=False), replace(KNOWN, cold=True, value=None, held_by="pid 7")):
        world.table.below = replace(bound, cold=False)
        world.runtime.sleep(100)
        assert world.tick().outcome == "idle"
    assert world.wire.writes == []


def test_the_first_document_already_holds_what_was_seen() -> None:
    world = World()
    world.table.below, world.table.memory = COLD, MEMORY
    world.tick()
    assert world.state.bound is not None
    assert world.state.bound["samples"] == {"open": {}}
    assert world.state.bound["kept_at"] == stamp(world.state.checkpoint.updated_at or world.runtime.utcnow())


def test_what_holds_the_bound_is_reported_once_per_reason() -> None:
    world = World(rows=1)
    held = replace(KNOWN, held_by="pid 7, open since 00:00", reason="an open transaction", age_seconds=3.0)
    for bound in (held, replace(held, held_by="pid 7, open since 00:00, idle", age_seconds=9.0), KNOWN, held):
        world.table.below = bound
        world.tick()
    events = [event for event in world.events if isinstance(event, BoundHeld)]
    assert [event.held_by for event in events] == ["pid 7, open since 00:00"] * 2
    assert events[0].age_seconds == 3.0


def test_a_clock_that_went_back_is_an_event_of_its_own() -> None:
    world = World(rows=1)
    world.table.below = replace(KNOWN, clock_back=1.0, reason="it went back: 1 < 2")
    world.tick()
    world.tick()
    events = [event for event in world.events if isinstance(event, ClockWentBack)]
    assert [event.reason for event in events] == ["it went back: 1 < 2"]
