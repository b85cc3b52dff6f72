"""Ticks whose handler names rows, rejects one, or asks to be called later. Until rows are set aside and calls wait,
each of these fails the batch as a whole; what the handler said is known where the tick decides."""

from __future__ import annotations

import pytest

from poller.delivery.leased import Handled, LeasedDelivery
from poller.handler.batch import Batch
from poller.handler.call import Handler
from tests.integration.runner.fakes import World, Worlds
from tests.support.sayings import Awaited, Returns, Saying

DONE = "done"
CASES: dict[str, tuple[Handler, str]] = {
    "form": (Saying((DONE, "form", DONE)), "RowsFailed: 1 of 3 rows failed, the first with named in batchItemFailures"),
    "fail": (Saying((DONE, "fail", DONE)), "RowsFailed: 1 of 3 rows failed, the first with LookupError: row 2"),
    "reject": (Saying((DONE, DONE, "reject")), "RowsFailed: 1 of 3 rows failed, the first with no address"),
    "all": (Saying(("fail", "form", "reject")), "RowsFailed: 3 of 3 rows failed, the first with LookupError: row 1"),
    "Reject": (Saying((DONE,) * 3, "Reject 2"), "Reject: no such country"),
    "later": (Saying((DONE,) * 3, "later"), "RetryLater: the warehouse is down"),
    "malformed": (
        Returns("malformed", "None"),
        (
            "InvalidReport: batchItemFailures is a list, not NoneType: the batch failed as a whole. "
            'Return {"batchItemFailures": []} for none.'
        ),
    ),
}


@pytest.fixture
def handled(monkeypatch: pytest.MonkeyPatch) -> list[Handled]:
    """What each call came to, as the tick gets it."""
    made: list[Handled] = []
    run = LeasedDelivery.run

    def spy(delivery: LeasedDelivery, batch: Batch) -> Handled:
        made.append(run(delivery, batch))
        return made[-1]

    monkeypatch.setattr(LeasedDelivery, "run", spy)
    return made


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("case", CASES)
def test_what_is_not_done_fails_the_batch_as_any_error_does(worlds: Worlds, case: str, is_async: bool) -> None:
    world = worlds(rows=3, max_attempts=3).begun()
    handler, line = CASES[case]
    for attempt in (1, 2):
        result = world.tick(Awaited(handler) if is_async else handler)
        assert (result.outcome, result.error, result.rows) == ("handler_failed", line, 0)
        assert world.state.delivery.attempts == attempt, "an outage counts too, as long as calls cannot wait"
        assert world.state.checkpoint.cursor is None
        assert world.state.lease.owner_id is None
        error = world.state.delivery.last_error
        assert error is not None
        assert f"{error.type}: {error.message}" == line
    assert world.tick(handler).outcome == "halted"


@pytest.mark.parametrize("name", ["empty form", "mapping", "None"])
def test_what_names_no_row_is_delivered(worlds: Worlds, name: str) -> None:
    world = worlds(rows=3).begun()
    assert world.tick(Returns("value", name)).outcome == "delivered"


def test_the_tick_gets_what_the_handler_said(worlds: Worlds, handled: list[Handled]) -> None:
    world = worlds(rows=3, max_attempts=100).begun()
    for case in CASES:
        world.tick(CASES[case][0])
    world.tick()
    assert [
        (one.result.end, *([row.position for row in rows] for rows in (one.result.failed, one.result.rejected)))
        for one in handled
    ] == [
        ("returned", [1], []),
        ("returned", [1], []),
        ("returned", [], [2]),
        ("returned", [0, 1], [2]),
        ("rejected", [], [2]),
        ("later", [], []),
        ("raised", [], []),
        ("returned", [], []),
    ]
    assert [one.result.seconds for one in handled] == [0.0] * 5 + [120.0] + [0.0] * 2
    assert [one.error is None for one in handled] == [False] * 7 + [True]


def test_without_error_text_no_row_brings_any(worlds: Worlds, handled: list[Handled]) -> None:
    world = worlds(rows=3, error_text=False).begun()
    result = world.tick(CASES["all"][0])
    assert (result.error, result.trace) == ("RowsFailed", None)
    (call,) = handled
    assert [(row.kind, row.text) for row in call.result.named] == [
        ("LookupError", ""),
        ("RowFailed", ""),
        ("RowRejected", ""),
    ]


@pytest.mark.parametrize("case", CASES)
def test_after_the_lease_is_lost_nothing_that_is_said_counts(worlds: Worlds, case: str) -> None:
    world = worlds(rows=3).begun()

    def handle(batch: Batch) -> object:
        lose(world)
        return CASES[case][0](batch)

    assert world.tick(handle).outcome == "lease_lost"
    assert world.state.checkpoint.cursor is None
    assert world.state.lease.owner_id == "other/1"
    assert world.state.delivery.last_error is None


@pytest.mark.parametrize("case", CASES)
def test_what_is_said_after_the_handlers_time_counts_for_nothing(worlds: Worlds, case: str) -> None:
    """On a thread it cannot be cut: its lease is no longer renewed, and runs out."""
    world = worlds(rows=3, handler_timeout="10s").begun()

    def handle(batch: Batch) -> object:
        world.runtime.sleep(600)
        return CASES[case][0](batch)

    assert world.tick(handle).outcome == "lease_lost"
    assert world.state.checkpoint.cursor is None
    error = world.state.delivery.last_error
    assert error is not None
    assert error.type == "HandlerTimeout", "as the heartbeat wrote it"


def lose(world: World) -> None:
    """Another owner takes the lease, and the heartbeat finds it so."""
    world.take_over()
    world.runtime.sleep(600)
