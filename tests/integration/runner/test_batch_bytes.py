"""Batches that are cut by size: each row counts, none is lost and none comes twice."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from poller import Batch, Poller
from poller.errors import ConfigError
from poller.sources import SqlSource
from poller.stores import MemoryStore
from poller.tick import Recheck
from poller.tick.sizes import row_bytes, rows_that_fit
from tests.integration.runner.fakes import World, Worlds, cursor_of, row


def texts(world: World, *lengths: int) -> None:
    """Rows 1, 2, ..., each with a text of so many characters."""
    world.table.rows = [{**row(number), "text": "x" * length} for number, length in enumerate(lengths, 1)]


def batches(world: World) -> list[list[int]]:
    return [seen.rows for seen in world.seen]


@pytest.mark.guarantee("Rows that commit late", "No batch is larger than `batch_bytes`, but one of a single row")
def test_a_batch_ends_before_the_row_that_makes_it_too_large(worlds: Worlds) -> None:
    world = worlds(batch_bytes="10KB")
    texts(world, 4000, 4000, 4000, 50_000, 10, 10)
    result = world.tick()
    assert batches(world) == [[1, 2], [3], [4], [5, 6]]
    assert (result.rows, result.batches) == (6, 4)
    assert world.state.lease.owner_id is None


@pytest.mark.parametrize("heavy", [0, 5_000, 9_999])
def test_no_row_is_overlooked_by_sampling(heavy: int) -> None:
    rows: list[dict[str, Any]] = [row(number) for number in range(10_000)]
    rows[heavy] = {**rows[heavy], "text": "x" * 5_000_000}
    assert rows_that_fit(2_000_000, rows) == max(1, heavy)


def test_texts_count_as_utf_8_and_documents_with_all_they_hold() -> None:
    small = row_bytes({"text": "", "document": None})
    assert row_bytes({"text": "\N{SNOWMAN}" * 100, "document": None}) == small + 300
    assert row_bytes({"text": "", "document": {"list": [{"deep": "x" * 1000}, b"y" * 1000]}}) > small + 2000
    deep: Any = "x"
    for _ in range(5000):
        deep = [deep]
    assert row_bytes({"text": "", "document": deep}) > small + 5000


def test_as_many_batches_as_a_tick_may_have(worlds: Worlds) -> None:
    """The page holds more of them; what is left comes in the next tick, and no page is read for nothing."""
    world = worlds(batch_size=10, page_size=10, batch_bytes="10KB", max_batches_per_tick=3)
    texts(world, *[4000] * 15)
    assert world.tick().rows == 6
    assert len(world.table.pages) == 1
    assert [world.tick().rows for _ in range(3)] == [6, 3, 0]
    assert world.delivered == list(range(1, 16))


@pytest.mark.parametrize("mode", ["block", "quarantine"])
def test_a_row_that_fails_is_found_in_a_batch_that_was_cut(worlds: Worlds, mode: str) -> None:
    world = worlds(batch_bytes="18KB", max_attempts=2, on_poison=mode)
    texts(world, *[4000] * 12)
    bad = {6}

    def handle(batch: Batch) -> None:
        world.take(batch)
        if bad.intersection(one["id"] for one in batch):
            raise ValueError("no such customer")

    for _ in range(6):
        world.tick_when_due(handle)
    assert max(len(rows) for rows in batches(world)) == 4
    assert [6] in batches(world)
    bad.clear()
    for _ in range(3):
        world.tick_when_due(handle)
    assert set(world.delivered) == set(range(1, 13))
    assert world.state.checkpoint.cursor is not None
    assert world.state.checkpoint.cursor.tiebreaker == {"id": 12}
    assert not world.state.aside


def test_without_reading_ahead_each_batch_is_read_anew(worlds: Worlds) -> None:
    """A batch sees what the handler wrote to the table, although more of the page is there."""
    world = worlds(batch_bytes="10KB", read_ahead=0)
    texts(world, *[4000] * 6)

    def handle(batch: Batch) -> None:
        world.take(batch)
        world.table.rows = [one for one in world.table.rows if one["id"] != 3]

    world.tick(handle)
    assert batches(world) == [[1, 2], [4, 5], [6]]


def test_late_rows_are_cut_too(worlds: Worlds) -> None:
    world = worlds(rows=0, batch_bytes="10KB").begun()
    texts(world, 4000, 4000, 4000, 20_000, 10)
    rows = world.table.rows
    found = Recheck(rows=list(rows), cursors=[cursor_of(one) for one in rows])
    world.worker.redeliver(found, world.take)
    assert batches(world) == [[1, 2], [3], [4], [5]]
    assert found.redelivered == 5


def test_a_real_table_arrives_whole_and_so_does_a_backfill(sqlite_url: str) -> None:
    engine = sa.create_engine(sqlite_url)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE letters (id INTEGER PRIMARY KEY NOT NULL, body TEXT NOT NULL)")
        insert = sa.text("INSERT INTO letters VALUES (:id, :body)")
        connection.execute(insert, [{"id": n, "body": "x" * (3000 if n % 7 else 30_000)} for n in range(1, 301)])
    engine.dispose()
    keys: dict[str, Any] = {"cursor_column": "id", "cursor_kind": "integer+pk", "pk_columns": ["id"], "bound": "none"}
    source = SqlSource(sqlite_url, table="letters", **keys)
    seen: list[list[int]] = []

    def take(batch: Batch) -> None:
        assert len(batch) == 1 or sum(len(one["body"]) for one in batch) <= 20_000
        seen.append([one["id"] for one in batch])

    options: dict[str, Any] = {"batch_size": 50, "page_size": 100, "batch_bytes": "20KB"}
    with Poller("letters", source=source, store=MemoryStore(), app_name="shop", observers=[], **options) as poller:
        poller.tick(take)
        assert [id_ for ids in seen for id_ in ids] == list(range(1, 301))
        assert seen[:3] == [[1, 2, 3, 4, 5, 6], [7], [8, 9, 10, 11, 12, 13]]
        seen.clear()
        assert poller.backfill(100, 200, handler=take).finished
    assert [id_ for ids in seen for id_ in ids] == list(range(100, 200))


@pytest.mark.parametrize(
    ("size", "why"),
    [
        ("0KB", "must be greater than 0"),
        ("eight", 'is not a size; write it like "750KB", "8MB" or "1GB"'),
        (True, 'is not a size; write it like "750KB", "8MB" or "1GB"'),
    ],
)
def test_what_is_no_size_of_a_batch_is_refused(sqlite_url: str, size: Any, why: str) -> None:
    source = SqlSource(sqlite_url, table="orders", cursor_column="id", pk_columns=["id"])
    with pytest.raises(ConfigError, match=why) as refused:
        Poller("orders", source=source, store=MemoryStore(), app_name="shop", batch_bytes=size)
    assert refused.value.key == "batch_bytes"
