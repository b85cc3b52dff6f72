"""Tries of rows that were set aside (failures 5): what their records allow."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from poller import Batch
from poller.errors import StoreDenied, StoreError, StoreUnavailable
from poller.model import row_ids
from poller.model.cursor import Cursor
from poller.ports import Found, Page
from poller.tick import KEPT_FOR, Replay
from tests.integration.runner.fakes import LONGEST_WAIT, World, Worlds, add, row, stamp_of
from tests.integration.runner.laned import laned


@pytest.mark.guarantee(
    "Delivery",
    "A row whose record a newer version wrote waits for that version, and is not quarantined meanwhile",
)
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


UNREAD = {
    "unavailable": StoreUnavailable("No usable answer came for the record (500)."),
    "denied": StoreDenied("Access to the record was refused (403)."),
    "archived": StoreError("The request for the record was not accepted (409 BlobArchived)."),
}


def without_record(world: World, id_: str, error: StoreError) -> Callable[[], None]:
    """The store does not give out or take the record of one row, until the function that is returned is called."""
    read, write, gone = world.wire.read, world.wire.write, True

    def breaks(do: Callable[..., Any]) -> Callable[..., Any]:
        def broken(name: str, *args: Any, **how: Any) -> Any:
            if gone and name == f"quarantine/shop/orders/{id_}.json":
                raise error
            return do(name, *args, **how)

        return broken

    world.wire.read, world.wire.write = breaks(read), breaks(write)  # type: ignore[method-assign]

    def back() -> None:
        nonlocal gone
        gone = False

    return back


@pytest.mark.guarantee(
    "Rows that commit late",
    "One record that the store does not give out or take (archive tier, a foreign lease, permissions) holds up the "
    "rows of its ordering key only, and counts as no failure of the row; a row is never passed without its record",
)
@pytest.mark.parametrize("lanes", [1, 3])
@pytest.mark.parametrize("error", UNREAD)
def test_a_record_that_cannot_be_read_holds_up_its_key_only(worlds: Worlds, error: str, lanes: int) -> None:
    """Neither is it a failure of the row."""
    world = worlds(rows=5, on_poison="quarantine", max_attempts=2, concurrency=lanes).begun()
    bad = {2, 3}

    def handle(batch: Batch) -> None:
        world.take(batch)
        for one in batch:
            if one["id"] in bad:
                batch.fail(one, "not now")

    world.tick(handle)
    first, second = sorted(world.state.aside, key=lambda one: one.at or 0)
    back = without_record(world, first.id, UNREAD[error])
    bad.clear()
    for number in range(10, 16):
        add(world, number, 1)
        result = world.tick_when_due(handle)
        assert result.outcome == "handler_failed"
        assert type(UNREAD[error]).__name__ in (result.error or "")
        assert number in world.delivered
    (listed,) = world.state.aside
    assert (listed.id, listed.strikes, listed.failures, world.state.quarantine) == (first.id, 0, 1, ())
    assert world.delivered.count(3) == 2, "the other row aside was tried"
    back()
    assert world.tick_when_due(handle).outcome == "delivered"
    assert (world.state.aside, world.delivered.count(2), second.strikes) == ((), 2, 0)


def test_while_nothing_answers_no_row_aside_is_put_off(worlds: Worlds) -> None:
    """A real outage ends the tick at its next PUT."""
    world = worlds(rows=3, on_poison="quarantine").begun()
    world.tick(lambda batch: batch.fail(batch.rows[1], "not now"))
    before = world.state.aside
    world.runtime.sleep(LONGEST_WAIT)
    read = world.wire.read

    def down(name: str, **how: Any) -> Any:
        world.wire.down = world.wire.down or name.startswith("quarantine/")
        return read(name, **how)

    world.wire.read = down  # type: ignore[method-assign]
    assert world.tick().outcome in ("commit_unknown", "lease_lost")
    assert world.state.aside == before
    world.wire.down, world.wire.read = False, read  # type: ignore[method-assign]
    world.runtime.sleep(LONGEST_WAIT)
    for _ in range(3):
        world.tick_when_due()
    assert world.delivered.count(2) == 1


@pytest.mark.parametrize("lanes", [1, 3])
@pytest.mark.parametrize("error", UNREAD)
def test_a_record_that_cannot_be_written_stops_no_row_before(worlds: Worlds, error: str, lanes: int) -> None:
    """A row is not passed without its record: it is tried again with backoff, and set aside once there is one."""
    world = worlds(rows=6, on_poison="quarantine", max_attempts=1, concurrency=lanes, batch_size=6)
    id_ = row_ids.id_of_key("orders/4/" + stamp_of(4))
    back = without_record(world, id_, UNREAD[error])

    def handle(batch: Batch) -> None:
        for one in batch:
            if one["id"] == 4:
                raise ValueError("no such customer")
        world.take(batch)

    for _ in range(8):
        assert world.tick_when_due(handle).outcome == "handler_failed"
    assert {1, 2, 3} <= set(world.delivered)
    assert (world.state.aside, world.state.checkpoint.position) == ((), 3)
    assert UNREAD[error].message in (world.tick_when_due(handle).error or "")
    back()
    for _ in range(3):
        world.tick_when_due(handle)
    assert [one.id for one in (*world.state.aside, *world.state.quarantine)] == [id_]
    assert set(world.delivered) == {1, 2, 3, 5, 6}


@pytest.mark.parametrize("error", UNREAD)
def test_a_replay_passes_over_a_record_that_cannot_be_read(worlds: Worlds, error: str) -> None:
    world = worlds(rows=5, on_poison="quarantine").begun()

    def rejects(batch: Batch) -> None:
        for one in batch.rows[1:3]:
            batch.reject(one, "no such customer")

    world.tick(rejects)
    first, second = world.state.quarantine
    without_record(world, first.id, UNREAD[error])
    wanted = Replay([first.id, second.id], version="as-it-was")
    world.worker.replay(wanted, world.take, by="ann")
    assert [(one.row.id, one.done, one.refused) for one in wanted.results] == [
        (first.id, False, True),
        (second.id, True, False),
    ]
    assert UNREAD[error].message in (wanted.results[0].error or "")
    assert [one.id for one in world.state.quarantine] == [first.id]


@pytest.mark.parametrize("error", UNREAD)
def test_a_follower_whose_record_cannot_be_written_blocks(worlds: Worlds, error: str) -> None:
    """Rows before it are handed over, and the outcome says why the others are not."""
    world = laned(worlds, 0, customers=2, concurrency=1, on_poison="quarantine", batch_size=10).world
    table = world.table
    table.rows = [{**row(number), "customer": f"c{number % 2}"} for number in range(1, 4)]
    world.tick(lambda batch: batch.fail(batch.rows[1], "not now"))
    table.rows += [{**row(number), "customer": f"c{number % 2}"} for number in range(4, 8)]
    back = without_record(world, row_ids.id_of_key("orders/4/" + stamp_of(4)), UNREAD[error])

    def again(batch: Batch) -> None:
        for one in batch:
            if one["id"] == 2:
                batch.fail(one, "not now")

    for _ in range(3):
        assert world.tick_when_due(again).outcome in ("handler_failed", "blocked")
        assert (world.state.checkpoint.position, len(world.state.aside)) == (3, 1)
    back()
    for _ in range(3):
        world.tick_when_due()
    assert (world.state.checkpoint.position, world.state.aside) == (7, ())


@pytest.mark.parametrize("error", UNREAD)
def test_rows_before_a_follower_without_a_record_come_young(worlds: Worlds, error: str) -> None:
    """They were read before the record was sent again and again, and others may have changed them meanwhile."""
    world = laned(worlds, 0, customers=2, concurrency=1, on_poison="quarantine", batch_size=10).world
    table, clock = world.table, world.runtime
    table.rows = [{**row(number), "customer": f"c{number % 2}"} for number in range(1, 4)]
    world.tick(lambda batch: batch.fail(batch.rows[1], "not now"))
    table.rows += [{**row(number), "customer": f"c{number % 2}"} for number in (5, 6, 7)]
    without_record(world, row_ids.id_of_key("orders/6/" + stamp_of(6)), UNREAD[error])
    page, ages, read_at = table.page, dict[int, float](), 0.0

    def read(after: Cursor | None, limit: int, **_: Any) -> Page:
        nonlocal read_at
        found, read_at = page(after, limit), clock.monotonic()
        return found

    def handle(batch: Batch) -> None:
        ages.update((one["id"], clock.monotonic() - read_at) for one in batch)
        if batch.retry:
            batch.fail(batch.rows[0], "not now")

    table.page = read  # type: ignore[method-assign]
    world.tick(handle)
    assert ages[5] <= KEPT_FOR
    assert world.state.checkpoint.position == 4, "it was passed, and no other"
