"""Rows that a tick found and did not hand over come soon after, in another process too: not in the next night."""

from __future__ import annotations

import pytest

from poller import Batch
from tests.integration.runner.fakes import Table
from tests.integration.worker.nights import Shop

ROWS = 9


def test_rows_of_a_page_that_came_too_late_come_soon() -> None:
    """The next page takes so long that its batch might not end in time: the tick ends with its rows in hand."""
    shop = Shop(ROWS)
    slow = shop.poller(tick_timeout="10s", handler_timeout="5s")
    assert isinstance(slow.source, Table)
    slow.source.page_seconds = 6.0
    result = slow.tick(shop.take)
    assert (result.outcome, result.rows, result.left) == ("delivered", 1, True)
    shop.run(shop.poller(), seconds=600)
    assert [number for _, number in shop.seen] == list(range(1, ROWS + 1))


@pytest.mark.parametrize("works", [True, False], ids=["works", "fails"])
def test_rows_behind_a_try_that_was_the_last_call_come_soon(works: bool) -> None:
    """A row aside is tried, and no further call may be made."""
    shop = Shop(ROWS)
    options = {"on_poison": "quarantine", "max_batches_per_tick": 1, "retry_backoff": "1s", "retry_backoff_max": "1s"}
    limited = shop.poller(**options)
    limited.tick(lambda batch: batch.fail(batch.rows[0], "not now"))

    tried = False

    def handle(batch: Batch) -> None:
        nonlocal tried
        tried = tried or batch.retry
        if batch.retry and not works:
            raise ValueError("not now")
        shop.take(batch)

    while not tried:
        shop.clock.sleep(5)
        limited.tick(handle)
    shop.run(shop.poller(**{**options, "max_batches_per_tick": 0}), seconds=600)
    assert sorted(number for _, number in shop.seen) == list(range(1, ROWS + 1))
