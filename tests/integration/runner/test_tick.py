"""What a tick delivers, in which order, and how many requests it takes."""

from __future__ import annotations

import pytest

from poller import Batch
from poller.model.cursor import Cursor
from tests.integration.runner.fakes import Worlds, add, cursor_of, row, settled, stamp_of

# --- request budgets (protocol 4 and 7)


def test_an_idle_tick_is_one_conditional_read_and_no_write(worlds: Worlds) -> None:
    world = settled(worlds(rows=10))
    for _ in range(3):
        assert world.tick().outcome == "idle"
    assert world.wire.counts == (3, 0)
    assert world.wire.others == []
    assert all(tag is not None for tag in world.wire.reads), "each read names the version that is known"


@pytest.mark.parametrize(("rows", "writes"), [(1, 2), (9, 2), (10, 2), (11, 3), (20, 3), (100, 11)])
def test_n_batches_cost_one_read_and_n_plus_one_writes(worlds: Worlds, rows: int, writes: int) -> None:
    world = settled(worlds(rows=10, batch_size=10))
    add(world, 11, rows)
    result = world.tick()
    assert (result.outcome, result.rows, result.batches) == ("delivered", rows, writes - 1)
    assert world.wire.counts == (1, writes)
    assert world.wire.others == []


def test_a_looked_ahead_row_that_is_gone_costs_one_write_more(worlds: Worlds) -> None:
    world = settled(worlds(rows=10, batch_size=10))
    add(world, 11, 11)

    def handle(batch: Batch) -> None:
        world.take(batch)
        world.table.rows = [one for one in world.table.rows if one["id"] != 21]

    assert world.tick(handle).outcome == "delivered"
    assert world.wire.counts == (1, 3)
    assert world.state.lease.owner_id is None
    assert world.state.delivery.attempts == 0


def test_the_first_tick_creates_and_acquires_by_one_write(worlds: Worlds) -> None:
    world = worlds(rows=5)
    assert world.tick().outcome == "delivered"
    assert world.wire.counts == (1, 2)
    assert world.state.lease.fencing_token == 1


# --- the first tick ever


def test_the_first_tick_creates_the_document_also_when_idle(worlds: Worlds) -> None:
    world = worlds()
    result = world.tick()
    assert (result.outcome, result.fencing_token) == ("idle", 0)
    assert world.wire.counts == (1, 1)
    assert world.state.checkpoint.cursor is None
    assert world.state.lease.owner_id is None
    assert world.tick().outcome == "idle"
    assert world.wire.counts == (2, 1)


@pytest.mark.parametrize("rows", [0, 9])
def test_start_from_is_applied_once_and_kept(worlds: Worlds, rows: int) -> None:
    world = worlds(rows=rows)
    now = Cursor(kind="timestamp+pk", value=stamp_of(6), tiebreaker=None)
    world.table.begin = now
    world.tick()
    if rows:
        assert world.delivered == [6, 7, 8, 9], "at or after"
    else:
        assert world.state.checkpoint.cursor == now
    world.table.begin = Cursor(kind="timestamp+pk", value=stamp_of(60), tiebreaker=None)
    add(world, 10, 3)
    for _ in range(2):
        world.tick()
        world.tick(worker=world.another())
    assert world.delivered[-3:] == [10, 11, 12]
    assert world.table.starts == 1


def test_null_in_an_existing_document_means_the_beginning(worlds: Worlds) -> None:
    world = settled(worlds())
    world.table.begin = Cursor(kind="timestamp+pk", value=stamp_of(60), tiebreaker=None)
    add(world, 1, 3)
    world.tick()
    assert world.delivered == [1, 2, 3]


# --- what is delivered


def test_every_row_arrives_in_order_and_none_twice(worlds: Worlds) -> None:
    world = worlds(rows=0, batch_size=7)
    numbers = [(number * 37) % 101 for number in range(101)]
    world.table.rows = [row(number) for number in numbers]
    assert world.tick().rows == 101
    assert world.delivered == sorted(numbers)
    assert [len(seen.rows) for seen in world.seen] == [7] * 14 + [3]
    assert world.state.checkpoint.cursor == cursor_of(row(100))


