"""Writes whose answer was lost, came late, or that met somebody else's: what the tick makes of them (protocol 2)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from poller import Batch
from poller.model import transitions
from poller.model.document import OperatorChange, State
from poller.observability import (
    LeaseLostEvent,
    WriteRedone,
    WriteResent,
    WriteResolved,
)
from tests.integration.runner.fakes import Worlds, cursor_of, once, raising, row
from tests.integration.runner.wire import Fault, fine, lost_after, lost_before, preceded, then_lost

TTL = 60.0


def paused(state: State) -> State:
    assert state.lease.heartbeat_at or state.lease.released_at
    record = OperatorChange(id="pause-1", kind="pause", by="ann")
    now = state.lease.heartbeat_at or state.lease.released_at
    assert now is not None
    return transitions.pause(state, by="ann", reason="deploy", change=record, now=now)


def reset(state: State) -> State:
    record = OperatorChange(id="reset-1", kind="reset", by="ann")
    now = state.checkpoint.updated_at
    assert now is not None
    return transitions.reset(state, cursor=cursor_of(row(2)), change=record, now=now)


# --- the answer is lost


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("fault", [lost_before, lost_after])
def test_a_lost_answer_to_any_write_is_resolved_in_place(worlds: Worlds, fault: Fault, number: int) -> None:
    """Acquire, commit, commit with release: the tick goes on as if nothing had been, and each row arrives once. A
    release that landed only with its second copy, over a second later, is stamped anew."""
    world = worlds(rows=15).begun()
    world.wire.write_faults.extend([*[fine] * number, fault])
    result = world.tick()
    assert (result.outcome, result.rows) == ("delivered", 15)
    assert world.delivered == list(range(1, 16))
    late = fault is lost_before and number == 2
    assert len(world.wire.writes) == 4 + late
    once(world, WriteResent)
    assert len(world.emitted(WriteResolved)) == (fault is lost_after)
    assert world.emitted(LeaseLostEvent) == []
    state = world.state
    assert (state.checkpoint.cursor, state.lease.owner_id, state.lease.fencing_token) == (cursor_of(row(15)), None, 1)


def test_a_retry_sends_the_same_bytes_under_the_same_condition(worlds: Worlds) -> None:
    world = worlds(rows=5).begun()
    world.wire.write_faults.extend([fine, lost_before, lost_before, lost_after])
    assert world.tick().outcome == "delivered"
    *commits, stamp = world.wire.writes[1:]
    assert len(commits) == 4
    assert len(set(commits)) == 1, "the same bytes and the same If-Match"
    assert stamp not in commits, "which stamps the late release anew"


def test_every_write_has_a_write_id_of_its_own(worlds: Worlds) -> None:
    world = worlds(rows=100)
    world.tick(world.busy(20))
    ids = [json.loads(body)["write_ids"][-1] for body, _ in world.wire.writes]
    assert len(set(ids)) == len(ids) > 11
    assert list(world.state.write_ids) == ids[-8:]


# --- somebody else wrote meanwhile


@pytest.mark.parametrize("fault", [fine, lost_before, lost_after])
def test_a_pause_beside_a_commit_is_kept_and_the_commit_too(worlds: Worlds, fault: Fault) -> None:
    world = worlds(rows=25).begun()

    def meddle(do: Callable[[], Any]) -> Any:
        world.change(paused)
        return fault(do)

    def handle(batch: Batch) -> None:
        world.take(batch)
        world.wire.write_faults.append(meddle)

    result = world.tick(handle)
    assert (result.outcome, result.rows) == ("delivered", 10), "the batch in hand is finished, no other starts"
    state = world.state
    assert state.control.paused
    assert state.control.reason == "deploy"
    assert state.checkpoint.cursor == cursor_of(row(10))
    assert (state.lease.owner_id, state.delivery.attempts) == (None, 0)
    once(world, WriteRedone)
    assert world.tick().outcome == "paused"


def test_no_call_begins_once_the_loss_is_known(worlds: Worlds) -> None:
    """The write that names the next piece landed, but its answer was lost, and another took the lease then."""
    world = worlds(rows=4, max_attempts=1).begun()
    world.tick(raising(ValueError("no")))

    def handle(batch: Batch) -> None:
        world.take(batch)
        world.wire.write_faults.extend([fine, then_lost(world.take_over)])

    assert world.tick_when_due(handle).outcome == "lease_lost"
    assert world.delivered == [1, 2]


def test_a_resume_after_an_acquire_keeps_the_attempt(worlds: Worlds) -> None:
    world = worlds(rows=5).begun()
    record = OperatorChange(id="r1", kind="resume", by="ann")

    def resume() -> None:
        world.change(lambda state: transitions.resume(state, change=record, now=world.runtime.utcnow()))

    world.wire.write_faults.append(then_lost(resume))
    assert world.tick().outcome == "delivered"
    assert [seen.attempt for seen in world.seen] == [1]


def test_a_commit_that_landed_and_was_taken_over_ends_the_tick(worlds: Worlds) -> None:
    world = worlds(rows=25).begun()

    def break_it() -> None:
        world.change(lambda state: reset(state).with_write_id("operator"))

    def handle(batch: Batch) -> None:
        world.take(batch)
        world.wire.write_faults.append(then_lost(break_it))

    result = world.tick(handle)
    assert (result.outcome, result.rows) == ("lease_lost", 10)
    assert world.delivered == list(range(1, 11))
    assert world.state.checkpoint.cursor == cursor_of(row(2)), "the operator's word is the last"


def test_a_reset_during_a_batch_wins_over_its_commit(worlds: Worlds) -> None:
    world = worlds(rows=5).begun()

    def handle(batch: Batch) -> None:
        world.take(batch)
        world.change(reset)

    assert world.tick(handle).outcome == "lease_lost"
    assert world.state.checkpoint.cursor == cursor_of(row(2))
    assert world.emitted(LeaseLostEvent)[0].reason == "broken"
    world.seen.clear()
    assert world.tick().outcome == "delivered"
    assert world.delivered == [3, 4, 5]


def test_an_acquire_that_was_broken_starts_no_handler(worlds: Worlds) -> None:
    world = worlds(rows=5).begun()
    world.wire.write_faults.append(
        then_lost(lambda: world.change(lambda state: reset(state).with_write_id("operator")))
    )
    assert world.tick().outcome == "delivered"
    assert world.delivered == [3, 4, 5]
    assert world.state.lease.fencing_token == 3


def test_a_pause_that_beats_the_acquire_is_heeded(worlds: Worlds) -> None:
    world = worlds(rows=5).begun()
    world.wire.write_faults.append(preceded(lambda: world.change(paused)))
    assert world.tick().outcome == "paused"
    assert world.delivered == []
    assert world.state.lease.owner_id is None


def test_a_strangers_touch_that_changes_only_the_tag_stops_nobody(worlds: Worlds) -> None:
    world = worlds(rows=15).begun()
    world.wire.write_faults.extend([preceded(lambda: world.put(world.body)), fine] * 3)
    assert world.tick().rows == 15
    assert world.delivered == list(range(1, 16))


def test_a_touch_before_every_acquire_looks_like_a_busy_poller(worlds: Worlds) -> None:
    world = worlds(rows=5).begun()
    world.wire.write_faults.extend([preceded(lambda: world.put(world.body))] * 2)
    assert world.tick().outcome == "held_elsewhere"
    assert world.tick().outcome == "delivered"
