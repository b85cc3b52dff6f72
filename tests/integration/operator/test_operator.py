"""An operator's compare-and-swap against workers that write first, and answers that are lost. No real time passes."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from poller.admin import Operator
from poller.errors import LeaseHeld, StateCorrupt, StoreError, StoreUnavailable, WriteConflict
from poller.lease import YIELD_WITHIN, Copy, StateFile
from poller.model import transitions
from poller.ports import Found
from tests.integration.operator.world import TIMING, World, at
from tests.integration.runner.wire import STATE, fine, lost_after, lost_before, preceded, then_lost
from tests.support.documents import delete
from tests.support.operators import pause, reset, resume

YIELD_REQUEST = "control/shop/orders.json"


@pytest.fixture
def world() -> World:
    return World()


def test_a_worker_that_commits_first_is_seen_and_backed_up(world: World) -> None:
    world.wire.write_faults.append(preceded(lambda: world.commit(7, release=True)))
    applied = world.reset()
    assert [copy.state.checkpoint.cursor for copy in world.seen] == [at(5), at(7)]
    assert applied.before is not None
    assert applied.before.state.checkpoint.cursor == at(7)
    assert applied.losses == 1
    found = world.memory.read(applied.backup or "")
    assert isinstance(found, Found)
    assert found.body == applied.before.body, "exactly what was replaced"
    assert world.state.checkpoint.cursor is None


def test_backups_of_one_moment_have_names_of_their_own(world: World) -> None:
    """`{utc}.json`, as design.md has it: nobody's is written over."""
    names = [world.operator.back_up(body) for body in (b"one", b"two")]
    assert len(set(names)) == 2
    assert [getattr(world.memory.read(name), "body", None) for name in names] == [b"one", b"two"]
    for name in names:
        stamped = datetime.strptime(name, "backups/shop/orders/%Y%m%dT%H%M%S_%fZ.json").replace(tzinfo=UTC)
        assert abs(stamped - world.runtime.utcnow()) < timedelta(seconds=1)


def test_a_worker_that_comes_second_is_fenced(world: World) -> None:
    world.hold()
    file = StateFile(world.memory, app_name="shop", poller_name="orders", runtime=world.runtime, timing=TIMING)
    mine = file.read()
    assert mine is not None
    world.reset(break_lease=True)
    with pytest.raises(StoreError):
        file.write(mine, lambda state, now: transitions.renew(state, now=now), deadline=world.runtime.monotonic() + 9)
    assert world.state.checkpoint.cursor is None
    assert world.state.lease.fencing_token == 5


def test_a_lease_that_appears_before_the_write_is_refused(world: World) -> None:
    world.wire.write_faults.append(preceded(world.hold))
    with pytest.raises(LeaseHeld, match="--break-lease"):
        world.reset()
    assert world.state.checkpoint.cursor == at(5)
    assert world.state.lease.owner_id == "shop/worker"


def test_a_broken_lease_is_kept_for_a_full_ttl_and_no_longer(world: World) -> None:
    world.hold()
    applied = world.reset(break_lease=True)
    assert applied.held == TIMING.ttl + TIMING.margin
    copy = StateFile(world.memory, app_name="shop", poller_name="orders", runtime=world.runtime, timing=TIMING).read()
    assert copy is not None
    assert copy.state.lease.released_at is None
    assert not copy.availability(TIMING, world.runtime.monotonic()).free
    world.runtime.sleep(TIMING.ttl + TIMING.margin + 1)
    assert world.operator.busy(world.operator.look()) is None


def test_an_operators_own_hold_is_no_others_lease(world: World) -> None:
    world.hold()
    world.reset(break_lease=True)
    again = world.reset()
    assert again.held > 0, "the broken worker's time is still waited out"
    assert (world.state.lease.owner_id or "").startswith("operator/ada/")


def test_a_reset_whose_answer_is_lost_is_made_once(world: World) -> None:
    world.wire.write_faults.append(lost_after)
    world.reset()
    assert world.state.checkpoint.generation == 1
    assert world.state.lease.fencing_token == 4


def test_it_is_made_once_though_its_write_id_is_forgotten(world: World) -> None:
    def busy() -> None:
        world.hold()
        for number in range(10, 30):
            world.commit(number)

    world.wire.write_faults.append(then_lost(busy))
    applied = world.reset()
    assert world.state.checkpoint.generation == 1, "not a second reset over the worker's progress"
    assert world.state.checkpoint.cursor == at(29)
    assert applied.change.id == (world.state.control.last_change.id if world.state.control.last_change else "")


