"""Ticks whose handler names rows, rejects one, or asks to be called later, in each mode (failures 3, 4 and 8)."""

from __future__ import annotations

import pytest

from poller import Batch, Handler
from poller.model.document import State
from poller.tick.leased import Handled, LeasedDelivery
from tests.integration.runner.fakes import World, Worlds, cursor_of, row
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


def once(handler: Handler) -> Handler:
    """It says so in its first call, and then every row is done."""
    calls: list[Batch] = []

    def handle(batch: Batch) -> object:
        calls.append(batch)
        return handler(batch) if len(calls) == 1 else None

    return handle


MEANS: dict[str, dict[str, tuple[int, list[int], list[int]]]] = {
    "form": {"block": (1, [], []), "quarantine": (3, [2], [])},
    "fail": {"block": (1, [], []), "quarantine": (3, [2], [])},
    "reject": {"block": (2, [], []), "quarantine": (3, [], [3])},
    "all": {"block": (0, [], []), "quarantine": (3, [1, 2], [3])},
    "Reject": {"block": (0, [], []), "quarantine": (3, [], [3])},
    "later": {"block": (0, [], []), "quarantine": (0, [], [])},
    "malformed": {"block": (0, [], []), "quarantine": (0, [], [])},
}
"""How many of three rows the tick passes, which it sets aside, and which wait for a person."""


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("mode", ["block", "halt", "quarantine"])
@pytest.mark.parametrize("case", CASES)
def test_what_is_not_done_is_kept_as_the_mode_says(worlds: Worlds, case: str, mode: str, is_async: bool) -> None:
    world = worlds(rows=3, max_attempts=3, on_poison=mode).begun()
    handler, line = CASES[case]
    passes, aside, waiting = MEANS[case]["quarantine" if mode == "quarantine" else "block"]
    result = world.tick(once(Awaited(handler) if is_async else handler))
    halts = mode == "halt" and case in ("reject", "Reject", "all")
    assert result.outcome == ("halted" if halts else "handler_failed")
    assert line in (result.error or "").replace(" was rejected: ", ": ")
    assert result.rows == passes - len(aside) - len(waiting)
    state = world.state
    assert numbers(state, "aside") == aside
    assert numbers(state, "quarantine") == waiting
    assert state.checkpoint.cursor == (cursor_of(row(passes)) if passes else None)
    assert state.lease.owner_id is None
    records = set(world.store.names("quarantine/"))
    assert records == {f"quarantine/shop/orders/{one.id}.json" for one in (*state.aside, *state.quarantine)}


def test_an_outage_that_the_handler_names_counts_no_attempt(worlds: Worlds) -> None:
    world = worlds(rows=3, max_attempts=1).begun()
    for _ in range(5):
        result = world.tick_when_due(CASES["later"][0])
        assert result.outcome == "handler_failed"
        assert result.retry_at is not None
        assert (result.retry_at - world.runtime.utcnow()).total_seconds() == 120
        assert world.state.delivery.attempts == 0
        assert world.state.delivery.window is None
    assert world.tick_when_due().outcome == "delivered"


def numbers(state: State, listed: str) -> list[int]:
    """The rows that are listed there."""
    return [int((one.cursor.tiebreaker or {})["id"]) for one in getattr(state, listed)]


@pytest.mark.parametrize("name", ["empty form", "mapping", "None"])
def test_what_names_no_row_is_delivered(worlds: Worlds, name: str) -> None:
    world = worlds(rows=3).begun()
    assert world.tick(Returns("value", name)).outcome == "delivered"


def test_the_tick_gets_what_the_handler_said(worlds: Worlds, handled: list[Handled]) -> None:
    for case in CASES:
        worlds(rows=3).begun().tick(CASES[case][0])
    worlds(rows=3).begun().tick()
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
    assert (result.error, result.trace) == ("row orders/1/2026-04-01T00:00:00.000000Z: RowsFailed", None)
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


def test_a_named_row_without_a_record_repeats_others_once(worlds: Worlds) -> None:
    """It is too large for one. The rows behind it were done: they come again when it is out of the way, and once."""
    world = worlds(rows=8, on_poison="quarantine", max_attempts=3, batch_size=8)
    world.table.rows[3]["total"] = "x" * 1_100_000
    done: list[int] = []

    def names(batch: Batch) -> None:
        for one in batch:
            if one["id"] in (2, 4):
                batch.fail(one, "no")
            else:
                done.append(one["id"])

    for _ in range(6):
        assert world.tick_when_due(names).outcome == "handler_failed"
    assert done == [1, 3, 5, 6, 7, 8]
    assert [one.cursor.tiebreaker for one in world.state.aside] == [{"id": 2}]
    assert world.state.checkpoint.cursor == cursor_of(row(3))
    world.table.rows[3]["total"] = 1
    world.tick_when_due()
    world.tick_when_due()
    assert sorted(world.delivered) == [2, 4, 5, 6, 7, 8]
    assert world.state.delivery.window is None


@pytest.mark.parametrize("options", [{}, {"concurrency": 3}, {"max_uncommitted": 4}], ids=["one", "lanes", "grouped"])
@pytest.mark.parametrize("mode", ["block", "quarantine"])
def test_a_row_named_after_the_tick_is_an_error_there(worlds: Worlds, mode: str, options: dict[str, int]) -> None:
    """By a thread of the handler: nothing changes."""
    world = worlds(rows=5, batch_size=1, on_poison=mode, **options)
    kept: list[Batch] = []
    assert world.tick(kept.append).rows == 5
    for batch in kept:
        for name in (batch.fail, batch.reject):
            with pytest.raises(RuntimeError, match="is over, so this changes nothing"):
                name(batch.rows[0], "late")
        assert batch.failures == ()
    assert world.tick().outcome == "idle"
