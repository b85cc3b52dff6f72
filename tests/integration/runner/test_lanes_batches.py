"""What a lane's batch is: its size, its place for a sink, and cursors that no document can hold."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from poller import Batch, Poller
from poller.errors import ConfigError, SourceError
from poller.sources import SqlSource
from poller.stores import MemoryStore
from tests.integration.runner.fakes import Worlds
from tests.integration.runner.laned import LANES, lane_of, laned


@pytest.mark.guarantee(
    "Rows that commit late",
    "With `concurrency` at most `max_uncommitted` batches are begun beyond the last commit, `batch_bytes` cuts each "
    "of them, and a fenced sink learns their places",
)
def test_no_more_is_begun_than_may_be_repeated(worlds: Worlds) -> None:
    """While a lane is slow, the others go on until so many batches would come again."""
    world = laned(worlds, 200, batch_size=1, max_uncommitted=12)
    world.world.tick(world.handler(seconds={1: 60.0}))
    first = world.calls[0]
    begun = [call for call in world.calls if call.begin < (first.end or 0.0)]
    landed = sum(1 for call in begun if call.ids[0] <= 0)
    assert (first.ids, len(begun) - landed, world.checkpoint) == ([1], 12, 200)


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"concurrency": 2, "max_uncommitted": 1}, "max_uncommitted"),
        ({"concurrency": 5, "max_uncommitted": 4}, "max_uncommitted"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options: dict[str, Any], key: str) -> None:
    source = SqlSource("sqlite://", table="orders", cursor_column="updated_at", pk_columns=["id"])
    with pytest.raises(ConfigError, match="concurrency") as refused:
        Poller("orders", source=source, store=MemoryStore(), app_name="shop", **options)
    assert refused.value.key == key


def test_a_size_in_bytes_cuts_the_batches_of_lanes(worlds: Worlds) -> None:
    world = laned(worlds, 60, batch_size=10, batch_bytes="2500B")
    for row in world.table.rows:
        row["total"] = "x" * 1000
    result = world.world.tick(world.handler())
    assert (result.rows, sorted(world.delivered)) == (60, list(range(1, 61)))
    assert {len(call.rows) for call in world.calls} <= {1, 2}


def test_a_sink_is_told_the_lane_and_what_has_landed(worlds: Worlds) -> None:
    world = laned(worlds, 100, batch_size=3)

    def then(batch: Batch) -> None:
        standing = batch.standing
        assert (standing.lanes, standing.lane) == (LANES, lane_of(batch.rows[0]["id"]))
        assert standing.through == batch.rows[-1]["id"], "its last row is the so manieth"
        assert standing.settled <= world.checkpoint

    result = world.world.tick(world.handler(then))
    assert (result.outcome, result.rows) == ("delivered", 100)
    assert world.calls[-1].batch.standing.settled > 0


def test_a_row_too_long_for_a_document_is_passed_with_others(worlds: Worlds) -> None:
    world = laned(worlds, 30)
    for row in world.table.rows:
        if row["id"] == 12:
            row["id"] = f"12{'k' * 200_000}"
        else:
            row["id"] = f"{row['id']:02d}"
    done: Counter[str] = Counter()

    def handle(batch: Batch) -> None:
        world.world.runtime.sleep(0.1)
        done.update(row["id"][:2] for row in batch)

    result = world.world.tick(handle)
    assert (result.outcome, result.rows) == ("delivered", 30)
    assert done == Counter(f"{number:02d}" for number in range(1, 31))


def test_a_last_row_too_long_for_a_document_is_an_error(worlds: Worlds) -> None:
    """The others are committed, and come no more."""
    world = laned(worlds, 30)
    for row in world.table.rows:
        row["id"] = f"{row['id']:02d}{'k' * 200_000 if row['id'] == 30 else ''}"
    done: Counter[str] = Counter()

    def handle(batch: Batch) -> None:
        world.world.runtime.sleep(0.1)
        done.update(row["id"][:2] for row in batch)

    for _ in range(3):
        with pytest.raises(SourceError, match="have 200"):
            world.world.tick(handle)
    assert [done[f"{number:02d}"] for number in range(1, 30)] == [1] * 29
    assert world.world.state.lease.owner_id is None
