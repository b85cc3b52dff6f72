"""Tries of rows that were set aside (failures 5): what their records allow."""

from __future__ import annotations

import json

from poller.handler.batch import Batch
from poller.ports import Found
from tests.integration.runner.fakes import World, Worlds, add


def test_a_record_of_a_newer_version_is_waited_for(worlds: Worlds) -> None:
    """In a roll-out: the other version can hand the row over, so it is no fault of the row."""
    world = worlds(rows=3, on_poison="quarantine", max_attempts=2).begun()
    world.tick(lambda batch: batch.fail(batch.rows[1], "not now"))
    (listed,) = world.state.aside
    name = f"quarantine/shop/orders/{listed.id}.json"
    ours = put(world, name, version=99)
    for first in range(10, 16):
        add(world, first, 1)
        assert world.tick_when_due().outcome == "handler_failed"
    (listed,) = world.state.aside
    assert (listed.strikes, listed.failures) == (0, 1)
    assert 2 not in world.delivered
    world.put(ours, name)
    tried: list[bool] = []

    def handle(batch: Batch) -> None:
        tried.append(batch.retry)

    assert world.tick_when_due(handle).outcome == "delivered"
    assert (tried, world.state.aside) == ([True], ())


def put(world: World, name: str, *, version: int) -> bytes:
    """Writes another version into a record; what stood there is returned."""
    found = world.store.read(name)
    assert isinstance(found, Found)
    world.put(json.dumps({**json.loads(found.body), "version": version}).encode(), name)
    return found.body
