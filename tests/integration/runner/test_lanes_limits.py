"""Limits with several lanes: each call has its own, and a page counts while no handler runs."""

from __future__ import annotations

from typing import Any

import pytest

from poller import Batch
from poller.observability import HandlerTimedOut, LeaseLostEvent, QueryTimedOut
from tests.integration.runner.fakes import Worlds
from tests.integration.runner.laned import laned

LONG: dict[str, Any] = {"tick_timeout": "60m", "handler_timeout": "30s", "lease_ttl": "15s"}


@pytest.mark.guarantee(
    "Rows that commit late",
    "With `concurrency` each call has its own limit, and a page that never ends is noticed",
)
def test_a_long_tick_of_short_calls_keeps_its_lease(worlds: Worlds) -> None:
    """The page that was read before them took no longer than it may."""
    world = laned(worlds, 200, batch_size=1, on_poison="quarantine", **LONG)

    def then(batch: Batch) -> None:
        if batch.rows[0]["id"] == 1 and not batch.retry:
            batch.fail(batch.rows[0], "once")  # the lanes begin anew behind it

    result = world.world.tick(world.handler(then, seconds=dict.fromkeys(range(1, 201), 10.0)))
    assert (result.rows, world.checkpoint, world.lost) == (200, 200, [])
    assert world.world.runtime.monotonic() > 300
    assert (world.world.emitted(QueryTimedOut), world.world.emitted(LeaseLostEvent)) == ([], [])


def test_a_page_that_never_ends_is_noticed_once_no_handler_runs(worlds: Worlds) -> None:
    world = laned(worlds, 100, batch_size=1, **LONG)
    pages = 0

    def reading() -> None:
        nonlocal pages
        pages += 1
        if pages == 2:
            world.world.runtime.sleep(1000)

    world.table.reading = reading
    world.world.tick(world.handler(seconds={1: 29.0}))
    (event,) = world.world.emitted(QueryTimedOut)
    assert 119 < event.seconds < 130
    assert (world.world.emitted(HandlerTimedOut), world.lost) == ([], [])


def test_a_page_may_take_its_time_while_handlers_run(worlds: Worlds) -> None:
    world = laned(worlds, 100, batch_size=1, **{**LONG, "handler_timeout": "10m"})
    pages = 0

    def reading() -> None:
        nonlocal pages
        pages += 1
        if pages == 2:
            world.world.runtime.sleep(300)

    world.table.reading = reading
    world.world.tick(world.handler(seconds={1: 299.0}))
    assert (world.checkpoint, world.lost, world.world.emitted(QueryTimedOut)) == (100, [], [])
