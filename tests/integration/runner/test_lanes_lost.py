"""A lease that is lost while several lanes work: each is told, nothing is committed, nothing begins."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from poller import Batch
from poller.observability import BatchCommitted, HandlerTimedOut
from tests.integration.runner.fakes import Worlds
from tests.integration.runner.laned import LANES, Laned, laned

SHORT: dict[str, Any] = {"lease_ttl": "15s", "heartbeat_interval": "1s"}


def _taken(world: Laned) -> None:
    world.world.take_over()


def _down(world: Laned) -> None:
    world.world.wire.down = True


def _cancelled(world: Laned) -> None:
    world.world.cancel()


@pytest.mark.guarantee(
    "Rows that commit late",
    "With `concurrency` a lost lease, an operator's `cancel` or a call that takes too long ends all lanes",
)
@pytest.mark.parametrize("how", [_taken, _down, _cancelled])
def test_each_lane_is_told_and_nothing_more_is_committed(worlds: Worlds, how: Any) -> None:
    world = laned(worlds, 60, **SHORT)
    told: list[bool] = []

    def then(batch: Batch) -> None:
        if len(world.calls) == LANES:
            how(world)
        told.append(batch.lost.wait(20))

    result = world.world.tick(world.handler(then))
    assert told == [True] * LANES
    assert len(world.calls) == LANES, "nothing begins after that"
    assert (result.outcome, result.rows) == ("paused" if how is _cancelled else "lease_lost", 0)
    assert (world.checkpoint, world.world.emitted(BatchCommitted)) == (0, [])
    world.world.wire.down = False
    if how is _cancelled:
        world.world.resume()
    world.done.clear()
    world.world.runtime.sleep(120)
    for _ in range(5):
        world.world.tick(world.handler(), worker=world.world.another())
    assert (world.checkpoint, world.lost) == (60, [])
    assert Counter(world.delivered) == Counter([*range(1, 61), *world.calls[0].ids, *_others(world)])


def _others(world: Laned) -> list[int]:
    return [number for call in world.calls[1:LANES] for number in call.ids]


def test_a_lane_that_takes_too_long_ends_the_tenure(worlds: Worlds) -> None:
    world = laned(worlds, 60, handler_timeout="30s", tick_timeout="10m", **SHORT)
    result = world.world.tick(world.handler(seconds={1: 100.0}))
    (event,) = world.world.emitted(HandlerTimedOut)
    assert (result.outcome, event.batch_id, event.seconds) == ("lease_lost", world.calls[0].batch.batch_id, 30)
    assert world.calls[0].batch.lost.is_set()
    assert all(call.begin < 31 for call in world.calls)
    assert (world.checkpoint, world.lost) == (0, [])
    landed = {number for number in world.begun if number not in world.calls[0].ids}
    world.world.runtime.sleep(60)
    for _ in range(5):
        world.world.tick(world.handler())
    assert (world.checkpoint, set(world.delivered)) == (60, set(range(1, 61)))
    assert landed
