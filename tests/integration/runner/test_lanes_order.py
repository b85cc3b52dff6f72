"""Several lanes keep the order of each ordering key, no version of a row overtakes an older one, and the checkpoint is
the low watermark."""

from __future__ import annotations

import pytest

from poller import Batch
from tests.integration.runner.fakes import Worlds
from tests.integration.runner.laned import LANES, customer_in, laned, moved


@pytest.mark.guarantee(
    "Rows that commit late",
    "With `concurrency` the order of each ordering key is kept, and no version of a row overtakes an older one, "
    "whatever its key",
)
def test_each_ordering_key_is_handled_in_order(worlds: Worlds) -> None:
    world = laned(worlds, 300, customers=12, batch_size=7)
    pauses = {number: (number * 7 % 11) / 5 for number in range(1, 301)}
    result = world.world.tick(world.handler(seconds=pauses))
    assert (result.rows, sorted(world.delivered)) == (300, list(range(1, 301)))
    assert world.overtaken(lambda number: number % 12) == []
    assert (world.at_once(), world.delivered != sorted(world.delivered)) == (LANES, True)


def test_no_version_overtakes_an_older_one_whatever_its_key(worlds: Worlds) -> None:
    """Three versions of a row: one is handled, one waits behind it, and the newest has another ordering key."""
    world = laned(worlds, 80, customers=1, batch_size=1, page_size=10, max_uncommitted=100)
    first, second = customer_in(0), customer_in(1)
    others = [customer_in(lane) for lane in range(1, LANES)]
    for row in world.world.table.rows:
        row["customer"] = first if row["id"] == 1 else others[row["id"] % len(others)]

    def then(batch: Batch) -> None:
        if batch.rows[0]["id"] == 5:
            moved(world, 1, 27)
        if batch.rows[0]["id"] == 30:
            moved(world, 1, 60, customer=second)

    world.world.tick(world.handler(then, seconds={1: 3.0}))
    versions = [at for call in world.calls for number, at in call.rows if number == 1]
    assert len(versions) == 3
    assert world.overtaken(lambda number: number) == []
    assert (world.checkpoint, world.lost) == (80, [])


def test_a_row_that_is_left_comes_although_its_key_changes(worlds: Worlds) -> None:
    """Its cursor stays, and the lane of its new key has done everything up to a row behind it."""
    world = laned(worlds, 60, customers=1, batch_size=1)
    slow, fast = customer_in(0), customer_in(1)
    for row in world.world.table.rows:
        row["customer"] = slow if row["id"] in (1, 2) else fast
    stop = world.world.runtime.event()

    def then(batch: Batch) -> None:
        if batch.rows[0]["id"] == 4:
            stop.set()

    world.world.tick(world.handler(then, seconds={1: 1.0}), stop=stop)
    assert 2 not in world.begun
    known = world.world.state.delivery.lanes
    assert known is not None
    assert known.left
    world.world.table.rows[1]["customer"] = fast
    world.world.tick(world.handler())
    assert (sorted(world.delivered), world.lost) == (list(range(1, 61)), [])
    assert world.world.state.delivery.lanes is None


@pytest.mark.guarantee(
    "Rows that commit late",
    "With `concurrency` the checkpoint passes no row that is not done, and what is done does not come again after a "
    "failure",
)
def test_the_checkpoint_waits_for_the_slowest_lane(worlds: Worlds) -> None:
    world = laned(worlds, 60)
    stood: list[int] = []

    def then(batch: Batch) -> None:
        if batch.rows[0]["id"] == 1:
            stood.append(world.checkpoint)

    assert world.world.tick(world.handler(then, seconds={1: 5.0})).rows == 60
    assert (stood, world.checkpoint) == ([0], 60)
