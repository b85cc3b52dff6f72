"""How many rows are in memory at once: what the options say, however deep the table is and however slow the handler.

Counted, not weighed: each row that a page brings holds an object of its own, and whatever holds the row, or a copy of
it, keeps that object alive.
"""

from __future__ import annotations

import gc
from typing import Any
from weakref import WeakSet

import pytest

from poller import Batch
from poller.model.cursor import Cursor
from poller.ports import Bound, Page
from tests.integration.runner.fakes import World, Worlds, cursor_of, row

BATCH = 10
PAGE = 40
BATCHES = 80
"""Of a tick."""


class Held:
    """Lives as long as its row is in memory."""


class Endless:
    """The pages of a table without an end; `most`: rows in memory at once, as calls found them."""

    def __init__(self, world: World) -> None:
        self.alive: WeakSet[Held] = WeakSet()
        self.most = 0
        world.table.page = self.page  # type: ignore[method-assign]

    def page(self, after: Cursor | None, limit: int, *, lag_cap: int | None = None) -> Page:
        first = 0 if after is None or after.tiebreaker is None else int(after.tiebreaker["id"])
        rows: list[dict[str, Any]] = [{**row(first + at), "held": Held()} for at in range(1, limit + 1)]
        self.alive.update(one["held"] for one in rows)
        return Page(rows, [cursor_of(one) for one in rows], Bound("none"))

    def count(self) -> None:
        self.most = max(self.most, len(self.alive))


def most_at_once(worlds: Worlds, slow: int | None, **options: Any) -> int:
    """With a handler that takes half a second; `slow`: the batch with this row takes twenty times as long."""
    world = worlds(batch_size=BATCH, max_batches_per_tick=BATCHES, **options).begun()
    table = Endless(world)

    def handle(batch: Batch) -> None:
        table.count()
        world.runtime.sleep(10.0 if slow in {one["id"] for one in batch} else 0.5)
        table.count()

    gc.disable()  # rows go once nobody needs them: the collector has nothing to do
    try:
        result = world.tick(handle)
    finally:
        gc.enable()
    assert (result.outcome, result.batches) == ("delivered", BATCHES)
    return table.most


def pages(number: int) -> int:
    """So many pages, each with the row that shows whether others follow."""
    return number * (PAGE + 1)


@pytest.mark.guarantee(
    "Rows that commit late",
    "Memory is bounded by options: a slow handler on a deep table holds no more rows than "
    "[performance.md](../performance.md) says",
)
@pytest.mark.parametrize(
    ("options", "most"),
    [
        ({"read_ahead": 0}, 2 * (BATCH + 1)),
        ({}, pages(2) + BATCH + 1),
        ({"max_uncommitted": 4}, pages(2) + BATCH + 1 + 4 * BATCH),
        ({"concurrency": 2}, pages(5) + (8 + 2) * BATCH),
        ({"concurrency": 8}, pages(5) + (32 + 8) * BATCH),
        ({"concurrency": 8, "max_uncommitted": 8}, pages(5) + (8 + 8) * BATCH),
    ],
    ids=["no page ahead", "each", "grouped", "2 lanes", "8 lanes", "8 lanes, few uncommitted"],
)
@pytest.mark.parametrize("slow", [None, 5], ids=["", "one slow"])
def test_so_many_rows_are_in_memory(worlds: Worlds, options: dict[str, Any], most: int, slow: int | None) -> None:
    """As docs/performance.md says: a tick that reads on and on holds no more than one that reads a little."""
    found = most_at_once(worlds, slow, page_size=PAGE, **options)
    print(f"{found} of {most}")
    assert BATCH < found <= most < BATCHES * BATCH
