"""Handlers that fail: what is kept of it, how often it is tried, and when the poller halts (protocol 8 and 9)."""

from __future__ import annotations

import asyncio
import contextlib
import logging

import pytest

from poller import Batch, Handler
from poller.errors import ConfigError, SourceUnavailable, StoreUnavailable
from poller.model import transitions
from poller.model.document import OperatorChange, State
from poller.model.redact import LIMIT
from poller.observability import HandlerFailed, PollerHalted
from poller.tick import Recheck
from tests.integration.runner.fakes import LONGEST_WAIT, TableGone, World, Worlds, cursor_of, raising, row
from tests.integration.runner.wire import Fault, denied, lost_before
from tests.support.hostile import Hostile

SECRET = "hunter2Zx9"


class Timeout(BaseException):
    """As gevent's, trio's `Cancelled` and pytest's `fail` are: no `Exception`."""


class Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError("not even this")


def resumed(state: State) -> State:
    now = state.lease.released_at
    assert now is not None
    return transitions.resume(state, change=OperatorChange(id="r", kind="resume", by="ann"), now=now)


# --- one failure


@pytest.mark.guarantee("Delivery", "A failed handler does not move the checkpoint, and the batch is delivered again")
def test_a_failure_moves_nothing_and_releases_by_one_write(worlds: Worlds) -> None:
    world = worlds(rows=25)
    world.tick()
    world.table.rows += [row(number) for number in range(26, 30)]
    before = world.state
    world.wire.forget()
    error = ValueError("bad row")
    result = world.tick(raising(error))
    assert (result.outcome, result.error, result.exception) == ("handler_failed", "ValueError: bad row", error)
    assert (result.rows, result.batches) == (0, 0)
    assert world.wire.counts == (1, 2)
    state = world.state
    assert state.checkpoint == before.checkpoint
    assert (state.lease.owner_id, state.lease.fencing_token) == (None, before.lease.fencing_token + 1)
    assert state.delivery.attempts == 1
    last = state.delivery.last_error
    assert last is not None
    assert (last.type, last.message) == ("ValueError", "bad row")
    assert last.batch_id is not None
    assert last.at is not None
    (event,) = world.emitted(HandlerFailed)
    assert (event.error, event.attempt, event.batch_id) == ("ValueError: bad row", 1, last.batch_id)


def test_until_the_next_call_a_tick_is_one_look_at_the_document(worlds: Worlds) -> None:
    world = worlds(rows=5, retry_backoff="4s")
    failed = world.tick(raising(ValueError("no")))
    world.wire.forget()
    pages = len(world.table.pages)
    result = world.tick()
    assert (result.outcome, result.retry_at) == ("backing_off", failed.retry_at)
    assert "ValueError: no" in (result.error or "")
    assert (world.wire.counts, len(world.table.pages)) == ((1, 0), pages)
    assert failed.retry_at is not None
    world.runtime.sleep((failed.retry_at - world.runtime.utcnow()).total_seconds())
    assert world.tick().outcome == "delivered"
    assert ([seen.attempt for seen in world.seen], world.delivered) == ([2], [1, 2, 3, 4, 5])
    assert (world.state.delivery.attempts, world.state.delivery.last_error) == (0, None)


def test_waits_double_up_to_the_longest_and_begin_anew_after_a_row(worlds: Worlds) -> None:
    world = worlds(rows=1, retry_backoff="4s", retry_backoff_max="20s")
    waits = []
    for _ in range(5):
        result = world.tick_when_due(raising(ValueError("no")))
        assert result.retry_at is not None
        waits.append((result.retry_at - world.runtime.utcnow()).total_seconds())
    assert waits == [3, 6, 12, 15, 15], "three quarters: half of each is chosen by chance, here its middle"
    world.tick_when_due()
    world.table.rows.append(row(2))
    result = world.tick(raising(ValueError("no")))
    assert result.retry_at is not None
    assert (result.retry_at - world.runtime.utcnow()).total_seconds() == 3


