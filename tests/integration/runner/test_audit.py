"""The audit trail: written beside the work, best effort, never in its way, with the store's times (protocol 11)."""

from __future__ import annotations

from datetime import datetime, timedelta

from poller.journal import AuditTrail
from poller.model.cursor import Cursor
from poller.model.document import DeliveryError, OperatorChange, State
from poller.observability import AuditFailed
from poller.stores import MemoryStore
from tests.integration.runner.clockwork import Clockwork
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
    assert [entry["kind"] for entry in world.audit()] == ["created", "takeover"]
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
    *_, entry = world.audit()
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
    assert [entry["kind"] for entry in world.audit()] == ["created", "takeover"]
    assert world.runtime.errors == []


def streaks(*minutes: float) -> list[str]:
    """What the trail says of streaks of a minute each that begin at these minutes."""
    runtime = Clockwork()
    trail = AuditTrail(MemoryStore(runtime), app_name="shop", poller_name="orders", runtime=runtime)
    well = State(poller_name="orders")
    error = DeliveryError(type="ValueError", message="a secret of a row")
    fails = well.model_copy(update={"delivery": well.delivery.model_copy(update={"failures": 1, "last_error": error})})
    cursor = Cursor(kind="integer+pk", value="1", tiebreaker={"id": 1})
    goes_on = well.model_copy(update={"checkpoint": well.checkpoint.model_copy(update={"cursor": cursor})})
    for at in minutes:
        runtime.sleep(at * 60 - runtime.monotonic())
        for before, after in ((well, fails), (fails, fails)):
            trail.turned(before, after, by="vm1")
            runtime.sleep(30)
        trail.turned(fails, goes_on, by="vm1")
    trail.settle(5.0)
    assert "secret" not in "".join(trail._store.lines(trail.name))
    return [f"{entry['kind']} {entry['reason']}" for entry in trail.entries()]


def test_a_streak_of_failures_has_a_beginning_and_an_end() -> None:
    assert streaks(10, 20) == ["failing ValueError", "recovered it failed for 60 s"] * 2


def test_of_streaks_within_five_minutes_the_first_is_recorded() -> None:
    assert streaks(10, 12, 14) == ["failing ValueError", "recovered it failed for 60 s"]


def test_a_streak_that_another_process_saw_begin_has_an_end() -> None:
    runtime = Clockwork()
    store = MemoryStore(runtime)
    trails = [AuditTrail(store, app_name="shop", poller_name="orders", runtime=runtime) for _ in range(2)]
    well = State(poller_name="orders")
    delivery = well.delivery.model_copy(update={"failures": 1, "last_error": DeliveryError(type="ValueError")})
    fails = well.model_copy(update={"delivery": delivery})
    cursor = Cursor(kind="integer+pk", value="1", tiebreaker={"id": 1})
    goes_on = well.model_copy(update={"checkpoint": well.checkpoint.model_copy(update={"cursor": cursor})})
    for trail, before, after in ((trails[0], well, fails), (trails[1], fails, goes_on)):
        trail.turned(before, after, by="vm1")
        trail.settle(5.0)
    assert [entry["kind"] for entry in trails[0].entries()] == ["failing", "recovered"]


def test_a_change_of_a_thousand_rows_names_a_hundred_of_them() -> None:
    runtime = Clockwork()
    trail = AuditTrail(MemoryStore(runtime), app_name="shop", poller_name="orders", runtime=runtime)
    ids = [f"{number:016x}" for number in range(1000)]
    trail.copy(
        OperatorChange(id="c", kind="quarantine discard", by="ada", at=runtime.utcnow(), after={"unlisted": ids})
    )
    trail.settle(5.0)
    (entry,) = trail.entries(limit=20)
    assert (entry["after"]["unlisted"], entry["after"]["unlisted_in_all"]) == (ids[:100], 1000)