def test_after_three_lost_races_a_yield_is_requested_and_withdrawn(world: World) -> None:
    requests: list[Any] = []

    def write_first(number: int) -> Callable[[], None]:
        def commit() -> None:
            world.commit(number, release=True)
            found = world.memory.read(YIELD_REQUEST)
            requests.append(json.loads(found.body) if isinstance(found, Found) else None)

        return commit

    for number in range(6, 11):
        world.wire.write_faults.append(preceded(write_first(number)))
    applied = pause(world.operator)
    assert applied.losses == 5
    assert requests[:3] == [None, None, None]
    assert requests[4]["kind"] == "pause"
    found = world.memory.read(YIELD_REQUEST)
    assert isinstance(found, Found)
    assert json.loads(found.body) == {}
    assert world.state.control.paused
    assert world.state.checkpoint.cursor == at(10)


def test_an_operator_who_missed_the_yield_requests_another(world: World) -> None:
    """A worker yields once for each request, and the first time another operator took the lease first."""
    heeded: list[str] = []

    def busy() -> None:
        world.runtime.sleep(0.5)
        found = world.memory.read(YIELD_REQUEST)
        request = json.loads(found.body).get("id") if isinstance(found, Found) else None
        if request is None or request in heeded or not heeded:
            world.commit(6, release=True)
        if request is not None:
            heeded.append(request)

    world.wire.write_faults.extend([preceded(busy)] * 300)
    pause(world.operator)
    assert world.state.control.paused
    assert world.runtime.monotonic() < 2 * TIMING.heartbeat + YIELD_WITHIN


def test_patience_ends_with_nothing_changed_and_no_request_left(world: World) -> None:
    def write_first() -> None:
        world.runtime.sleep(5.0)
        world.commit(6, release=True)

    for _ in range(100):
        world.wire.write_faults.append(preceded(write_first))
    with pytest.raises((WriteConflict, StoreError)):
        pause(world.operator)
    assert not world.state.control.paused
    found = world.memory.read(YIELD_REQUEST)
    assert not isinstance(found, Found) or json.loads(found.body) == {}


def test_what_review_raises_changes_nothing(world: World) -> None:
    class No(Exception):
        pass

    def refuse(copy: Copy) -> None:
        raise No

    before = world.memory.read(STATE)
    with pytest.raises(No):
        reset(world.operator, None, review=refuse)
    assert world.memory.read(STATE) == before
    assert world.backups() == []


def test_the_change_before_is_in_the_trail_before_it_is_pushed_out(world: World) -> None:
    pause(world.operator)
    delete(world.memory, "audit/shop/orders.jsonl")
    fresh = Operator(world.wire, app_name="shop", poller_name="orders", runtime=world.runtime, timing=TIMING, by="bob")
    resume(fresh)
    kinds = [json.loads(line)["kind"] for line in world.memory.lines("audit/shop/orders.jsonl")]
    assert kinds == ["pause", "resume"]


def test_a_deleted_document_differs_from_one_that_never_was(world: World) -> None:
    delete(world.memory, STATE)
    with pytest.raises(StoreError, match="never ran") as never:
        world.operator.look()
    assert not isinstance(never.value, StateCorrupt)
    world.memory.append("audit/shop/orders.jsonl", "{}")
    with pytest.raises(StateCorrupt, match="reset-to-checkpoint orders"):
        world.operator.look()


def test_a_change_that_was_outrun_says_that_nothing_was_changed(world: World) -> None:
    """Also where the time is over right before the next try: then nothing was sent, and nothing is unsure."""
    world.wire.write_faults.append(preceded(lambda: world.commit(6, release=True)))
    world.wire.read_faults.extend([fine, fine, preceded(lambda: world.runtime.sleep(61))])
    with pytest.raises(WriteConflict, match="Nothing was changed") as outrun:
        pause(world.operator)
    assert "may have been applied" not in str(outrun.value)
    assert not world.state.control.paused


def test_a_change_that_never_left_is_not_called_unsure(world: World) -> None:
    def refused(do: Callable[[], Any]) -> Any:
        raise StoreUnavailable("Connection refused.", document=STATE, sent=False)

    world.wire.write_faults.extend([refused] * 500)
    with pytest.raises(StoreUnavailable, match=r"was not sent.*Nothing was changed"):
        pause(world.operator)


def test_a_change_that_may_have_been_applied_says_so(world: World) -> None:
    world.wire.write_faults.extend([lost_before] * 500)
    with pytest.raises(StoreUnavailable, match="may have been applied"):
        pause(world.operator)
