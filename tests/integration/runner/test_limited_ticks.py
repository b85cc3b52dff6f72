"""`max_batches_per_tick` counts every call of the handler: batches, tries of rows that were set aside, and parts of a
batch that is searched. Batches and tries take turns then, so that neither holds up the other."""

from __future__ import annotations

from typing import Any

import pytest

from poller import Batch
from tests.integration.runner.fakes import World, Worlds, add

ASIDE = 20
SETTINGS = {"on_poison": "quarantine", "max_attempts": 1000, "max_aside": 100, "retry_backoff_max": "1s"}


class Calls:
    """The calls of the tick that runs, and a handler that fails for some rows. `bad`: ids of rows that fail."""

    def __init__(self, *bad: int) -> None:
        self.bad = set(bad)
        self.made: list[str] = []
        self.done: list[int] = []

    def handle(self, batch: Batch) -> None:
        self.made.append("try" if batch.retry else "batch")
        for one in batch:
            if one["id"] in self.bad:
                batch.fail(one, "not now")
            else:
                self.done.append(one["id"])

    def tick(self, world: World, seconds: float = 2.0) -> Any:
        """A tick once each row aside is due; what it called is in `made`."""
        world.runtime.sleep(seconds)
        self.made.clear()
        return world.tick(self.handle)


def set_aside(worlds: Worlds, **options: Any) -> tuple[World, Calls]:
    """Rows that are aside and due, and fail, and the poller that tries them."""
    world = worlds(rows=ASIDE, **SETTINGS, batch_size=ASIDE).begun()
    calls = Calls(*range(1, ASIDE + 1))
    assert calls.tick(world).aside == ASIDE
    world.worker = world.another(**{"batch_size": 1, **options})
    return world, calls


@pytest.mark.guarantee(
    "Delivery",
    "A tick makes at most `max_batches_per_tick` calls of the handler, and with any limit rows aside and new rows "
    "both come",
)
@pytest.mark.parametrize("lanes", [1, 3])
@pytest.mark.parametrize("works", [True, False], ids=["they work", "they fail"])
@pytest.mark.parametrize("limit", [1, 3])
def test_tries_of_rows_aside_count_as_batches(worlds: Worlds, limit: int, works: bool, lanes: int) -> None:
    world, calls = set_aside(worlds, max_batches_per_tick=limit, concurrency=lanes)
    if works:
        calls.bad.clear()
    add(world, 100, 100)
    for _ in range(6):
        result = calls.tick(world)
        assert (len(calls.made), result.left) == (limit, result.outcome == "delivered")
        assert world.state.lease.owner_id is None


@pytest.mark.parametrize("works", [True, False], ids=["they work", "they fail"])
@pytest.mark.parametrize("limit", [1, 2, 3, 7])
def test_tries_and_batches_take_turns_tick_by_tick(worlds: Worlds, limit: int, works: bool) -> None:
    world, calls = set_aside(worlds, max_batches_per_tick=limit)
    if works:
        calls.bad.clear()
    add(world, 100, 100)
    made: list[str] = []
    while len(made) < 28:
        calls.tick(world)
        made += calls.made
    tries = made.count("try")
    assert abs(tries - len(made) / 2) <= 1
    assert "try try try" not in " ".join(made)
    assert "batch batch batch" not in " ".join(made)


def test_what_works_again_all_comes_with_a_limit_of_one(worlds: Worlds) -> None:
    world, calls = set_aside(worlds, max_batches_per_tick=1, batch_size=ASIDE)
    calls.bad.clear()
    add(world, 100, 5 * ASIDE)
    for _ in range(ASIDE + 5):
        assert calls.tick(world).outcome == "delivered"
    assert sorted(calls.done) == [*range(1, ASIDE + 1), *range(100, 100 + 5 * ASIDE)]
    assert world.state.aside == ()
    assert calls.tick(world).outcome == "idle"


def test_a_last_try_leaves_nothing(worlds: Worlds) -> None:
    """What ends as the limit is reached is not said to have left rows: nothing goes on at once for them."""
    world, calls = set_aside(worlds, max_batches_per_tick=ASIDE)
    calls.bad.clear()
    result = calls.tick(world)
    assert (result.outcome, result.left, calls.made) == ("delivered", False, ["try"] * ASIDE)


@pytest.mark.parametrize("mode", ["block", "halt", "quarantine"])
def test_calls_that_search_the_row_that_fails_count(worlds: Worlds, mode: str) -> None:
    world = worlds(rows=8, batch_size=8, on_poison=mode, max_attempts=1, max_batches_per_tick=1).begun()
    calls: list[list[int]] = []

    def handle(batch: Batch) -> None:
        calls.append([one["id"] for one in batch])
        if any(one["id"] == 6 for one in batch):
            raise ValueError("one of them")

    found = 0
    while [6] not in calls:
        found += 1
        world.tick_when_due(handle)
        assert len(calls) == found, "one call in each tick"
    assert found <= 2 * 3 + 4
