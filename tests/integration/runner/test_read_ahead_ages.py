"""Rows wait for at most five seconds between their page and the call, whatever takes long: their changes are seen."""

from __future__ import annotations

from collections.abc import Callable
from math import log2
from typing import Any

import pytest

from poller import Batch
from poller.tick import KEPT_FOR
from tests.integration.runner.fakes import Worlds, row, stamp_of
from tests.integration.runner.laned import Laned, laned
from tests.integration.runner.wire import Fault

LAST = 20
CHANGES = ["deleted", "changed"]
SLOW: dict[str, Any] = {"tick_timeout": "20m", "handler_timeout": "1m", "lease_ttl": "10m", "batch_size": 4}


@pytest.mark.parametrize("deletes", [True, False], ids=CHANGES)
def test_a_page_read_ahead_that_waited_too_long_is_read_again(worlds: Worlds, deletes: bool) -> None:
    """Another program deletes or changes a row of the next page, while a slow handler works on the first one."""
    world = worlds(rows=LAST, page_size=10)

    def handle(batch: Batch) -> None:
        world.take(batch)
        if len(world.seen) > 1:
            return
        world.runtime.sleep(3)
        assert len(world.table.pages) == 2, "the next page was read"
        others = [one for one in world.table.rows if one["id"] != LAST]
        world.table.rows = others if deletes else [*others, row(LAST, at=stamp_of(90))]
        world.runtime.sleep(4)

    for _ in range(2):
        world.tick(handle)
    assert world.delivered == [*range(1, LAST), *([] if deletes else [LAST])]


def aged(worlds: Worlds, rows: int, **options: Any) -> Laned:
    """A world whose rows say when they were read, and which looks at each call whether they are young."""
    world = laned(worlds, rows, **{**SLOW, **options})

    def reading() -> None:
        for one in world.table.rows:
            one["read"] = world.world.runtime.monotonic()

    world.table.reading = reading
    return world


def oldest(world: Laned) -> float:
    """How long a row waited at most between its page and the call, in seconds."""
    calls = [call for call in world.calls if not call.batch.retry]
    return max(call.begin - float(one["read"]) for call in calls for one in call.batch.rows)


def slow_writes(world: Laned, prefix: str, seconds: float, then: Callable[[], None] = lambda: None) -> None:
    """From now on each write of a document takes so long, and `then` happens in the middle of the next one."""
    write, todo = world.world.wire.write, [then]

    def slow(name: str, body: bytes, **how: Any) -> Any:
        if name.startswith(prefix):
            world.world.runtime.sleep(seconds / 2)
            if todo:
                todo.pop()()
            world.world.runtime.sleep(seconds / 2)
        return write(name, body, **how)

    world.world.wire.write = slow  # type: ignore[method-assign]


def changing(world: Laned, number: int, how: str) -> Callable[[], None]:
    """Another program deletes a row, or cancels the order in it."""

    def change() -> None:
        if how == "deleted":
            world.table.rows = [one for one in world.table.rows if one["id"] != number]
        else:
            next(one for one in world.table.rows if one["id"] == number)["status"] = "cancelled"

    return change


def handed(world: Laned, number: int) -> list[Any]:
    """The status of a row in each call that had it."""
    return [one.get("status") for call in world.calls for one in call.batch.rows if one["id"] == number]


@pytest.mark.parametrize("how", CHANGES)
@pytest.mark.parametrize("lanes", [1, 5])
def test_a_lease_that_took_long_to_take_makes_no_row_old(worlds: Worlds, lanes: int, how: str) -> None:
    """The store answers late when the lease is taken, after the rows were read."""
    world = aged(worlds, LAST, concurrency=lanes)

    def late(do: Callable[[], Any]) -> Any:
        world.world.runtime.sleep(2)
        changing(world, 2, how)()
        world.world.runtime.sleep(10)
        return do()

    faults: list[Fault] = [late]
    world.world.wire.write_faults.extend(faults)
    result = world.world.tick(world.handler())
    gone = how == "deleted"
    assert (result.outcome, result.rows, world.lost) == ("delivered", LAST - gone, [])
    assert handed(world, 2) == ([] if gone else ["cancelled"])
    assert oldest(world) <= KEPT_FOR
    assert {call.batch.attempt for call in world.calls} == {1}


@pytest.mark.parametrize("lanes", [1, 5])
def test_a_tick_goes_on_if_a_row_appears_while_the_lease_is_taken(worlds: Worlds, lanes: int) -> None:
    world = aged(worlds, LAST, concurrency=lanes)

    def appears(do: Callable[[], Any]) -> Any:
        world.world.runtime.sleep(12)
        world.table.rows.append({**row(LAST + 1, at=stamp_of(2)), "customer": ""})
        return do()

    world.world.wire.write_faults.append(appears)
    assert world.world.tick(world.handler()).rows == LAST + 1
    assert (sorted(world.begun), world.lost) == (list(range(1, LAST + 2)), [])


def test_a_tick_ends_if_all_its_rows_go_while_the_lease_is_taken(worlds: Worlds) -> None:
    world = aged(worlds, LAST, concurrency=1)

    def goes(do: Callable[[], Any]) -> Any:
        world.world.runtime.sleep(12)
        world.table.rows.clear()
        return do()

    world.world.wire.write_faults.append(goes)
    assert world.world.tick(world.handler()).outcome == "idle"
    state = world.world.state
    assert (world.calls, state.lease.owner_id, state.delivery.attempts) == ([], None, 0)


