"""What a nightly tick leaves is gone on with at once, and after a kill within minutes: not in the next night."""

from __future__ import annotations

from poller import Batch
from poller.model import transitions
from tests.integration.runner.fakes import Table, row
from tests.integration.worker.nights import AT_TWO, Shop


def test_rows_left_for_lack_of_time_are_gone_on_with_at_once() -> None:
    shop = Shop(rows=30)
    shop.run(shop.poller(tick_timeout="10s", handler_timeout="5s"), seconds=AT_TWO + 60)
    assert [number for _, number in shop.seen] == list(range(1, 31))


def test_rows_left_by_the_most_batches_are_gone_on_with() -> None:
    shop = Shop(rows=9)
    shop.run(shop.poller(max_batches_per_tick=2), seconds=AT_TWO + 60)
    assert [number for _, number in shop.seen] == list(range(1, 10))


def test_rows_left_by_a_process_that_ended_come_within_minutes() -> None:
    shop = Shop(rows=9)
    shop.run(shop.poller(), seconds=AT_TWO + 3.5)
    assert 0 < len(shop.seen) < 9
    shop.run(shop.poller(), seconds=600)
    assert [number for _, number in shop.seen] == list(range(1, 10))


def test_rows_of_a_killed_process_come_within_minutes() -> None:
    shop = Shop(rows=9)
    dead = shop.poller(max_batches_per_tick=3)
    dead.tick(shop.take)
    file = dead._runner.context.file
    copy = file.read()
    assert copy is not None
    file.write(
        copy,
        lambda state, now: transitions.acquire(state, owner_id="killed", ttl=60.0, now=now),
        deadline=shop.clock.monotonic() + 5,
    )
    shop.run(shop.poller(), seconds=600)
    assert [number for _, number in shop.seen] == list(range(1, 10))


def test_rows_after_a_drained_night_wait_for_the_next() -> None:
    shop = Shop(rows=3)
    shop.run(shop.poller(), seconds=AT_TWO + 60)
    shop.rows += [row(4)]
    shop.run(shop.poller(), seconds=3600)
    assert len(shop.seen) == 3


def test_what_was_left_and_removed_is_asked_about_once() -> None:
    shop = Shop(rows=9)
    poller = shop.poller(max_batches_per_tick=3)
    poller.tick(shop.take)
    del shop.rows[3:]
    again = shop.poller()
    shop.run(again, seconds=3600)
    assert isinstance(again.source, Table)
    assert len(again.source.pages) == 1
    shop.rows += [row(10)]
    shop.run(again, seconds=3600)
    assert len(shop.seen) == 3


def test_a_page_that_takes_too_long_leaves_its_rows() -> None:
    """The time was over when it came: nobody handed its rows over."""
    shop = Shop(rows=30)
    poller = shop.poller(tick_timeout="60s")
    assert isinstance(poller.source, Table)
    calls: list[int] = []

    def slow(batch: Batch) -> None:
        calls.append(len(batch))
        if len(calls) == 1:
            poller.source.page_seconds = 70  # type: ignore[attr-defined]

    result = poller.tick(slow)
    assert result.outcome == "delivered"
    assert len(calls) < 30
    assert result.left
