"""A release that had to be sent again and again is believed all the same: one more write stamps it (protocol 3)."""

from __future__ import annotations

import pytest

from tests.integration.runner.fakes import World, Worlds, raising, row
from tests.integration.runner.wire import Fault, denied, fine, lost_after, lost_before, preceded

# Between two attempts pass 1.1 s here: three of them are more than `released_at` is believed after.
BUSY = [lost_before] * 3


def next_one(world: World) -> str:
    """The outcome of another process's tick, right away."""
    world.table.rows.append(row(90))
    return world.tick(worker=world.another()).outcome


def test_a_release_that_landed_late_is_stamped_anew_once(worlds: Worlds) -> None:
    world = worlds(rows=5).begun()
    world.wire.write_faults.extend([fine, *BUSY])
    assert world.tick().outcome == "delivered"
    assert world.wire.counts == (1, 6), "an acquire, four attempts of the release, its stamp"
    assert world.state.checkpoint.metadata == {"row_count": 5}
    assert next_one(world) == "delivered"


def test_also_where_only_a_look_shows_that_it_had_landed(worlds: Worlds) -> None:
    """The answer was lost, the next attempt is refused, and the look finds the write id."""
    world = worlds(rows=5).begun()
    world.wire.write_faults.extend([fine, *BUSY, lost_after])
    assert world.tick().outcome == "delivered"
    assert next_one(world) == "delivered"


def test_a_failed_batch_a_halt_and_the_first_document_too(worlds: Worlds) -> None:
    world = worlds(max_attempts=1, on_poison="halt")
    world.wire.write_faults.extend(BUSY)
    assert world.tick().outcome == "idle", "it made the document"
    world.table.rows = [row(1)]
    world.wire.write_faults.extend([fine, *BUSY])
    assert world.tick(raising(ValueError("no")), worker=world.another()).outcome == "halted"
    operator = world.another()
    world.runtime.sleep(1)
    world.wire.write_faults.extend(BUSY)
    operator.resume(by="ada")
    assert next_one(world) == "delivered"


@pytest.mark.parametrize(("late", "writes"), [(0.9, 2), (1.1, 3)])
def test_a_release_in_time_costs_nothing_more(worlds: Worlds, late: float, writes: int) -> None:
    """Beyond a second it may not be believed: a store's time of the write may be cut to the second."""
    world = worlds(rows=5).begun()
    world.wire.write_faults.extend([fine, preceded(lambda: world.runtime.sleep(late))])
    assert world.tick().outcome == "delivered"
    assert world.wire.counts == (1, writes)


@pytest.mark.parametrize("fault", [denied, lost_before], ids=["denied", "no answer"])
def test_a_stamp_that_cannot_be_written_costs_a_wait_only(worlds: Worlds, fault: Fault) -> None:
    world = worlds(rows=5).begun()
    world.wire.write_faults.extend([fine, *BUSY, fine, *[fault] * 20])
    began = world.runtime.monotonic()
    assert world.tick().outcome == "delivered"
    assert world.runtime.monotonic() - began < 12, "tried for no longer than one attempt may take"
    world.wire.write_faults.clear()
    assert next_one(world) == "held_elsewhere"
    world.runtime.sleep(65)
    assert next_one(world) == "delivered"


def test_a_stamp_that_comes_second_changes_nothing(worlds: Worlds) -> None:
    """Somebody wrote between the release and its stamp."""
    world = worlds(rows=5).begun()
    world.wire.write_faults.extend([fine, *BUSY, fine, preceded(world.take_over)])
    assert world.tick().outcome == "delivered"
    assert world.state.lease.owner_id == "other/1"


def test_a_pause_between_late_release_and_stamp_delays_nobody(worlds: Worlds) -> None:
    """Every change of the operator's made the document young again, and the lease was waited for from there."""
    world = worlds(rows=5).begun()
    operator = world.another()
    world.wire.write_faults.extend([fine, *BUSY, fine, preceded(lambda: operator.pause(by="ada"))])
    assert world.tick().outcome == "delivered"
    assert world.state.control.paused
    world.runtime.sleep(10)
    operator.resume(by="ada")
    assert next_one(world) == "delivered"


def test_a_lease_that_does_not_count_as_released_is_not_freed(worlds: Worlds) -> None:
    """An older copy that was put back by hand: an operator's late pause leaves its stamp as it is."""
    world = worlds(rows=5)
    world.tick()
    kept = world.body
    world.runtime.sleep(100)
    world.put(kept)
    world.wire.write_faults.extend(BUSY)
    operator = world.another()
    operator.pause(by="ada")
    operator.resume(by="ada")
    assert next_one(world) == "held_elsewhere"
