"""Rows that are read while the handler works: in order, each once, of one thread at a time, and never old ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from poller import Batch
from poller.observability import LeaseLostEvent
from poller.ports import Page
from poller.tick import KEPT_FOR
from tests.integration.runner.fakes import Table, World, Worlds, row, stamp_of
from tests.integration.runner.laned import Laned, laned


def pages(world: World) -> list[int]:
    """The ids after which pages were read."""
    return [
        0 if after is None or after.tiebreaker is None else int(after.tiebreaker["id"]) for after in world.table.pages
    ]


@pytest.mark.guarantee("Rows that commit late", "What is read ahead is delivered as if it was read then, or read again")
def test_one_page_serves_several_batches(worlds: Worlds) -> None:
    world = worlds(rows=70, page_size=30)
    result = world.tick()
    assert (result.rows, result.batches, world.delivered) == (70, 7, list(range(1, 71)))
    assert pages(world) == [0, 10, 40]


def test_a_page_is_read_while_the_handler_works(worlds: Worlds) -> None:
    world = worlds(rows=30, page_size=10)
    world.table.page_seconds = 2
    result = world.tick(world.busy(2))
    assert (result.rows, result.duration_seconds) == (30, 8), "one page, then three calls"


def test_off_it_sees_what_the_handler_wrote(worlds: Worlds) -> None:
    world = worlds(rows=20, read_ahead=0)

    def handle(batch: Batch) -> None:
        world.take(batch)
        world.table.rows = [one for one in world.table.rows if one["id"] != 15]

    world.tick(handle)
    assert 15 not in world.delivered
    assert pages(world) == [0, 10]


def test_no_more_is_read_than_may_be_handed_over(worlds: Worlds) -> None:
    world = worlds(rows=100, max_batches_per_tick=2)
    sizes: list[int] = []
    read = world.table.page

    def page(after: Any, limit: int, **_: Any) -> Page:
        sizes.append(limit)
        return read(after, limit)

    world.table.page = page  # type: ignore[method-assign]
    assert world.tick().rows == 20
    assert sizes == [11, 11]


def test_large_rows_make_small_pages(worlds: Worlds) -> None:
    """A page takes about 64 MB."""
    world, text = worlds(rows=0, page_size=1000), "x" * 2_600_000
    world.table.rows = [{**row(number), "text": text} for number in range(1, 101)]
    world.tick()
    assert world.delivered == list(range(1, 101))
    assert pages(world) == [0, 10, 30, 50, 70, 90]


def test_nothing_read_ahead_outlives_a_lost_lease(worlds: Worlds) -> None:
    """The successor delivers what the table holds then, and this tick hands over nothing more."""
    world = worlds(rows=40, page_size=10)

    def handle(batch: Batch) -> None:
        world.take(batch)
        if len(world.seen) == 2:
            world.take_over()

    assert world.tick(handle).outcome == "lease_lost"
    assert world.emitted(LeaseLostEvent)
    assert world.delivered == list(range(1, 21))


class OneAtATime(Table):
    """Fails where two threads use it at once."""

    used = False

    def page(self, after: Any, limit: int, *, lag_cap: int | None = None) -> Page:
        assert not self.used
        self.used = True
        try:
            return super().page(after, limit)
        finally:
            self.used = False

    def lag(self, after: Any, *, cap: int) -> Any:
        assert not self.used
        return super().lag(after, cap=cap)


def test_the_source_is_one_threads_at_a_time(worlds: Worlds) -> None:
    world = worlds(rows=0, page_size=20, tick_timeout="60s")
    table = OneAtATime(world.runtime)
    table.rows, table.page_seconds = World(90).table.rows, 3.0
    world.table = table
    world.worker = world.another()
    for seconds in (1, 4, 7):
        world.tick(world.busy(seconds))
    assert world.delivered == list(range(1, 91))


def _aging(world: Laned, then: Callable[[int], None] = lambda number: None) -> Callable[[Batch], None]:
    """A handler that takes three seconds, and then does that with the number of its call. Each row says when it was
    read."""

    def reading() -> None:
        for one in world.table.rows:
            one["read"] = world.world.runtime.monotonic()

    def handle(batch: Batch) -> None:
        then(len(world.calls))

    world.table.reading = reading
    return world.handler(handle, seconds=dict.fromkeys(range(1, 1_000), 3.0))


def _ages(world: Laned) -> list[float]:
    return [call.begin - row["read"] for call in world.calls for row in call.batch.rows]


@pytest.mark.guarantee(
    "Rows that commit late",
    "No call begins with a row that was read more than 5 s before, with any number of lanes, however long the "
    "handler, the lease, a record or a commit takes: a row that was changed, superseded or deleted earlier comes as "
    "it is then, or not at all. If the process is held up, the 5 s count from when it goes on; the start of a child "
    "process counts as part of the call, and rows that were set aside come from their records",
)
@pytest.mark.parametrize("keyed", [0, 20], ids=["by the key columns", "by a column"])
@pytest.mark.parametrize("lanes", [1, 2, 5])
def test_no_row_is_handed_over_long_after_it_was_read(worlds: Worlds, lanes: int, keyed: int) -> None:
    world = laned(worlds, 100, concurrency=lanes, customers=keyed, tick_timeout="20m", handler_timeout="1m")
    result = world.world.tick(_aging(world))
    assert (result.rows, world.checkpoint, world.lost) == (100, 100, [])
    assert max(_ages(world)) <= KEPT_FOR
    assert sorted(world.begun) == list(range(1, 101))
    assert world.overtaken(lambda number: number % (keyed or 1_000)) == []


CHANGES: dict[str, Callable[[Laned], Any]] = {
    "a row is updated": lambda world: world.table.rows[79].update(status="cancelled"),
    "a row is deleted": lambda world: world.table.rows.pop(79),
    "a row moves behind": lambda world: world.table.rows[79].update(updated_at=stamp_of(200), status="cancelled"),
    "a row appears between": lambda world: world.table.rows.append({**row(300, at=stamp_of(80)), "customer": ""}),
    "many rows move": lambda world: [
        one.update(updated_at=stamp_of(200 + at)) for at, one in enumerate(world.table.rows[59:94])
    ],
    "a lane's last row is deleted": lambda world: world.table.rows.pop(),
}


@pytest.mark.parametrize("keyed", [0, 20], ids=["by the key columns", "by a column"])
@pytest.mark.parametrize("change", CHANGES)
def test_rows_that_wait_in_a_lane_are_handed_over_as_they_are_now(worlds: Worlds, change: str, keyed: int) -> None:
    world = laned(worlds, 100, customers=keyed, tick_timeout="20m", handler_timeout="1m")

    changed = False

    def then(calls: int) -> None:
        nonlocal changed
        if not changed and calls > 1:
            changed = True
            CHANGES[change](world)

    handle = _aging(world, then)
    world.world.tick(handle)
    world.world.tick(handle)
    expected = {(one["id"], one["updated_at"]) for one in world.table.rows}
    handed = [version for call in world.calls for version in call.rows]
    assert (set(handed), len(handed)) == (expected, len(expected)), "each version once, none that has gone"
    assert {one.get("status") for call in world.calls for one in call.batch.rows if one["id"] == 80} <= {
        next((one.get("status") for one in world.table.rows if one["id"] == 80), None)
    }
    assert (world.lost, max(_ages(world)) <= KEPT_FOR) == ([], True)
    last = max((one["updated_at"], one["id"]) for one in world.table.rows)[1]
    assert world.checkpoint == last


def test_rows_that_are_searched_for_one_that_fails_are_read_again(worlds: Worlds) -> None:
    """Each call takes longer than rows may be old, and changes all of them."""
    world = worlds(rows=8, batch_size=8, on_poison="quarantine", max_attempts=1, tick_timeout="20m")
    handed: list[set[int]] = []

    def handle(batch: Batch) -> None:
        if batch.retry:  # from its record
            return
        handed.append({one["total"] for one in batch})
        for one in world.table.rows:
            one["total"] = len(handed)
        world.runtime.sleep(6)
        if any(one["id"] == 5 for one in batch):
            raise ValueError("no such customer")

    for one in world.table.rows:
        one["total"] = 0
    world.table.page = lambda after, limit, **_: _copied(Table.page(world.table, after, limit))  # type: ignore[method-assign]
    for _ in range(2):
        world.tick_when_due(handle)
    assert len(handed) == 5
    assert handed == [{calls} for calls in range(len(handed))]


def _copied(page: Page) -> Page:
    return Page([dict(one) for one in page.rows], page.cursors, page.bound)