@pytest.mark.parametrize("how", CHANGES)
def test_records_of_many_followers_make_no_row_old(worlds: Worlds, how: str) -> None:
    """Rows follow one that is set aside, and each of their records takes two seconds; another row is before them."""
    world = aged(worlds, 0, customers=2, concurrency=1, on_poison="quarantine", batch_size=20)
    customers = {1: "c1", 2: "c0", **dict.fromkeys(range(3, 9), "c1"), 9: "c0"}
    world.table.rows = [{**row(1), "customer": "c1"}]
    world.world.tick(world.handler(lambda batch: batch.fail(batch.rows[0], "not now")))
    world.table.rows += [{**row(number), "customer": customers[number]} for number in range(2, 10)]
    world.calls.clear()
    world.world.wire.forget()
    slow_writes(world, "quarantine/", 2.0, changing(world, 9, how))
    world.world.tick(world.handler(lambda batch: batch.fail(batch.rows[0], "not now") if batch.retry else None))
    assert handed(world, 9) == ([] if how == "deleted" else ["cancelled"])
    assert oldest(world) <= KEPT_FOR
    assert [listed.at for listed in world.world.state.aside] == [1, *range(3, 9)]
    records = [name for what, name in world.world.wire.others if what == "write" and name.startswith("quarantine/")]
    assert len(set(records)) == 7, "of the row aside and of six that follow it"
    assert len(records) - len(set(records)) <= 1, "none is written again, but for that of the row that is tried"


def test_rows_come_although_those_behind_them_change_all_the_time(worlds: Worlds) -> None:
    """Each row that follows one set aside is written again while its record is written: others take its place."""
    world = aged(worlds, 0, customers=2, concurrency=1, on_poison="quarantine", batch_size=4, max_quarantined=1000)
    world.table.rows = [{**row(1), "customer": "c1"}]
    world.world.tick(world.handler(lambda batch: batch.fail(batch.rows[0], "not now")))
    world.table.rows += [{**row(number), "customer": "c0" if number == 2 else "c1"} for number in range(2, 30)]
    world.calls.clear()
    write, written = world.world.wire.write, list[str]()

    def slow(name: str, body: bytes, **how: Any) -> Any:
        if name.startswith("quarantine/") and b'"behind": true' in body:
            written.append(name)
            world.world.runtime.sleep(3.0)
            if len(written) > 20:
                world.table.rows = [one for one in world.table.rows if one["id"] <= 2]
            else:
                following = [one for one in world.table.rows if one["id"] > 2]
                min(following, key=lambda one: str(one["updated_at"]))["updated_at"] = stamp_of(100 + len(written))
        return write(name, body, **how)

    world.world.wire.write = slow  # type: ignore[method-assign]
    begun: list[int] = []

    def handle(batch: Batch) -> None:
        if batch.retry:
            batch.fail(batch.rows[0], "not now")
        elif not begun:
            begun.append(len(written))

    world.world.tick(world.handler(handle))
    assert (handed(world, 2), oldest(world) <= KEPT_FOR) == ([None], True)
    assert begun[0] <= 3, "the records of one page"


@pytest.mark.parametrize("bad", range(1, 9))
def test_a_search_whose_writes_take_long_finds_the_row_that_fails(worlds: Worlds, bad: int) -> None:
    """Each write takes longer than rows may wait, also that before a call, which names the piece handed over."""
    world = aged(worlds, 8, concurrency=1, batch_size=8, on_poison="quarantine", max_attempts=1, retry_backoff="1s")

    def fails(batch: Batch) -> None:
        if bad in {one["id"] for one in batch}:
            raise ValueError("no such customer")

    slow_writes(world, "state/", 7.0)
    for _ in range(8):
        world.world.tick_when_due(world.handler(fails))
    calls = [call for call in world.calls if not call.batch.retry]
    (found,) = (*world.world.state.aside, *world.world.state.quarantine)
    assert (found.at, world.lost) == (bad, [])
    assert oldest(world) <= KEPT_FOR
    assert len(calls) <= 2 * log2(8) + 4
    done = [number for call in calls if call.end is not None for number in call.ids]
    assert sorted(done) == [number for number in range(1, 9) if number != bad], "each once"


def test_rows_that_waited_for_a_commit_are_read_again(worlds: Worlds) -> None:
    """Batches are committed together, and each write takes longer than rows may wait."""
    world = aged(worlds, 40, concurrency=1, max_uncommitted=2)
    slow_writes(world, "state/", 7.0)
    assert world.world.tick(world.handler()).rows == 40
    assert oldest(world) <= KEPT_FOR
    assert world.begun == list(range(1, 41))


def test_lanes_whose_pages_take_long_go_on(worlds: Worlds) -> None:
    """A page takes longer than rows may wait, and batches are of two pages."""
    world = aged(worlds, 60, concurrency=3, page_size=12, batch_size=5)
    world.table.page_seconds = KEPT_FOR + 1.0
    seconds = dict.fromkeys(range(1, 61), 20.0)
    world.table.faults.extend([None] * 100)
    world.table.faults.append(AssertionError("a hundred pages are read"))
    assert world.world.tick(world.handler(seconds=seconds)).rows == 60
    assert (sorted(world.begun), world.lost) == (list(range(1, 61)), [])
    assert oldest(world) <= KEPT_FOR
