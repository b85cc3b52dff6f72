"""A store that does not answer: what is waited for, what is an error, and what is never believed (protocol 2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from poller import Batch
from poller.errors import StoreDenied, StoreUnavailable
from poller.observability import (
    CommitUnknown,
    TickFailed,
)
from tests.integration.runner.fakes import Worlds, once
from tests.integration.runner.wire import denied, fine, lost_after, lost_before

TTL = 60.0


def test_an_outage_before_the_tick_is_an_error_and_never_idle(worlds: Worlds) -> None:
    world = worlds(rows=5).begun()
    world.wire.down = True
    with pytest.raises(StoreUnavailable):
        world.tick()
    once(world, TickFailed)
    assert world.delivered == []
    world.wire.down = False
    assert world.tick().outcome == "delivered"


def test_an_outage_at_the_acquire_ends_at_its_deadline(worlds: Worlds) -> None:
    world = worlds(rows=5).begun()
    world.wire.write_faults.extend([lost_before] * 1000)
    with pytest.raises(StoreUnavailable, match="is not resolved"):
        world.tick()
    assert world.runtime.monotonic() < TTL
    assert world.delivered == []
    world.wire.write_faults.clear()
    assert world.tick().outcome == "delivered"


@pytest.mark.parametrize("landed", [True, False])
def test_a_commit_without_an_answer_is_unknown_until_the_next_tick(worlds: Worlds, landed: bool) -> None:
    world = worlds(rows=5).begun()

    def handle(batch: Batch) -> None:
        world.take(batch)
        world.wire.write_faults.extend([lost_after if landed else lost_before] + [lost_before] * 1000)

    result = world.tick(handle)
    assert (result.outcome, result.rows) == ("commit_unknown", 0)
    assert result.error is not None
    once(world, CommitUnknown)
    assert world.runtime.monotonic() < TTL
    world.wire.write_faults.clear()
    world.seen.clear()
    if landed:
        assert world.tick().outcome == "idle"
    else:
        assert world.tick().outcome == "held_elsewhere", "by its own ghost: whether it still holds is not known"
        world.runtime.sleep(TTL + 5)
        assert world.tick().outcome == "delivered"
        assert world.delivered == [1, 2, 3, 4, 5]


def test_after_a_write_that_was_given_up_no_other_follows(worlds: Worlds) -> None:
    world = worlds(rows=5).begun()

    def handle(batch: Batch) -> None:
        world.take(batch)
        world.wire.write_faults.extend([lost_before] * 1000)
        assert batch.lost.wait(58.5), "given up, since no pause fits in before the deadline at 59 s"
        assert world.runtime.monotonic() < 58
        world.wire.write_faults.clear()
        world.wire.forget()

    assert world.tick(handle).outcome == "lease_lost"
    assert world.wire.counts == (0, 0)


def test_a_slow_answer_does_not_lengthen_the_lease(worlds: Worlds) -> None:
    """The heartbeat sent at 15 s is answered at 55 s: the lease ends 59 s after the send, not after the answer."""
    world = worlds(rows=5).begun()
    left: list[float] = []

    def slow(do: Callable[[], Any]) -> Any:
        answer = do()
        world.runtime.sleep(40)
        return answer

    def handle(batch: Batch) -> None:
        world.wire.write_faults.append(slow)
        world.runtime.sleep(54)
        left.append(batch.remaining())
        world.wire.write_faults.extend([lost_before] * 1000)
        world.runtime.sleep(2)
        left.append(batch.remaining())

    world.tick(handle)
    assert left == [59 - 54, 15 + 59 - 56]


def test_a_lease_over_before_its_answer_starts_no_handler(worlds: Worlds) -> None:
    world = worlds(rows=5).begun()

    def dribbling(do: Callable[[], Any]) -> Any:
        answer = do()
        world.runtime.sleep(TTL)
        return answer

    world.wire.write_faults.append(dribbling)
    result = world.tick()
    assert (result.outcome, world.delivered) == ("lease_lost", [])


def test_refused_permissions_are_an_error_at_once(worlds: Worlds) -> None:
    world = worlds(rows=5).begun()
    world.wire.write_faults.append(denied)
    with pytest.raises(StoreDenied):
        world.tick()
    assert world.wire.counts == (1, 1)
    world.wire.read_faults.append(denied)
    with pytest.raises(StoreDenied):
        world.tick()
    assert world.runtime.monotonic() == 0


def test_permissions_lost_in_mid_tick_are_an_error_no_lost_lease(worlds: Worlds) -> None:
    world = worlds(rows=15).begun()
    world.wire.write_faults.extend([fine, denied])
    with pytest.raises(StoreDenied):
        world.tick()
    assert world.state.lease.owner_id is None, "given back, since that was permitted again"