ENDLESS = type("E" * 5_000, (Exception,), {})
ANY_ERROR: list[BaseException] = [
    *(SourceUnavailable("their database"), StoreUnavailable("their store"), TableGone("x")),
    ConfigError("no such setting", key="x"),
    *(asyncio.CancelledError(), TimeoutError(), StopIteration(), SystemExit(3), Timeout("10 seconds")),
    *(ValueError("file \udcff.csv"), ValueError("\ud800"), Unprintable(), ValueError(), ValueError("nul \x00")),
    *(Hostile(inner()) for inner in (ValueError, SystemExit, KeyboardInterrupt, GeneratorExit)),
    ENDLESS("x"),
]


def test_any_error_of_a_handler_is_a_failure_of_its_batch(worlds: Worlds) -> None:
    """Those of the library, those that Python treats apart, and those that cannot be shown."""
    for error in ANY_ERROR:
        world, kind = worlds(rows=5), type(error).__name__
        result = world.tick(raising(error))
        assert (result.outcome, world.state.delivery.attempts) == ("handler_failed", 1), kind
        assert (result.error or "").startswith(kind[:100]), kind
        assert world.state.lease.owner_id is None, kind
        assert world.tick_when_due().outcome == "delivered", kind


def test_a_failure_that_cannot_be_written_is_still_reported(worlds: Worlds) -> None:
    for is_down in (False, True):
        world = worlds(rows=5, lease_ttl="3s", heartbeat_interval="750ms")

        def handle(batch: Batch, world: World = world, is_down: bool = is_down) -> None:
            world.wire.down = is_down
            world.wire.write_faults.append(denied)
            raise ValueError("no")

        result = world.tick(handle)
        assert (result.outcome, result.error) == ("handler_failed", "ValueError: no"), is_down
        assert world.state.lease.owner_id is not None, "it will expire"


# --- what is kept of an error


def test_an_error_is_kept_as_one_bounded_line_without_secrets(worlds: Worlds, caplog: pytest.LogCaptureFixture) -> None:
    world = worlds(rows=5)
    text = f"\n  cannot reach postgresql://app:{SECRET}@db/shop {'x' * 1000}\nDETAIL: row (1, 'private')"
    with caplog.at_level(logging.DEBUG):
        result = world.tick(raising(RuntimeError(text)))
    last = world.state.delivery.last_error
    assert last is not None
    assert last.message.startswith("cannot reach postgresql://***@db/shop xxx")
    assert len(last.message) <= LIMIT
    assert "private" not in world.body.decode()
    everything = "\n".join([caplog.text, str(result), str(result.as_json()), str(world.events), world.body.decode()])
    assert SECRET not in everything


@pytest.mark.guarantee("Hostile and broken input", "With `error_text = false` no error shows what a row holds")
def test_with_error_text_off_only_the_type_is_kept_or_logged(worlds: Worlds, caplog: pytest.LogCaptureFixture) -> None:
    world = worlds(rows=5, error_text=False)
    with caplog.at_level(logging.DEBUG):
        result = world.tick(raising(ValueError("Ann Smith, 12 High Street")))
    last = world.state.delivery.last_error
    assert last is not None
    assert (last.type, last.message) == ("ValueError", "")
    assert result.error == "ValueError"
    for shown in (caplog.text, str(result.as_json()), str(world.events), world.body.decode()):
        assert "Ann" not in shown


# --- again and again


def failing_on(world: World, number: int) -> Handler:
    def handle(batch: Batch) -> None:
        world.take(batch)
        if number in world.seen[-1].rows:
            raise ValueError("no")

    return handle


def test_the_row_that_fails_is_found_and_blocks_alone(worlds: Worlds) -> None:
    world = worlds(rows=10, max_attempts=2)
    handler = failing_on(world, 7)
    outcomes = [world.tick_when_due(handler).outcome for _ in range(8)]
    assert set(outcomes) == {"handler_failed"}, "an outage would heal by itself: it never halts"
    assert [seen.rows for seen in world.seen[:8]] == [
        [*range(1, 11)],
        [*range(1, 11)],
        [*range(1, 6)],
        [6, 7],
        [6],
        [7, 8, 9, 10],
        [7, 8],
        [7],
    ]
    assert world.seen[-1].rows == [7]
    assert world.state.checkpoint.cursor == cursor_of(row(6))
    result = world.tick_when_due(handler)
    assert result.error == "row orders/7/2026-04-01T00:02:00.000000Z: ValueError: no"
    assert world.tick_when_due().outcome == "delivered"
    assert world.delivered[-4:] == [7, 8, 9, 10]
    assert world.state.delivery.window is None


