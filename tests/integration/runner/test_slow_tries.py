"""Rows aside whose tries take long hold nobody else up: a batch comes after each try that fails."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from poller import Batch, RetryLater
from tests.integration.runner.fakes import World

BAD = 9


@pytest.mark.guarantee("Delivery", "Rows aside whose tries take long hold up no others")
def test_slow_tries_of_bad_rows_hold_up_no_others(worlds: Callable[..., World]) -> None:
    """All of them together take longer than the longest delay: there is always one that is due."""
    world = worlds(rows=BAD + 9, batch_size=1, on_poison="quarantine", max_attempts=100)
    done: list[int] = []

    def handle(batch: Batch) -> None:
        for row in batch:
            if row["id"] <= BAD:
                world.runtime.sleep(60)
                raise ValueError("slow, and bad")
            done.append(row["id"])

    for _ in range(24):
        world.tick(handle)
        world.runtime.sleep(1)
    assert sorted(done) == list(range(BAD + 1, BAD + 10))


def test_a_tick_with_time_for_one_slow_try_starves_no_rows(worlds: Callable[..., World]) -> None:
    options = {"batch_size": 1, "on_poison": "quarantine", "max_attempts": 100}
    world = worlds(rows=BAD + 9, tick_timeout="2m", handler_timeout="90s", **options)
    done: list[int] = []

    def handle(batch: Batch) -> None:
        for row in batch:
            if row["id"] <= BAD:
                world.runtime.sleep(70)
                raise ValueError("slow, and bad")
            done.append(row["id"])

    for _ in range(45):
        world.tick(handle)
        world.runtime.sleep(1)
    assert sorted(done) == list(range(BAD + 1, BAD + 10))


@pytest.mark.guarantee("Delivery", "A tick ends although a row aside is due again after each try")
@pytest.mark.parametrize("why", [ValueError("bad"), RetryLater("down", after="1s")], ids=["fails", "later"])
def test_a_tick_ends_although_a_row_is_due_again_after_each_try(worlds: Callable[..., World], why: Exception) -> None:
    """Its pause is shorter than its call. It is tried again after a batch; with no other row left the tick is over."""
    options = {"on_poison": "quarantine", "max_attempts": 100, "retry_backoff": "1ms", "retry_backoff_max": "1ms"}
    world = worlds(rows=6, batch_size=2, tick_timeout="1m", **options)
    handed: list[list[int]] = []

    def handle(batch: Batch) -> None:
        world.runtime.sleep(2)
        handed.append([row["id"] for row in batch])
        for row in batch:
            if row["id"] < 3:
                if batch.retry:
                    raise why
                batch.fail(row, "bad")

    assert world.tick(handle).outcome == "handler_failed"
    assert handed[0] == [1, 2]
    assert [ids for ids in handed if len(ids) > 1] == [[1, 2], [3, 4], [5, 6]]
    assert sorted(handed[-2:]) == [[1], [2]], "after the last batch each of them once"
    handed.clear()
    assert world.tick(handle).outcome == "handler_failed"
    assert sorted(handed) == [[1], [2]]
