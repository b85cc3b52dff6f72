"""Notes and records beside the work: one thread, in order; a store that hangs grows neither threads nor memory."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from poller.journal.background import BackgroundWriter
from poller.journal.delivery_log import RECORD_COSTS, ROWS_WAITING
from poller.observability import AuditFailed
from poller.ports import Task
from tests.integration.runner.clockwork import MIDNIGHT, Clockwork
from tests.integration.runner.fakes import World, Worlds, row
from tests.integration.runner.wire import preceded


class Counted(Clockwork):
    """Knows how many of its threads of one name were alive at once."""

    def __init__(self) -> None:
        super().__init__()
        self.most: dict[str, int] = {}
        self._mine: dict[str, list[Task]] = {}

    def spawn(self, target: Callable[[], None], name: str) -> Task:
        task = super().spawn(target, name)
        mine = self._mine[name] = [*(one for one in self._mine.get(name, []) if one.is_alive()), task]
        self.most[name] = max(self.most.get(name, 0), len(mine))
        return task


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch, worlds: Worlds) -> Callable[..., tuple[World, Counted]]:
    """A world whose runtime counts."""
    made: list[Counted] = []

    def clock() -> Counted:
        made.append(Counted())
        return made[-1]

    def make(**options: object) -> tuple[World, Counted]:
        monkeypatch.setattr("tests.integration.runner.fakes.Clockwork", clock)
        world = worlds(**options)
        return world, made[-1]

    return make


def delivery_lines(world: World) -> int:
    return sum(len(world.store.lines(name)) for name in world.store.names("seen/"))


def test_a_slow_store_gets_one_thread_for_any_number_of_batches(
    counted: Callable[..., tuple[World, Counted]],
) -> None:
    world, runtime = counted(rows=60, batch_size=1, audit_window="1h")
    for _ in range(60):
        world.wire.append_faults.append(preceded(lambda: world.runtime.sleep(1.0)))
    assert world.tick().batches == 60
    assert runtime.most["poller-seen"] == 1
    world.runtime.sleep(100)
    assert delivery_lines(world) == 60
    assert not world.emitted(AuditFailed)


def test_a_store_that_hangs_costs_reported_records_and_no_row(
    counted: Callable[..., tuple[World, Counted]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("poller.journal.delivery_log.ROWS_WAITING", 10 * RECORD_COSTS)
    world, runtime = counted(rows=40, batch_size=1, audit_window="1h")
    world.wire.append_faults.append(preceded(lambda: world.runtime.sleep(300)))
    assert world.tick().rows == 40
    lost = world.emitted(AuditFailed)
    assert len(lost) in (29, 30), "ten wait behind the one that hangs, if it began"
    assert "not recorded for rechecks" in lost[0].error
    assert runtime.most["poller-seen"] == 1
    world.runtime.sleep(400)
    assert delivery_lines(world) == 40 - len(lost)
    world.table.rows += [row(41)]
    world.tick()
    assert delivery_lines(world) == 41 - len(lost), "it works again"
    seen = world.worker._runner.context.delivery_log.read(MIDNIGHT - timedelta(days=1))
    assert len(seen.intervals) == 2, "what was lost is a gap, not a claim"
    assert len(seen.hashes) == 41 - len(lost)


def test_what_waits_is_bounded_in_rows() -> None:
    """Batches of ten thousand rows are not a hundred of them in memory."""
    runtime = Clockwork()
    aside = BackgroundWriter(runtime, "test", room=ROWS_WAITING)
    made: list[int] = []
    assert aside.put(lambda: made.append(0), 3 * ROWS_WAITING), "a single one always may, whatever its size"
    assert not aside.put(lambda: made.append(1), 1)
    aside.settle(10)
    assert aside.put(lambda: made.append(2), ROWS_WAITING - 1)
    assert aside.put(lambda: made.append(3), 1)
    assert not aside.put(lambda: made.append(4), 1)
    aside.settle(10)
    assert made == [0, 2, 3]
    runtime.close()


def test_a_write_that_blows_up_stops_none_behind_it() -> None:
    runtime = Clockwork()
    aside = BackgroundWriter(runtime, "test", room=10)
    made: list[int] = []

    def bad() -> None:
        raise ZeroDivisionError

    aside.put(bad)
    aside.put(lambda: made.append(1))
    aside.settle(10)
    aside.put(lambda: made.append(2))
    aside.settle(10)
    assert made == [1, 2]
    assert [type(error) for error in runtime.errors] == [ZeroDivisionError]
    runtime.errors.clear()
    runtime.close()


def test_a_process_without_threads_left_loses_a_record_and_no_tick(
    worlds: Worlds, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = worlds(rows=3, batch_size=3, audit_window="1h")
    spawn = world.runtime.spawn

    def none_left(target: Callable[[], None], name: str) -> Task:
        if name == "poller-seen":
            raise RuntimeError("can't start new thread")
        return spawn(target, name)

    monkeypatch.setattr(world.runtime, "spawn", none_left)
    assert world.tick().outcome == "delivered"
    (lost,) = world.emitted(AuditFailed)
    assert "not recorded" in lost.error


def test_audit_records_come_from_one_thread_in_their_order(
    counted: Callable[..., tuple[World, Counted]], monkeypatch: pytest.MonkeyPatch
) -> None:
    world, runtime = counted()
    world.begun()
    monkeypatch.setattr("poller.journal.audit.RECORDS_WAITING", 50)
    trail = world.another()._runner.context.audit
    world.wire.append_faults.append(preceded(lambda: world.runtime.sleep(60)))
    for number in range(70):
        trail.add("tried", number=number)
    world.runtime.sleep(100)
    kept = [entry["number"] for entry in trail.entries() if entry["kind"] == "tried"]
    assert kept == list(range(len(kept)))
    assert len(kept) + len(world.emitted(AuditFailed)) == 70
    assert 50 <= len(kept) <= 51
    assert runtime.most["poller-audit"] == 1
