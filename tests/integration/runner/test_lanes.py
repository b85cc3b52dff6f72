"""`concurrency`: several batches at once, in lanes by ordering key; the checkpoint is the low watermark."""

from __future__ import annotations

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