def test_ties_larger_than_a_batch_lose_and_repeat_nothing(worlds: Worlds) -> None:
    world = worlds(batch_size=4)
    world.table.rows = [row(number, at=stamp_of(0)) for number in range(1, 31)]
    world.tick()
    assert world.delivered == list(range(1, 31))


def test_a_batch_says_where_it_stands(worlds: Worlds) -> None:
    world = worlds(rows=5, batch_size=3)
    batches: list[Batch] = []
    world.tick(batches.append)
    first, second = batches
    assert (first.poller_name, len(first), len(second)) == ("orders", 3, 2)
    assert [one["id"] for one in first] == [one["id"] for one in first.rows] == [1, 2, 3]
    assert (first.cursor_from, first.cursor_to) == (None, cursor_of(row(3)))
    assert (second.cursor_from, second.cursor_to) == (cursor_of(row(3)), cursor_of(row(5)))
    assert (first.attempt, first.fencing_token, second.fencing_token) == (1, 1, 1)
    assert first.batch_id != second.batch_id
    assert world.state.checkpoint.last_successful_batch_id == second.batch_id
    assert world.state.checkpoint.metadata == {"row_count": 2}


def test_no_two_batches_have_one_name(worlds: Worlds) -> None:
    world = worlds(rows=1)
    workers = [world.worker, world.worker, world.another()]
    names: list[str] = []
    for number, worker in enumerate(workers * 2, start=2):  # the clock stands still
        worker.tick(lambda batch: names.append(batch.batch_id))
        world.table.rows.append(row(number))
    assert len(set(names)) == len(names) == 6


def test_a_rows_key_stays_the_same_until_its_next_version(worlds: Worlds) -> None:
    world = worlds(rows=3)
    keys: list[list[str]] = []

    def handle(batch: Batch) -> None:
        keys.append([batch.key(one) for one in batch])
        if len(keys) == 1:
            raise RuntimeError("again, please")

    world.tick(handle)
    world.tick_when_due(handle)
    world.table.rows[0] = row(1, at=stamp_of(30))
    world.tick(handle)
    assert keys[0] == keys[1]
    assert len(set(keys[0])) == 3
    assert keys[2][0] not in keys[0]


def test_a_key_is_only_given_for_a_row_of_the_batch(worlds: Worlds) -> None:
    world = worlds(rows=3, batch_size=2)
    batches: list[Batch] = []
    world.tick(batches.append)
    with pytest.raises(ValueError, match="a row of this batch"):
        batches[0].key(batches[1].rows[0])


# --- when a tick ends


@pytest.mark.parametrize(("limit", "rows"), [(1, 10), (3, 30), (0, 100), (50, 100)])
def test_max_batches_per_tick_ends_the_tick_and_releases(worlds: Worlds, limit: int, rows: int) -> None:
    world = settled(worlds(max_batches_per_tick=limit))
    add(world, 1, 100)
    assert world.tick().rows == rows
    assert world.state.lease.owner_id is None
    assert world.wire.counts == (1, rows // 10 + 1), "the last commit releases"
    assert world.tick().rows == min(rows, 100 - rows)


def test_a_tick_starts_no_batch_that_it_may_not_finish(worlds: Worlds) -> None:
    world = settled(worlds(tick_timeout="60s"))
    add(world, 1, 100)
    result = world.tick(world.busy(25))
    assert (result.rows, result.duration_seconds) == (20, 50)
    assert world.state.lease.owner_id is None
    assert world.wire.counts[0] == 1


def test_a_slow_database_in_mid_tick_counts_too(worlds: Worlds) -> None:
    world = settled(worlds(tick_timeout="60s", read_ahead=0))
    add(world, 1, 100)
    world.table.page_seconds = 20
    result = world.tick(world.busy(15))
    assert (result.rows, result.duration_seconds) == (10, 55), "at 55 s a batch of 15 s would end at 70 s"
    assert world.state.lease.owner_id is None
    assert world.state.delivery.attempts == 0


def test_the_first_batch_is_always_started(worlds: Worlds) -> None:
    world = worlds(rows=15, tick_timeout="60s")
    world.table.page_seconds = 100
    assert world.tick().rows == 10