def test_halves_are_tried_in_one_tick_without_waiting(worlds: Worlds) -> None:
    world = worlds(rows=8, max_attempts=1)
    handler = failing_on(world, 8)
    assert world.tick(handler).rows == 0
    result = world.tick_when_due(handler)
    assert (result.outcome, result.rows) == ("handler_failed", 7)
    assert [seen.rows for seen in world.seen[1:]] == [[1, 2, 3, 4], [5, 6], [7], [8]]


def test_the_last_of_max_attempts_halts_by_the_same_write(worlds: Worlds) -> None:
    world = worlds(rows=1, max_attempts=3, on_poison="halt")
    outcomes = [world.tick_when_due(raising(ValueError("no"))).outcome for _ in range(3)]
    assert outcomes == ["handler_failed", "handler_failed", "halted"]
    assert len(world.wire.writes) == 6
    control = world.state.control
    assert (control.halted, control.by) == (True, "poller")
    assert control.reason == "row orders/1/2026-04-01T00:00:00.000000Z failed 3 times: ValueError: no"
    assert len(world.emitted(PollerHalted)) == 1


def test_a_halted_poller_runs_nothing_writes_nothing_and_says_why(worlds: Worlds) -> None:
    world = worlds(rows=1, max_attempts=1, on_poison="halt")
    assert world.tick(raising(ValueError("no"))).outcome == "halted"
    world.wire.forget()
    for worker in (world.worker, world.another()):
        result = world.tick(worker=worker)
        assert result.outcome == "halted"
        assert "ValueError" in (result.error or "")
    assert world.delivered == []
    assert world.wire.counts == (2, 0)


def test_a_resumed_poller_tries_afresh_and_at_once(worlds: Worlds) -> None:
    world = worlds(rows=1, max_attempts=2, on_poison="halt")
    for _ in range(2):
        world.tick_when_due(raising(ValueError("no")))
    assert world.state.control.halted
    world.change(resumed)
    assert world.tick(raising(ValueError("no"))).outcome == "handler_failed", "the first of two"
    assert world.tick_when_due().outcome == "delivered"


def dying_tick(world: World) -> None:
    """A process that is killed in its handler: the document stays as its last write left it, until the lease ends."""

    def handle(batch: Batch) -> None:
        world.take(batch)
        world.wire.down = True
        raise GeneratorExit  # ends a tick without a word, as a kill does

    world.runtime.sleep(LONGEST_WAIT)
    with contextlib.suppress(GeneratorExit):
        world.tick(handle, worker=world.another())
    world.wire.down = False


def test_a_row_that_kills_its_process_is_halved_to_and_counted(worlds: Worlds) -> None:
    world = worlds(rows=4, max_attempts=2, on_poison="halt").begun()
    for _ in range(8):
        dying_tick(world)
    assert [seen.rows for seen in world.seen] == [[1, 2, 3, 4], [1, 2, 3, 4], [1, 2], [1], [1]]
    assert world.state.control.halted
    reason = world.state.control.reason or ""
    assert reason.startswith("row orders/1/2026-04-01T00:00:00.000000Z failed 2 times: HandlerDied: its process ended")
    assert world.state.checkpoint.cursor is None


# --- late rows


@pytest.mark.parametrize("fault", [lost_before, denied])
def test_a_handlers_error_on_late_rows_hides_behind_no_store_error(
    worlds: Worlds, fault: Fault, caplog: pytest.LogCaptureFixture
) -> None:
    world = worlds(rows=5, lease_ttl="3s", heartbeat_interval="750ms")
    world.tick()
    late = Recheck(rows=[row(1)], cursors=[cursor_of(row(1))])

    def handle(batch: Batch) -> None:
        world.wire.write_faults.extend([fault] * 1000)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"), caplog.at_level(logging.INFO):
        world.worker.redeliver(late, handle)
    assert "not given back" in caplog.text
    world.wire.write_faults.clear()
    world.runtime.sleep(10)
    world.worker.redeliver(late, world.take)
    assert (world.delivered[-1], late.redelivered) == (1, 1)
