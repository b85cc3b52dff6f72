"""How a tick with several lanes ends: they finish what they have, and what is done does not come again."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from poller import Batch
from poller.errors import SourceUnavailable
from poller.model import transitions
from poller.model.document import OperatorChange
from poller.observability import LeaseReleased
from tests.integration.runner.clockwork import Clockwork
from tests.integration.runner.fakes import Worlds
from tests.integration.runner.laned import LANES, Laned, lane_of, laned, moved

ROWS = 60
SLOW = {number: 3.0 for number in range(1, ROWS + 1) if lane_of(number) == lane_of(1)}
"""The first lane is slower than the others, so that these are ahead of it."""


def _stops(world: Laned) -> dict[str, Any]:
    stop = world.world.runtime.event()

    def soon() -> None:
        world.world.runtime.sleep(1.0)
        stop.set()

    world.world.runtime.start(soon)
    return {"stop": stop}


def _pauses(world: Laned) -> dict[str, Any]:
    def soon() -> None:
        world.world.runtime.sleep(1.0)
        world.world.pause()

    world.world.runtime.start(soon)
    return {}


ENDS: dict[str, tuple[dict[str, Any], Callable[[Laned], dict[str, Any]]]] = {
    "stop": ({}, _stops),
    "pause": ({"heartbeat_interval": "500ms", "lease_ttl": "10s"}, _pauses),
    "tick_timeout": ({"tick_timeout": "4s", "handler_timeout": "4s"}, lambda world: {}),
    "max_batches_per_tick": ({"max_batches_per_tick": 8}, lambda world: {}),
}


@pytest.mark.guarantee(
    "Rows that commit late",
    "With `concurrency` a tick that ends gives its lease back once all lanes have finished what they have, and what "
    "is done does not come again, in another process either",
)
@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("mode", ["block", "quarantine"])
def test_what_is_done_when_a_tick_ends_is_done(worlds: Worlds, how: str, mode: str) -> None:
    options, begins = ENDS[how]
    world = laned(worlds, ROWS, on_poison=mode, **options)
    result = world.world.tick(world.handler(seconds=SLOW), **begins(world))
    state = world.world.state
    assert all(call.end is not None for call in world.calls), "each finished what it had"
    assert (state.lease.owner_id, state.delivery.attempts) == (None, 0)
    assert (result.outcome, result.rows) == ("delivered", len(world.begun))
    assert 0 < len(world.begun) < ROWS
    assert state.delivery.lanes is not None, "some lanes were ahead of the first one"
    if how == "pause":
        world.world.resume()
    for _ in range(20):
        world.world.tick(world.handler(seconds=SLOW), worker=world.world.another())
    assert Counter(world.begun) == Counter(range(1, ROWS + 1))
    assert (world.checkpoint, world.lost, world.world.state.delivery.lanes) == (ROWS, [], None)


def _other_lanes(number: int) -> Callable[[Laned], dict[str, Any]]:
    return lambda world: {"concurrency": number}


def _other_key(world: Laned) -> dict[str, Any]:
    world.table.ordering_key = ("customer",)
    return {"ordering_key": ("customer",)}


def _reset(world: Laned) -> dict[str, Any]:
    record, now = OperatorChange(id="r1", kind="reset", by="ann"), world.world.runtime.utcnow()
    world.world.change(lambda state: transitions.reset(state, cursor=None, change=record, now=now))
    world.done.clear()
    return {}


def _rebound(world: Laned) -> dict[str, Any]:
    record, now = OperatorChange(id="r1", kind="rebind", by="ann"), world.world.runtime.utcnow()
    source = world.table.description
    world.world.change(lambda state: transitions.rebind(state, source=source, change=record, now=now))
    return {}


BETWEEN: dict[str, tuple[Callable[[Laned], dict[str, Any]], bool]] = {
    "one lane": (_other_lanes(1), True),
    "fewer lanes": (_other_lanes(2), True),
    "more lanes": (_other_lanes(16), True),
    "another ordering key": (_other_key, False),
    "a reset": (_reset, False),
    "a rebind": (_rebound, False),
}


@pytest.mark.parametrize("between", BETWEEN)
def test_nothing_is_lost_whatever_changes_between_ticks(worlds: Worlds, between: str) -> None:
    change, keeps = BETWEEN[between]
    world = laned(worlds, ROWS, customers=0, max_batches_per_tick=8)
    world.world.tick(world.handler(seconds=SLOW))
    assert world.world.state.delivery.lanes is not None
    before = set(world.begun)
    options = change(world)
    world.calls.clear()
    other = world.world.another(**{"max_batches_per_tick": 0, **options})
    for _ in range(10):
        world.world.tick(world.handler(), worker=other)
    handed = set(world.begun)
    assert (world.checkpoint, world.lost) == (ROWS, [])
    assert "lanes" not in world.world.body.decode()
    assert len(world.begun) == len(handed), "no row twice"
    if keeps:
        assert not handed & before, "what was done did not come again"
    elif between == "a reset":
        assert handed == set(range(1, ROWS + 1))


def test_what_is_done_is_committed_before_an_outage_is_raised(worlds: Worlds) -> None:
    world = laned(worlds, ROWS, read_ahead=0)
    world.table.faults.extend([None, None, SourceUnavailable("The database does not answer.", table="orders")])
    with pytest.raises(SourceUnavailable):
        world.world.tick(world.handler(seconds=SLOW))
    assert all(call.end is not None for call in world.calls)
    assert (world.world.state.lease.owner_id, world.lost) == (None, [])
    begun = len(world.begun)
    assert 0 < begun < ROWS
    while world.checkpoint < ROWS:
        world.world.tick(world.handler())
    assert Counter(world.begun) == Counter(range(1, ROWS + 1))


@pytest.mark.parametrize("times", [1, 2, 4])
def test_ctrl_c_gives_nothing_back_before_all_lanes_end(
    worlds: Worlds, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """It is thrown into the thread of the tick, while that waits for its lanes; and again, meanwhile."""
    world = laned(worlds, ROWS)
    left, waits = times, Clockwork.wait

    def wait(self: Clockwork, ready: Callable[[], bool], timeout: float | None) -> bool:
        nonlocal left
        found = waits(self, ready, timeout)
        at_work = sum(call.end is None for call in world.calls)
        if left and timeout is None and at_work and len(world.calls) > LANES and _is_main():
            left -= 1
            raise KeyboardInterrupt
        return found

    monkeypatch.setattr(Clockwork, "wait", wait)
    released: list[bool] = []

    def then(batch: Batch) -> None:
        released.append(bool(world.world.emitted(LeaseReleased)))

    with pytest.raises(KeyboardInterrupt):
        world.world.tick(world.handler(then))
    assert (left, any(released)) == (0, False)
    assert all(call.end is not None for call in world.calls)
    assert (world.world.state.lease.owner_id, world.lost) == (None, [])
    while world.checkpoint < ROWS:
        world.world.tick(world.handler())
    assert Counter(world.begun) == Counter(range(1, ROWS + 1))


def test_what_is_done_far_ahead_is_known_although_rows_move(worlds: Worlds) -> None:
    """One lane was slow: the others are ahead by more than a page. The last row of the next page moves once it was
    read."""
    world = laned(worlds, 100, batch_size=1, max_uncommitted=100, max_batches_per_tick=25)
    world.world.tick(world.handler(seconds=dict.fromkeys(SLOW, 50.0)))
    ahead = len(world.begun)
    assert (ahead, max(world.begun) - world.checkpoint > 2 * LANES) == (25, True)
    reads = 0

    def reading() -> None:
        nonlocal reads
        reads += 1
        if reads == 1:
            rows = [row["id"] for row in world.table.rows if row["id"] > world.checkpoint]
            moved(world, rows[LANES - 1], 200)

    world.table.reading = reading
    other = world.world.another(max_batches_per_tick=0)
    for _ in range(5):
        world.world.tick(world.handler(), worker=other)
    done = Counter(row for call in world.calls for row in call.done)
    assert (world.lost, max(done.values())) == ([], 1)
    assert {number for number, _ in done} == set(range(1, 101))


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()


@pytest.mark.parametrize("name", ["poller-lane", "poller-reader", "poller-committer"])
def test_a_thread_that_cannot_be_started_stops_nothing(
    worlds: Worlds, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    world = laned(worlds, ROWS)
    spawn = Clockwork.spawn

    def refuses(self: Clockwork, target: Callable[[], None], what: str) -> Any:
        if what.startswith(name):
            raise RuntimeError("can't start new thread")
        return spawn(self, target, what)

    monkeypatch.setattr(Clockwork, "spawn", refuses)
    result = world.world.tick(world.handler())
    assert (result.outcome, result.rows, world.checkpoint, world.lost) == ("delivered", ROWS, ROWS, [])
    assert Counter(world.begun) == Counter(range(1, ROWS + 1))


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)], ids=lambda error: type(error).__name__)
def test_a_lane_that_ends_the_process_waits_for_the_others(worlds: Worlds, error: BaseException) -> None:
    world = laned(worlds, ROWS)

    def then(batch: Batch) -> None:
        if any(row["id"] == 9 for row in batch) and len(world.world.table.pages) < 50:
            world.world.table.pages.extend([None] * 50)
            raise error

    if isinstance(error, KeyboardInterrupt):
        with pytest.raises(KeyboardInterrupt):
            world.world.tick(world.handler(then, seconds=SLOW))
    else:
        assert world.world.tick(world.handler(then, seconds=SLOW)).outcome == "handler_failed"
    assert sum(call.end is None for call in world.calls) == 1
    assert (world.world.state.lease.owner_id, world.lost) == (None, [])
    while world.checkpoint < ROWS:
        world.world.tick_when_due(world.handler())
    assert all(count == 1 for number, count in Counter(world.delivered).items()), "what was done did not come again"
