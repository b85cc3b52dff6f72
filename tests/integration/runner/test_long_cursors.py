"""Rows that fail and have very long keys: the state document never grows beyond what can be read again."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from poller import Batch
from poller.model.limits import LARGEST_BODY
from poller.ports import Event
from tests.integration.runner.fakes import LONGEST_WAIT, World, Worlds

LONG = {"one byte": "k" * 99_000, "three bytes": "€" * 33_000}


def rows_with_long_keys(worlds: Worlds, mode: str, key: str, *, rows: int, size: int, **options: Any) -> World:
    world = worlds(**{"batch_size": size, "on_poison": mode, "max_attempts": 1, "max_aside": 100, **options})
    for number in range(rows):
        world.table.rows.append({"id": f"{number:04d}{key}", "updated_at": "2026-04-01T00:00:00.000000Z"})
    return world


@pytest.mark.guarantee(
    "Delivery",
    "However long the keys of failing rows are, the state document can be written: a row that no longer fits blocks",
)
@pytest.mark.parametrize("mode", ["block", "quarantine"])
@pytest.mark.parametrize("key", LONG)
def test_failing_rows_with_the_longest_keys_block(worlds: Worlds, key: str, mode: str) -> None:
    world = rows_with_long_keys(worlds, mode, LONG[key], rows=8, size=2)
    done: list[str] = []
    down = True

    def handle(batch: Batch) -> None:
        if down:
            raise OSError("down")
        done.extend(row["id"][:4] for row in batch)

    for _ in range(6):
        assert world.tick_when_due(handle).outcome == "handler_failed"
    down = False
    for _ in range(4):
        world.tick_when_due(handle)
    assert sorted(done) == [f"{number:04d}" for number in range(8)]


def test_a_report_names_no_more_rows_than_can_be_listed(worlds: Worlds) -> None:
    world = rows_with_long_keys(worlds, "quarantine", "k" * 20_000, rows=50, size=50)

    def names_all(batch: Batch) -> None:
        for row in batch:
            batch.fail(row, "down")

    assert world.tick(names_all).outcome == "handler_failed"
    assert 0 < len(world.state.aside) < 50
    assert len(world.body) <= LARGEST_BODY
    for _ in range(3):
        world.tick_when_due()
    assert (len(world.delivered), world.state.aside) == (50, ())


@pytest.mark.guarantee(
    "Rows that commit late",
    "With `concurrency` every document fits whatever its lanes report, with keys of up to 100,000 bytes, so what is "
    "done does not come again",
)
@pytest.mark.parametrize(
    ("length", "rows", "size", "slow"),
    [
        pytest.param(1_500, 800, 200, 1.0, id="more rows than the document has space for"),
        pytest.param(45_000, 40, 10, 5.0, id="a few rows a lane, of which one is behind"),
        pytest.param(99_000, 20, 5, 1.0, id="no space for what four lanes have done"),
    ],
)
def test_lanes_have_no_more_rows_in_hand_than_can_be_listed(
    worlds: Worlds, length: int, rows: int, size: int, slow: float
) -> None:
    """Most rows are named, in all lanes at once. Those that are done do not come again."""
    options = {"concurrency": 4, "max_quarantined": 1_000, "max_attempts": 5, "page_size": rows}
    world = rows_with_long_keys(worlds, "quarantine", "k" * length, rows=rows, size=size, **options)
    done = Counter[str]()
    down, stop = True, world.runtime.event()

    def handle(batch: Batch) -> None:
        if batch.retry and down:
            stop.set()  # each try is two writes of a large document
        for row in batch:
            if down and int(row["id"][:4]) % 10:
                batch.fail(row, "down")
            else:
                done[row["id"][:4]] += 1
        world.runtime.sleep(slow if batch.standing.lane == 0 else 1.0)

    for _ in range(2):
        stop = world.runtime.event()
        world.runtime.sleep(LONGEST_WAIT)
        assert world.tick(handle, stop=stop).outcome == "handler_failed"
        assert len(world.body) <= LARGEST_BODY
    assert len(world.state.aside) >= 5
    down = False
    for _ in range(5 if rows < 100 else 0):
        world.tick_when_due(handle)
    assert (max(done.values()), rows < 100) == (1, len(done) == rows)
    del world.wire.sent[:-5]  # else each of the large documents is held to its schema


@pytest.mark.parametrize("place", [0, 2, 5])
def test_a_row_too_long_for_a_document_ends_no_search(worlds: Worlds, place: int) -> None:
    """In mid-batch it passes; a window that named it could not be written, and every tick would fail for ever."""
    world = worlds(batch_size=7, on_poison="block", max_attempts=1)
    for number in range(7):
        key = "k" * 900_000 if number == place else "k"
        world.table.rows.append({"id": f"{number}{key}", "updated_at": f"2026-04-01T00:00:0{number}.000000Z"})
    done: list[str] = []
    down = True

    def handle(batch: Batch) -> None:
        if down:
            raise OSError("down")
        done.extend(row["id"][0] for row in batch)

    for _ in range(4):
        assert world.tick_when_due(handle).outcome == "handler_failed"
    down = False
    for _ in range(4):
        world.tick_when_due(handle)
    assert done == list("0123456")


@pytest.mark.soak
def test_a_report_that_names_a_thousand_rows_fits(worlds: Worlds) -> None:
    """With short keys, as most are: the largest batch, all of whose rows fail, and fail again."""
    world = worlds(rows=1001, batch_size=1000, on_poison="quarantine", max_attempts=1, max_quarantined=1000)

    def names_all(batch: Batch) -> None:
        for one in batch:
            batch.fail(one, "no " * 200)

    assert world.tick(names_all).outcome == "handler_failed"
    assert (len(world.state.aside), world.state.checkpoint.position) == (1000, 1000)
    assert len(world.body) <= LARGEST_BODY
    for _ in range(2):
        stop = world.runtime.event()

        def again(batch: Batch, stop: Event = stop) -> None:
            stop.set()  # a thousand tries are a thousand writes of a megabyte
            names_all(batch)

        world.runtime.sleep(600)
        assert world.tick(again, stop=stop).outcome == "handler_failed"
        assert len(world.state.aside) == 1000
        assert len(world.body) <= LARGEST_BODY
