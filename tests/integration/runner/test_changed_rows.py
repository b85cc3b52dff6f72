"""A handler may change the rows that it is given: each call gets them as they were read, and so do records."""

from __future__ import annotations

import json

import pytest

from poller import Batch, Reject
from poller.ports import Found
from tests.integration.runner.fakes import World, Worlds

BAD = 5


def change(batch: Batch) -> None:
    """Work on each row in place, as a handler may; a row that was changed before would fail."""
    for row in batch:
        row["lines"].append(row.pop("total"))  # type: ignore[attr-defined]


def rows_with_lists(worlds: Worlds, mode: str) -> World:
    world = worlds(rows=8, batch_size=8, on_poison=mode, max_attempts=1)
    for row in world.table.rows:
        row["lines"] = []
    return world.begun()


def fails(batch: Batch) -> None:
    change(batch)
    if any(row["id"] == BAD for row in batch):
        raise ValueError("bad")


def recorded(world: World) -> list[dict[str, object]]:
    found = [world.store.read(name) for name in world.store.names("quarantine/")]
    return [json.loads(one.body)["row"] for one in found if isinstance(one, Found)]


@pytest.mark.guarantee("Delivery", "What a handler changes in its rows is neither handed over again nor recorded")
@pytest.mark.parametrize("mode", ["block", "quarantine"])
def test_halves_get_rows_as_they_were_read(worlds: Worlds, mode: str) -> None:
    world = rows_with_lists(worlds, mode)
    world.tick(fails)
    world.runtime.sleep(2)
    result = world.tick(fails)
    assert result.rows == (7 if mode == "quarantine" else BAD - 1)
    assert (result.error or "").endswith("ValueError: bad")
    if mode == "quarantine":
        assert [(row["id"], row["total"], row["lines"]) for row in recorded(world)] == [(BAD, 10 * BAD, [])]


def test_rows_beside_a_rejected_one_come_as_read(worlds: Worlds) -> None:
    def rejects(batch: Batch) -> None:
        change(batch)
        for row in batch:
            if row["id"] == BAD:
                raise Reject(row, "no such country")

    world = rows_with_lists(worlds, "quarantine")
    result = world.tick(rejects)
    assert (result.rows, result.aside, result.quarantined) == (7, 0, 1)
