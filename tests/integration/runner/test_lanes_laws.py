"""Several lanes where rows change, are rejected or fail: what a batch holds, what comes again, and what waits."""

from __future__ import annotations

from collections import Counter

import pytest

from poller import Batch, Reject
from tests.integration.runner.fakes import Worlds
from tests.integration.runner.laned import LANES, customer_in, in_lane, laned, moved

FIRST = range(1, 20)
"""Rows of the first page, with batches of four or two."""


@pytest.mark.parametrize("customers", [0, 1], ids=["by key columns", "by customer"])
def test_no_batch_of_a_lane_has_two_versions_of_a_row(worlds: Worlds, customers: int) -> None:
    """A row is changed while it waits for its lane: the page behind it has the newer version, for the same lane, which
    has room for both in its next batch."""
    world = laned(worlds, 60, customers=customers, batch_size=4)
    for row in world.world.table.rows if customers else ():
        row["customer"] = customer_in(0 if row["id"] <= 5 else 1 + row["id"] % (LANES - 1))
    mine = range(1, 6) if customers else max((in_lane(lane, 5, FIRST) for lane in range(LANES)), key=len)
    *before, waits = mine
    assert len(before) == 4, "it waits behind a whole batch of its lane"
    reads = 0

    def reading() -> None:
        nonlocal reads
        reads += 1
        if reads == 1:
            assert len(world.table.pages) == 2, "the first page is read: it has the older version"
            moved(world, waits, 23)

    world.table.reading = reading
    result = world.world.tick(world.handler(seconds=dict.fromkeys(before, 2.0)))
    assert (result.outcome, world.lost) == ("delivered", [])
    assert [call.ids for call in world.calls if len(set(call.ids)) < len(call.ids)] == []
    assert Counter(world.begun)[waits] == 2, "each version came"
    assert world.overtaken(lambda number: number) == []


def test_a_row_left_before_one_that_is_listed_comes_again(worlds: Worlds) -> None:
    """A lane rejects the second row of its batch, and then fails for the first one: it has done neither, although the
    second waits for a person behind the first."""
    world = laned(worlds, 30, on_poison="quarantine")
    first, second = max((in_lane(lane, 2, FIRST) for lane in range(LANES)), key=len)

    def then(batch: Batch) -> None:
        for row in batch:
            if row["id"] == second:
                raise Reject(row, "no address")
        if any(row["id"] == first for row in batch):
            raise ValueError("not now")

    assert world.world.tick(world.handler(then)).outcome == "handler_failed"
    state = world.world.state
    assert [row.cursor.tiebreaker for row in state.quarantine] == [{"id": second}]
    assert world.checkpoint < first
    for _ in range(4):
        world.world.tick_when_due(world.handler())
    assert (world.checkpoint, world.lost) == (30, [])
    assert {number for number, _ in world.done} == set(range(1, 31)) - {second}


@pytest.mark.guarantee(
    "Rows that commit late",
    "While a batch or row fails, or after an owner was killed, one batch is tried before any lane goes on; a row "
    "that a lane left is not done because one behind it is listed; no batch of a lane has two versions of a row",
)
@pytest.mark.parametrize("mode", ["block", "halt", "quarantine"])
def test_while_a_batch_fails_nothing_behind_it_begins(worlds: Worlds, mode: str) -> None:
    """The lanes finish what they have when a call fails. After that one batch is tried, and no lane goes on."""
    world = laned(worlds, 200, on_poison=mode, max_attempts=6)

    def fails(batch: Batch) -> None:
        if any(row["id"] == 1 for row in batch):
            raise ValueError("not now")

    assert world.world.tick(world.handler(fails)).outcome == "handler_failed"
    for _ in range(4):
        world.calls.clear()
        assert world.world.tick_when_due(world.handler(fails)).outcome == "handler_failed"
        assert [1 in call.ids for call in world.calls] == [True], "one call, with the row that fails"
    world.calls.clear()
    while world.checkpoint < 200:
        world.world.tick_when_due(world.handler())
    assert {number for number, _ in world.done} == set(range(1, 201))


@pytest.mark.parametrize("mode", ["block", "halt"])
def test_while_a_row_is_named_nothing_behind_it_begins(worlds: Worlds, mode: str) -> None:
    """It is named beside rows that are done, so that the checkpoint moves up to it: what failed is the batch behind."""
    world = laned(worlds, 200, customers=1, batch_size=4, on_poison=mode, max_attempts=6)
    for row in world.world.table.rows:
        row["customer"] = customer_in(0 if row["id"] <= 8 else 1 + row["id"] % (LANES - 1))
    first = True

    def fails(batch: Batch) -> None:
        for row in batch:
            if row["id"] == 1 and first:
                raise ValueError("not now")
            if row["id"] == 3:
                batch.fail(row, "not now")

    assert world.world.tick(world.handler(fails)).outcome == "handler_failed"
    first = False
    for _ in range(4):
        world.calls.clear()
        assert world.world.tick_when_due(world.handler(fails)).outcome == "handler_failed"
        assert [3 in call.ids for call in world.calls] == [True], "one call, with the row that fails"
    assert world.checkpoint == 2


def test_what_a_killed_owner_left_is_tried_alone_first(worlds: Worlds) -> None:
    """Its process may have died of the batch at the checkpoint: no lane begins another before that one is done."""
    world = laned(worlds, 60)
    world.world.take_over()
    assert world.world.state.delivery.attempts == 1
    assert world.world.tick_when_due(world.handler()).rows == 60
    first, *others = world.calls
    assert (first.ids, min(call.begin for call in others)) == ([1, 2], first.end)
    assert world.at_once() == LANES, "once it is done all lanes work"
