"""Rows aside whose tries take long hold nobody else up: a batch comes after each try that fails."""

from __future__ import annotations

from collections.abc import Callable

from poller.handler.batch import Batch
from tests.integration.runner.fakes import World

BAD = 9


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

    for _ in range(40):
        world.tick(handle)
        world.runtime.sleep(1)
    assert sorted(done) == list(range(BAD + 1, BAD + 10))
