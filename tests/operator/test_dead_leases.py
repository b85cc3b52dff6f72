"""What an operator's change does to a lease whose owner is gone, and to one that another program wrote."""

from __future__ import annotations

from datetime import timedelta

import pytest

from poller.errors import LeaseHeld
from poller.model import transitions
from tests.operator.test_operator import TIMING, World

GONE = TIMING.ttl + TIMING.margin


@pytest.fixture
def world() -> World:
    world = World()
    world.hold()
    return world


@pytest.mark.parametrize("change", ["pause", "resume"])
def test_a_change_of_a_poller_whose_worker_is_dead_keeps_nobody_waiting(world: World, change: str) -> None:
    """The write makes the document young again: a lease left in it would live for another ttl."""
    world.runtime.sleep(GONE)
    getattr(world.operator, change)()
    assert world.operator.busy(world.operator.look()) is None
    world.reset()
    assert world.state.delivery.attempts == 0


def test_a_worker_that_only_slept_cannot_write_after_it(world: World) -> None:
    """Paused behind its back and out of its lease, it finds neither its name nor its token in the document."""
    held = world.state
    world.runtime.sleep(GONE)
    world.operator.resume()
    found = world.state
    assert not transitions.still_held(held, found)
    assert found.lease.fencing_token > held.lease.fencing_token
    assert found.control.last_change is not None
    assert found.control.last_change.before is not None
    assert found.control.last_change.before["owner_id"] == "shop/worker"


def test_the_lease_of_a_worker_that_lives_stays_as_it_is(world: World) -> None:
    world.runtime.sleep(GONE - 1)
    lease = world.state.lease
    world.operator.pause()
    assert world.state.lease == lease
    with pytest.raises(LeaseHeld):
        world.reset()


def test_a_broken_lease_is_kept_for_as_long_as_its_owner_may_trust_it(world: World) -> None:
    """Another program wrote the document: it names no ttl, only when it expires."""
    foreign = {"ttl_seconds": None, "expires_at": world.runtime.utcnow() + timedelta(seconds=600)}
    world.change(lambda state: state.model_copy(update={"lease": state.lease.model_copy(update=foreign)}))
    applied = world.reset(break_lease=True)
    assert applied.held == 600 + TIMING.margin
    world.runtime.sleep(600)
    assert world.operator.busy(world.operator.look()) is not None
    world.runtime.sleep(TIMING.margin)
    assert world.operator.busy(world.operator.look()) is None


def test_a_broken_lease_of_our_own_is_kept_for_its_ttl(world: World) -> None:
    assert world.reset(break_lease=True).held == TIMING.ttl + TIMING.margin


def test_who_paused_and_why_outlives_a_halt_and_the_reset_after_it(world: World) -> None:
    world.operator.reason = "the sink is being moved"
    world.operator.pause()
    now = world.runtime.utcnow()
    world.change(lambda state: transitions.halt(state, reason="the batch failed 5 times", now=now))
    control = world.state.control
    assert (control.paused, control.halted) == (True, True)
    assert (control.by, control.reason) == ("ada", "the sink is being moved")
    world.operator.reason = None
    world.reset()
    control = world.state.control
    assert (control.paused, control.halted) == (True, False)
    assert (control.by, control.reason) == ("ada", "the sink is being moved")
    assert control.at == now
