"""A call or a commit that fails while other commits are on their way: what is done is done, in order, and once."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from poller.errors import StoreDenied
from poller.handler.batch import Batch
from poller.observability import BatchCommitted
from tests.integration.runner.fakes import World, Worlds, add, settled
from tests.integration.runner.wire import denied

ROWS = 12
MODES: dict[str, dict[str, Any]] = {
    "block": {"on_poison": "block"},
    "searched": {"on_poison": "block", "max_attempts": 1},
    "halt": {"on_poison": "halt", "max_attempts": 50},
    "quarantine": {"on_poison": "quarantine"},
}


def grouped(worlds: Worlds, **options: Any) -> World:
    """Rows for a poller whose commits take three seconds each, while its handler is quick."""
    world = settled(worlds(max_uncommitted=4, batch_size=1, **options))
    add(world, 1, ROWS)
    write = world.wire.write

    def slow(name: str, body: bytes, **how: Any) -> Any:
        if name.startswith("state/") and world.seen:
            world.runtime.sleep(3.0)
        return write(name, body, **how)

    world.wire.write = slow  # type: ignore[method-assign]
    return world


def checkpoint(world: World) -> int:
    cursor = world.state.checkpoint.cursor
    return 0 if cursor is None or cursor.tiebreaker is None else int(cursor.tiebreaker["id"])


@pytest.mark.parametrize("names", [False, True], ids=["raises", "names it"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("bad", [2, 4, 5, 6])
def test_what_is_done_before_a_row_that_fails_comes_once(worlds: Worlds, bad: int, mode: str, names: bool) -> None:
    """The call fails while the commits of those before it are on their way, or wait for others that share their write:
    the first is on its way when the fifth row is called, and four wait then."""
    world = grouped(worlds, **MODES[mode])
    done: list[int] = []
    works = False

    def handle(batch: Batch) -> None:
        world.take(batch)
        world.runtime.sleep(0.1)
        for one in batch:
            if one["id"] != bad or works:
                done.append(one["id"])
            elif names:
                batch.fail(one, "not now")
            else:
                raise ValueError("not now")

    assert world.tick(handle).outcome == "handler_failed"
    assert checkpoint(world) >= bad - 1, "what was done has landed with the failure"
    works = True
    for _ in range(4):
        world.tick_when_due(handle)
    assert Counter(done) == Counter(range(1, ROWS + 1))
    assert (checkpoint(world), world.state.aside) == (ROWS, ())


def test_no_commit_follows_one_that_failed(worlds: Worlds) -> None:
    """The store refuses a commit, and would take the next: then the checkpoint would pass rows that nothing reported,
    and that `poller recheck` would take for late."""
    world = grouped(worlds)
    refuses = 2

    def handle(batch: Batch) -> None:
        world.take(batch)
        if len(world.seen) == refuses:
            world.wire.write_faults.append(denied)

    with pytest.raises(StoreDenied):
        world.tick(handle)
    reported = sum(event.rows for event in world.emitted(BatchCommitted))
    assert checkpoint(world) == reported < len(world.delivered)
    for _ in range(2):
        world.tick_when_due()
    assert checkpoint(world) == ROWS
