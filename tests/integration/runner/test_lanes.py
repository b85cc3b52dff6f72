"""`concurrency`: several batches at once, in lanes by ordering key; the checkpoint is the low watermark."""

from __future__ import annotations

from collections import Counter
from typing import Any

from poller.handler.batch import Batch
from tests.integration.runner.fakes import World, Worlds, add, settled

LANES = 4


def world_of(worlds: Worlds, rows: int, **options: Any) -> World:
    world = settled(worlds(concurrency=LANES, batch_size=5, **options))
    add(world, 1, rows)
    return world


def checkpoint(world: World) -> int:
    cursor = world.state.checkpoint.cursor
    return 0 if cursor is None or cursor.tiebreaker is None else int(cursor.tiebreaker["id"])


def test_so_many_batches_are_handled_at_once(worlds: Worlds) -> None:
    world = world_of(worlds, 100)
    began = world.runtime.monotonic()
    result = world.tick(world.busy(1.0))
    assert (result.outcome, result.rows) == ("delivered", 100)
    assert Counter(world.delivered) == Counter(range(1, 101))
    assert world.runtime.monotonic() - began < result.batches / 2, "one after the other they take a second each"
    assert (checkpoint(world), world.state.lease.owner_id, world.state.delivery.lanes) == (100, None, None)


def test_the_checkpoint_waits_for_the_slowest_lane(worlds: Worlds) -> None:
    world = world_of(worlds, 60)
    stood: list[int] = []

    def handle(batch: Batch) -> None:
        world.take(batch)
        slow = batch.rows[0]["id"] == 1
        world.runtime.sleep(5.0 if slow else 0.1)
        if slow:
            stood.append(checkpoint(world))

    assert world.tick(handle).rows == 60
    assert (stood, checkpoint(world)) == ([0], 60)


def test_what_is_done_does_not_come_again_after_a_failure(worlds: Worlds) -> None:
    world = world_of(worlds, 60, max_attempts=3)
    broken = [True]

    def handle(batch: Batch) -> None:
        if broken[0] and any(one["id"] == 7 for one in batch):
            raise ValueError("no such customer")
        world.take(batch)

    result = world.tick(handle)
    assert (result.outcome, checkpoint(world) < 7) == ("handler_failed", True)
    known = world.state.delivery.lanes
    assert known is not None
    assert any(known.done)
    broken[0] = False
    for _ in range(5):
        world.tick_when_due(handle)
    assert Counter(world.delivered) == Counter(range(1, 61))
    assert (checkpoint(world), world.state.delivery.lanes) == (60, None)
