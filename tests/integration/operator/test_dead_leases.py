"""What an operator's change does to a lease whose owner is gone, and to one that another program wrote."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from poller.admin import Applied, Operator
from poller.errors import LeaseHeld
from poller.model import transitions
from poller.model.changes import kept_by
from poller.model.limits import LONGEST_NAME
from poller.model.when import FIRST, LAST
from tests.integration.operator.world import TIMING, World
from tests.integration.runner.clockwork import MIDNIGHT
from tests.support.operators import pause, resume

GONE = TIMING.ttl + TIMING.margin


@pytest.fixture
def world() -> World:
    world = World()
    world.hold()
    return world


@pytest.mark.parametrize("change", [pause, resume])
def test_a_change_with_a_dead_worker_keeps_nobody_waiting(world: World, change: Callable[[Operator], Applied]) -> None:
    """The write makes the document young again: a lease left in it would live for another ttl."""
    world.runtime.sleep(GONE)
    change(world.operator)
    assert world.operator.busy(world.operator.look()) is None
    world.reset()
    assert world.state.delivery.attempts == 0


def test_a_worker_that_only_slept_cannot_write_after_it(world: World) -> None:
    """Paused behind its back and out of its lease, it finds neither its name nor its token in the document."""
    held = world.state
    world.runtime.sleep(GONE)
    resume(world.operator)
    found = world.state
    assert not transitions.still_held(held, found)
    assert found.lease.fencing_token > held.lease.fencing_token
    assert found.control.last_change is not None
    assert found.control.last_change.before is not None
    assert found.control.last_change.before["owner_id"] == "shop/worker"


def test_the_lease_of_a_worker_that_lives_stays_as_it_is(world: World) -> None:
    world.runtime.sleep(GONE - 1)
    lease = world.state.lease
    pause(world.operator)
    assert world.state.lease == lease
    with pytest.raises(LeaseHeld):
        world.reset()


def rewrite(world: World, **lease: Any) -> None:
    """Another program writes this into the lease."""
    world.change(lambda state: state.model_copy(update={"lease": state.lease.model_copy(update=lease)}))


@pytest.mark.guarantee(
    "One worker at a time",
    "A broken lease is kept for one ttl, whatever the document says; a worker's lease is never mistaken for an "
    "operator's hold",
)
@pytest.mark.parametrize(
    "lease",
    [
        {"ttl_seconds": None, "expires_at": MIDNIGHT + timedelta(days=365)},
        {"ttl_seconds": None, "expires_at": LAST},
        {"expires_at": FIRST, "released_at": FIRST, "owner_id": None},
        {"ttl_seconds": 31_536_000.0},
        {"ttl_seconds": 1e300},
        {"ttl_seconds": 5.0},
    ],
    ids=str,
)
def test_a_broken_lease_is_kept_for_one_ttl_whatever_stood_there(world: World, lease: dict[str, Any]) -> None:
    rewrite(world, **lease)
    for _ in range(2):  # an operator's own hold is kept again, and no longer
        assert world.reset(break_lease=True).held == TIMING.ttl + TIMING.margin
    assert world.operator.busy(world.operator.look()) == TIMING.ttl + TIMING.margin
    world.runtime.sleep(TIMING.ttl + TIMING.margin)
    assert world.operator.busy(world.operator.look()) is None


def test_a_worker_with_a_longer_ttl_is_waited_for(world: World) -> None:
    """As in the middle of a deployment: it may trust its lease for longer than the configuration says now."""
    rewrite(world, ttl_seconds=90.0)
    assert world.reset(break_lease=True).held == 90 + TIMING.margin


def test_a_worker_of_an_app_called_operator_is_no_operator() -> None:
    world = World()
    now = world.runtime.utcnow()
    taken = partial(transitions.acquire, owner_id="operator/host-1/1a2b3c4d", ttl=60, now=now)
    world.change(taken)
    assert kept_by(world.state) is None
    with pytest.raises(LeaseHeld):
        world.reset()
    pause(world.operator)
    assert kept_by(world.state) is None
    world.reset(break_lease=True)
    assert kept_by(world.state) == "ada"
    world.runtime.sleep(TIMING.ttl + TIMING.margin)
    resume(world.operator)
    world.change(taken)
    assert kept_by(world.state) is None, "an operator's hold ends with the next tenure"


def test_a_hold_outlives_the_next_change_of_an_operator(world: World) -> None:
    world.reset(break_lease=True)
    pause(world.operator)
    assert kept_by(world.state) == "ada"
    world.reset()


def test_a_hold_of_a_document_without_the_mark_is_still_read(world: World) -> None:
    """An earlier version kept it: the newest change's record says whose it is, and nothing else does."""
    world.reset(break_lease=True)
    rewrite(world, operator_token=None)
    assert kept_by(world.state) == "ada"
    rewrite(world, owner_id="operator/ada/00000000")
    assert kept_by(world.state) is None


def test_an_earlier_versions_worker_keeps_the_operators_mark(world: World) -> None:
    """It keeps a field that it does not know."""
    world.reset(break_lease=True)
    token = world.state.lease.fencing_token
    rewrite(world, owner_id="operator/host-1/1a2b3c4d", fencing_token=token + 1, operator_token=token)
    assert kept_by(world.state) is None
    with pytest.raises(LeaseHeld):
        world.reset()


def test_a_hold_by_the_longest_of_names_can_be_read_again(world: World) -> None:
    world.operator.by = "a" * LONGEST_NAME
    world.reset(break_lease=True)
    assert kept_by(world.state)


def test_who_paused_and_why_outlives_a_halt_and_the_reset_after_it(world: World) -> None:
    world.operator.reason = "the sink is being moved"
    pause(world.operator)
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
