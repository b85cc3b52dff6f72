"""Handlers that fail: what is kept of it, how often it is tried, and when the poller halts (protocol 8 and 9)."""

from __future__ import annotations

import asyncio
import logging

import pytest

from poller.delivery.recheck import Recheck
from poller.errors import ConfigError, SourceUnavailable, StoreUnavailable
from poller.handler.batch import Batch
from poller.model import transitions
from poller.model.document import Change, State
from poller.model.redact import LIMIT
from poller.observability import HandlerFailed, PollerHalted
from tests.integration.runner.fakes import TableGone, Worlds, cursor_of, raising, row
from tests.integration.runner.wire import Fault, denied, lost_before, unavailable

SECRET = "hunter2Zx9"


class Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError("not even this")


def resumed(state: State) -> State:
    return transitions.resume(state, change=Change(id="r", kind="resume", by="ann"), now=state.lease.released_at)  # type: ignore[arg-type]


# --- one failure


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


def test_the_next_tick_repeats_the_rows_as_attempt_two(worlds: Worlds) -> None:
    world = worlds(rows=5)
    world.tick(raising(ValueError("no")))
    assert world.tick().outcome == "delivered"
    assert [seen.attempt for seen in world.seen] == [2]
    assert world.delivered == [1, 2, 3, 4, 5]
    assert (world.state.delivery.attempts, world.state.delivery.last_error) == (0, None)


def test_a_failure_in_mid_drain_keeps_what_was_committed(worlds: Worlds) -> None:
    world = worlds(rows=30)

    def handle(batch: Batch) -> None:
        if 15 in [one["id"] for one in batch]:
            raise ValueError("fifteen")
        world.take(batch)

    result = world.tick(handle)
    assert (result.outcome, result.rows, result.cursor) == ("handler_failed", 10, cursor_of(row(10)))
    assert world.state.checkpoint.cursor == cursor_of(row(10))
    assert world.state.delivery.attempts == 1


@pytest.mark.parametrize(
    "error", [SourceUnavailable("their database"), StoreUnavailable("their store"), TableGone("x")]
)
def test_our_own_error_raised_by_a_handler_is_its_failure(worlds: Worlds, error: Exception) -> None:
    world = worlds(rows=5)
    assert world.tick(raising(error)).outcome == "handler_failed"


@pytest.mark.parametrize("error", [asyncio.CancelledError(), TimeoutError(), StopIteration(), SystemExit(3)])
def test_errors_that_python_treats_apart_are_failures_too(worlds: Worlds, error: BaseException) -> None:
    world = worlds(rows=5)
    result = world.tick(raising(error))
    assert result.outcome == "handler_failed"
    assert type(error).__name__ in (result.error or "")
    assert world.state.delivery.attempts == 1


def test_a_failure_that_cannot_be_written_is_still_reported(worlds: Worlds) -> None:
    world = worlds(rows=5)

    def handle(batch: Batch) -> None:
        world.wire.write_faults.append(denied)
        raise ValueError("no")

    assert world.tick(handle).outcome == "handler_failed"
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


@pytest.mark.parametrize(
    "error", [ValueError("file \udcff.csv"), ValueError("\ud800"), Unprintable(), ValueError(), ValueError("nul \x00")]
)
def test_an_error_that_cannot_be_shown_is_still_a_failure(worlds: Worlds, error: Exception) -> None:
    world = worlds(rows=5)
    result = world.tick(raising(error))
    assert result.outcome == "handler_failed"
    last = world.state.delivery.last_error
    assert last is not None
    assert last.type == type(error).__name__


# --- again and again


def test_the_last_of_max_attempts_halts_in_its_own_write(worlds: Worlds) -> None:
    world = worlds(rows=5, max_attempts=3)
    outcomes = [world.tick(raising(ValueError("no"))).outcome for _ in range(3)]
    assert outcomes == ["handler_failed", "handler_failed", "halted"]
    assert len(world.wire.writes) == 6
    control = world.state.control
    assert (control.halted, control.by) == (True, "poller")
    assert "ValueError" in (control.reason or "")
    assert len(world.emitted(PollerHalted)) == 1


def test_a_halted_poller_runs_nothing_writes_nothing_and_says_why(worlds: Worlds) -> None:
    world = worlds(rows=5, max_attempts=1)
    assert world.tick(raising(ValueError("no"))).outcome == "halted"
    world.wire.forget()
    for worker in (world.worker, world.another()):
        result = world.tick(worker=worker)
        assert result.outcome == "halted"
        assert "ValueError" in (result.error or "")
    assert world.delivered == []
    assert world.wire.counts == (2, 0)


def test_a_resumed_poller_tries_afresh(worlds: Worlds) -> None:
    world = worlds(rows=5, max_attempts=2)
    for _ in range(2):
        world.tick(raising(ValueError("no")))
    world.change(resumed)
    assert world.tick(raising(ValueError("no"))).outcome == "handler_failed", "the first of two"
    assert world.tick().outcome == "delivered"


def test_a_process_that_dies_in_the_handler_is_counted_and_halts(worlds: Worlds) -> None:
    """A dead process leaves the document as its last write left it: held, with one start more."""
    world = worlds(rows=5, max_attempts=3)
    world.tick(raising(ValueError("so that there is a document")))
    world.change(resumed)
    for _ in range(3):
        world.change(lambda state: transitions.acquire(state, owner_id="dead", ttl=60.0, now=world.runtime.utcnow()))
        world.runtime.sleep(65)
    result = world.tick()
    assert result.outcome == "halted"
    assert "3 times" in (result.error or "")
    assert world.delivered == []
    state = world.state
    assert state.control.halted
    assert state.lease.owner_id is None
    assert state.checkpoint.cursor is None


def test_crashes_and_failures_count_together(worlds: Worlds) -> None:
    world = worlds(rows=5, max_attempts=3)
    world.tick(raising(ValueError("one")))
    world.change(lambda state: transitions.acquire(state, owner_id="dead", ttl=60.0, now=world.runtime.utcnow()))
    world.runtime.sleep(65)
    assert world.tick(raising(ValueError("three"))).outcome == "halted"


def test_the_batch_after_a_commit_starts_at_attempt_one(worlds: Worlds) -> None:
    world = worlds(rows=15, max_attempts=5)
    world.tick(raising(ValueError("no")))
    world.tick()
    assert [seen.attempt for seen in world.seen] == [2, 1]


def test_a_poller_whose_database_was_down_for_long_does_not_halt(worlds: Worlds) -> None:
    world = worlds(rows=15, max_attempts=2)
    for _ in range(10):
        world.table.faults.extend([None, SourceUnavailable("down")])
        with pytest.raises(SourceUnavailable):
            world.tick()
        world.table.rows.append(row(100 + len(world.table.rows)))
        world.table.rows.extend(row(200 + len(world.table.rows) + n) for n in range(10))
    assert world.state.delivery.attempts == 0


def test_a_failing_write_of_a_failure_does_not_hide_the_outcome(worlds: Worlds) -> None:
    world = worlds(rows=5, lease_ttl="3s", heartbeat_interval="750ms")

    def handle(batch: Batch) -> None:
        world.wire.down = True
        raise ValueError("no")

    result = world.tick(handle)
    assert (result.outcome, result.error) == ("handler_failed", "ValueError: no")
    assert str(unavailable()) not in (result.error or "")


def test_a_configuration_error_raised_by_a_handler_is_its_failure(worlds: Worlds) -> None:
    world = worlds(rows=5)
    assert world.tick(raising(ConfigError("no such setting", key="x"))).outcome == "handler_failed"
    assert world.state.delivery.attempts == 1


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
