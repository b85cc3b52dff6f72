"""A state document that is deleted is never begun again in silence: what shows that it existed, and the weekly rewrite
that keeps quiet pollers from being deleted (design, "The state document")."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from poller.errors import StateCorrupt
from poller.model import transitions
from poller.observability import AuditFailed, Began, LeaseExpired
from tests.integration.runner.fakes import TableGone, World, Worlds, add, raising, settled
from tests.integration.runner.wire import Fault, denied, lost_before, preceded

AUDIT = "audit/shop/orders.jsonl"
WEEK = timedelta(days=7).total_seconds()


def trail(world: World) -> list[dict[str, Any]]:
    return [json.loads(line) for line in world.store.lines(AUDIT)]


# --- the trace


@pytest.mark.guarantee("One worker at a time", "If nothing at all is left of a poller, its new beginning is reported")
@pytest.mark.parametrize("rows", [0, 5])
def test_a_first_document_leaves_a_trace_and_an_event(worlds: Worlds, rows: int) -> None:
    world = worlds(rows=rows)
    world.tick()
    change = world.state.control.last_change
    assert change is not None
    (record,) = trail(world)
    assert (record["kind"], record["id"]) == ("created", change.id)
    assert record["after"]["fencing_token"] == (1 if rows else 0)
    (event,) = world.emitted(Began)
    assert (event.cursor, event.level) == (None, 30)
    world.tick(worker=world.another())
    assert len(trail(world)) == len(world.emitted(Began)) == 1


@pytest.mark.guarantee("One worker at a time", "A deleted or replaced document is not silently replaced by a new one")
@pytest.mark.parametrize("rows", [0, 5])
def test_a_new_process_begins_no_deleted_document_again(worlds: Worlds, rows: int) -> None:
    world = worlds(rows=rows)
    world.tick()
    world.delete()
    add(world, 6, 1)
    for worker in (world.another(), world.worker):
        with pytest.raises(StateCorrupt, match="is gone, but it ran before") as caught:
            world.tick(worker=worker)
        for command in ("reset-to-checkpoint", "reset-to-cursor", "reset-to-beginning"):
            assert f"poller {command} orders" in (caught.value.next_step or "")
    assert list(world.store.names("state/")) == []
    assert 6 not in world.delivered
    assert len(world.emitted(Began)) == 1


def without_a_trace(worlds: Worlds) -> World:
    """A document of a version that left none."""
    world = worlds(rows=3)
    state = transitions.create("orders", world.table.description, None, now=world.runtime.utcnow())
    world.put(state.with_write_id("0").model_dump_json().encode())
    return world


@pytest.mark.parametrize("outcome", ["idle", "paused", "held_elsewhere", "delivered"])
def test_an_old_document_gets_a_trace_at_the_first_look(worlds: Worlds, outcome: str) -> None:
    world = without_a_trace(worlds)
    if outcome == "idle":
        world.table.rows.clear()
    elif outcome == "paused":
        control = world.state.control.model_copy(update={"paused": True})
        world.change(lambda state: state.model_copy(update={"control": control}))
    elif outcome == "held_elsewhere":
        world.take_over()
    before = world.body
    assert world.tick().outcome == outcome
    assert [record["kind"] for record in trail(world)] == ["seen"]
    if outcome != "delivered":
        assert world.body == before
    world.tick()
    world.tick(worker=world.another())
    assert len(trail(world)) == 1
    assert world.emitted(Began) == []
    world.delete()
    with pytest.raises(StateCorrupt, match="is gone, but it ran before"):
        world.tick(worker=world.another())


@pytest.mark.parametrize("rows", [0, 5])
def test_a_creator_that_was_killed_leaves_its_trace_to_the_next(worlds: Worlds, rows: int) -> None:
    world = worlds(rows=rows)
    world.wire.append_faults.append(lost_before)
    world.tick()
    assert trail(world) == []
    for _ in range(2):
        world.tick(worker=world.another())
    change = world.state.control.last_change
    assert change is not None
    assert [record["id"] for record in trail(world)] == [change.id]


def test_a_store_that_refuses_records_stops_no_poller(worlds: Worlds) -> None:
    world = worlds(rows=5)
    world.wire.append_faults.append(denied)
    assert world.tick().outcome == "delivered"
    for _ in range(3):
        assert world.tick().outcome == "idle"
    (event,) = world.emitted(AuditFailed)
    assert "403" in event.error
    assert trail(world) == []
    world.runtime.sleep(3600)
    assert world.tick().outcome == "idle"
    assert [record["kind"] for record in trail(world)] == ["created"]


# --- the weekly rewrite


def quiet(world: World, outcome: str) -> Callable[[], str]:
    """The world whose next tick has this outcome, and that tick."""
    if outcome == "backing_off":
        month = timedelta(days=30)
        world.worker = world.another(retry_backoff=month, retry_backoff_max=month)
        world.tick(raising(RuntimeError("no")))
    else:
        world.table.rows.clear()
        world.tick()
    if outcome in ("paused", "halted"):
        control = world.state.control.model_copy(update={outcome: True})
        world.change(lambda state: state.model_copy(update={"control": control}))
        world.tick()
    world.wire.forget()
    return lambda: world.tick().outcome


@pytest.mark.guarantee(
    "One worker at a time",
    "No rule on the last modification picks out a poller because it is quiet, as long as a process or the dispatcher"
    " looks at it",
)
@pytest.mark.parametrize("outcome", ["idle", "paused", "halted", "backing_off"])
def test_a_quiet_document_is_written_once_more_each_week(worlds: Worlds, outcome: str) -> None:
    world = worlds(rows=2)
    tick = quiet(world, outcome)
    before = world.state
    world.runtime.sleep(WEEK - 120)
    assert tick() == outcome
    assert world.wire.writes == []
    world.runtime.sleep(120)
    for _ in range(3):
        assert tick() == outcome
    assert len(world.wire.writes) == 1
    after = world.state
    assert after.lease.released_at == world.runtime.utcnow()
    same = {"lease": before.lease, "write_ids": before.write_ids}
    assert after.model_copy(update=same) == before
    assert after.lease.fencing_token == before.lease.fencing_token
    world.runtime.sleep(WEEK)
    assert tick() == outcome
    assert len(world.wire.writes) == 2


def test_while_the_database_is_away_the_document_stays_young(worlds: Worlds) -> None:
    world = settled(worlds(rows=2))
    world.runtime.sleep(WEEK)
    world.table.faults.append(TableGone("The database is away."))
    with pytest.raises(TableGone):
        world.tick()
    assert len(world.wire.writes) == 1


def test_a_live_lease_is_never_written_by_another(worlds: Worlds) -> None:
    world = settled(worlds(rows=2))
    month = timedelta(days=30).total_seconds()
    world.change(lambda state: transitions.acquire(state, owner_id="other/1", ttl=month, now=world.runtime.utcnow()))
    before = world.body
    world.runtime.sleep(WEEK + 60)
    assert world.tick().outcome == "held_elsewhere"
    assert world.body == before
    assert world.wire.writes == []


def test_a_lease_that_expired_is_freed_and_reported_by_it(worlds: Worlds) -> None:
    world = settled(worlds(rows=2))
    world.take_over()
    world.runtime.sleep(WEEK)
    assert world.tick().outcome == "idle"
    (event,) = world.emitted(LeaseExpired)
    assert event.previous_owner_id == "other/1"
    assert world.state.lease.owner_id is None
    assert [record["kind"] for record in trail(world)] == ["created", "takeover"]


@pytest.mark.parametrize("fault", ["outage", "refusal", "conflict"])
def test_a_rewrite_that_fails_harms_nothing_and_waits(worlds: Worlds, fault: str) -> None:
    world = settled(worlds(rows=2))
    other = world.another()
    world.runtime.sleep(WEEK)
    taken = preceded(lambda: world.tick(worker=other))
    faults: dict[str, list[Fault]] = {"outage": [lost_before] * 20, "refusal": [denied], "conflict": [taken]}
    world.wire.write_faults.extend(faults[fault])
    began = world.runtime.monotonic()
    assert world.tick().outcome == "idle"
    assert world.runtime.monotonic() - began < 10
    world.wire.forget()
    world.wire.write_faults.clear()
    assert world.tick().outcome == "idle"
    assert world.wire.writes == []  # not at each tick
    world.runtime.sleep(3600)
    assert world.tick().outcome == "idle"
    assert len(world.wire.writes) == (0 if fault == "conflict" else 1)
    add(world, 3, 1)
    assert world.tick().outcome == "delivered"


def test_of_several_processes_one_writes_it(worlds: Worlds) -> None:
    world = settled(worlds(rows=2))
    another = world.another()
    world.tick(worker=another)
    world.runtime.sleep(WEEK)
    world.wire.forget()
    for worker in (world.worker, another, world.worker, another):
        assert world.tick(worker=worker).outcome == "idle"
    assert len(world.wire.writes) == 1


def test_a_trail_that_was_deleted_comes_back_with_the_rewrite(worlds: Worlds) -> None:
    world = settled(worlds(rows=2))
    del world.store._logs[AUDIT]
    world.runtime.sleep(WEEK)
    world.tick()
    world.tick()
    assert [record["kind"] for record in trail(world)] == ["created"]
