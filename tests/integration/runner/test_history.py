"""What commits write into the document for people who look: no request more, and only rows that landed."""

from __future__ import annotations

import pytest

from tests.integration.runner.clockwork import MIDNIGHT
from tests.integration.runner.fakes import Worlds, add, settled


@pytest.mark.parametrize(
    "options", [{}, {"max_uncommitted": 4}, {"concurrency": 2}], ids=["each", "grouped", "two lanes"]
)
def test_rows_that_landed_are_counted_once(worlds: Worlds, options: dict[str, object]) -> None:
    world = settled(worlds(rows=10, batch_size=10, **options))
    before = sum(entry.rows for entry in world.state.history)
    add(world, 11, 35)
    assert world.tick(world.busy(0.5)).outcome == "delivered"
    entries = world.state.history
    assert sum(entry.rows for entry in entries) - before == 35
    assert (entries[-1].token, entries[-1].at.date()) == (world.state.lease.fencing_token, MIDNIGHT.date())
    assert entries[-1].handler_seconds >= 1.5
    assert entries[-1].lag_seconds is not None


def test_a_call_that_failed_counts_for_nothing(worlds: Worlds) -> None:
    world = settled(worlds(rows=10))
    before = world.state.history
    add(world, 11, 1)

    def fail(_: object) -> None:
        raise ValueError

    assert world.tick(fail).outcome == "handler_failed"
    assert world.state.history == before
