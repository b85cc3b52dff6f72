"""What an application with an OpenTelemetry SDK sees of a poller."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from opentelemetry import trace

from poller import Batch, Poller, TickResult
from poller.errors import SourceError
from poller.observability import (
    BatchCommitted,
    HandlerFailed,
    LeaseLostEvent,
    MetricsObserver,
    RowDeliveredLater,
    RowSetAside,
    StaleCommitRefused,
    TickFinished,
)
from tests.support.exported import documented
from tests.support.telemetry import SPANS as _SPANS
from tests.support.telemetry import ours, points, polled


@pytest.fixture
def orders(table: sqlite3.Connection) -> Iterator[Poller]:
    with polled(table) as poller:
        yield poller


def test_every_documented_metric_is_exported_and_no_other(table: sqlite3.Connection) -> None:
    with polled(table, bound="exact", audit_window="2h") as poller:
        poller.tick(lambda batch: None)
        poller.recheck()
        poller.emit(finished("orders", aside=0, quarantined=0))
        tenure: Any = {"poller": "orders", "at": datetime.now(UTC), "owner_id": "w", "fencing_token": 1}
        poller.emit(LeaseLostEvent(reason="deadline", **tenure))
        poller.emit(StaleCommitRefused(batch_id="b", reason="deadline", **tenure))
        poller.emit(RowSetAside(row="7", behind=False, error=None, **tenure))
        MetricsObserver().dispatched("shop", due=1, late_seconds=0.0, probes=1, messages={"rows": 1}, seconds=0.1)
        table.execute("DROP TABLE orders")
        with pytest.raises(SourceError):
            poller.tick(lambda batch: None)
    assert set(ours()) == set(documented("Metrics"))
    units = {name: metric.unit for name, metric in ours().items()}
    assert {name for name, unit in units.items() if unit == "s"} == {
        "poller.handler.duration",
        "poller.lag",
        "poller.bound.age",
        "poller.dispatch.duration",
        "poller.dispatch.late",
    }


def finished(poller: str, **facts: Any) -> TickFinished:
    """A tick that found nothing to do, and these facts."""
    result = TickResult(outcome="idle", **facts).as_json()
    return TickFinished(poller=poller, at=datetime.now(UTC), **result)


def test_rows_that_wait_are_those_of_the_last_tick(table: sqlite3.Connection) -> None:
    name = (("poller.name", "waiting"),)
    with polled(table, name="waiting") as poller:
        poller.emit(finished("waiting", aside=3, quarantined=2))
        assert (points("poller.aside")[name], points("poller.quarantine.pending")[name]) == (3, 2)
        poller.emit(finished("waiting", aside=0, quarantined=0))
        poller.emit(finished("waiting"))
    assert points("poller.aside")[name] == points("poller.quarantine.pending")[name] == 0, "not known is not none"


def test_each_call_of_a_handler_is_counted_once() -> None:
    """Also one that named a row: the others of its batch are committed. Rows may be passed without a call."""
    observe = MetricsObserver()
    facts: Any = {"poller": "calls", "at": datetime.now(UTC), "owner_id": "w"}

    def failed(batch_id: str) -> None:
        observe(HandlerFailed(batch_id=batch_id, attempt=1, error="ValueError", fencing_token=1, **facts))

    def committed(batch_id: str, rows: int) -> None:
        done: Any = {"batch_id": batch_id, "rows": rows, "cursor": "7", "handler_seconds": 0.0}
        observe(BatchCommitted(fencing_token=1, **done, **facts))

    for batch_id in ("first", "second"):
        failed(batch_id)
    committed("second", 2)
    committed("third", 3)
    committed("fourth", 0)
    observe(RowDeliveredLater(row="7", failures=1, fencing_token=1, **facts))
    name = ("poller.name", "calls")
    assert points("poller.handler.attempts")[(("outcome", "failed"), name)] == 2
    assert points("poller.handler.attempts")[(("outcome", "returned"), name)] == 2


def test_a_tick_that_could_not_be_done_is_counted_by_its_error(table: sqlite3.Connection) -> None:
    with polled(table, name="gone") as poller:
        table.execute("DROP TABLE orders")
        with pytest.raises(SourceError):
            poller.tick(lambda batch: None)
    name = ("poller.name", "gone")
    assert points("poller.ticks")[(("outcome", "SourceError"), name)] == 1
    assert points("poller.events")[(("event", "tick_failed"), name)] == 1


def test_the_lag_is_the_age_of_the_oldest_row_that_is_left(table: sqlite3.Connection) -> None:
    name = (("poller.name", "behind"),)
    with polled(table, name="behind", max_batches_per_tick=1) as poller:
        poller.tick(lambda batch: None)
        age = datetime.now(UTC) - datetime(2026, 1, 1, 0, 0, 3, tzinfo=UTC)
        assert points("poller.lag")[name] == pytest.approx(age.total_seconds(), abs=60)
        assert points("poller.pending")[name] == 4
        poller.tick(lambda batch: None)
        poller.tick(lambda batch: None)
    assert points("poller.lag")[name] == points("poller.pending")[name] == 0


def test_late_rows_are_those_of_the_last_recheck(table: sqlite3.Connection) -> None:
    name = (("poller.name", "late"),)
    with polled(table, name="late", audit_window="2h") as poller:
        poller.tick(lambda batch: None)
        table.execute("INSERT INTO orders VALUES (-1, '2026-01-01T00:00:02.000Z')")
        poller.recheck()
        assert points("poller.late_rows")[name] == 1
        table.execute("DELETE FROM orders WHERE id = -1")
        poller.recheck()
    assert points("poller.late_rows")[name] == 0


def test_the_bounds_age_is_reported_with_its_kind(table: sqlite3.Connection) -> None:
    with polled(table, name="guessed", bound="delay", settle="90s") as poller:
        poller.tick(lambda batch: None)
    with polled(table, name="unbound") as poller:
        poller.tick(lambda batch: None)
    ages = points("poller.bound.age")
    assert ages[(("bound.kind", "heuristic"), ("poller.name", "guessed"))] == 90
    assert not [one for one in ages if ("poller.name", "unbound") in one], "without a bound there is no age"


def test_a_transaction_that_stays_open_makes_the_bounds_age_grow(table: sqlite3.Connection) -> None:
    """Also where a row had come since the last look that found nobody writing."""
    label = (("bound.kind", "exact"), ("poller.name", "held"))
    with polled(table, name="held", bound="auto") as poller:
        poller.tick(lambda batch: None)
        assert points("poller.bound.age")[label] == 0
        table.execute("INSERT INTO orders VALUES (7, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))")
        table.execute("BEGIN IMMEDIATE")
        ages = []
        for _ in range(3):
            held = poller.tick(lambda batch: None).bound
            assert held is not None
            assert "open transaction" in str(held.held_by)
            ages.append(points("poller.bound.age")[label])
        table.execute("ROLLBACK")
        poller.tick(lambda batch: None)
        assert points("poller.bound.age")[label] == 0
    assert 0 < ages[0] < ages[1] < ages[2]


def test_rows_batches_and_ticks_are_metrics(orders: Poller) -> None:
    name = (("poller.name", "orders"),)
    rows, batches = points("poller.rows").get(name, 0), points("poller.batches").get(name, 0)

    orders.tick(lambda batch: None)

    assert points("poller.rows")[name] == rows + 7
    assert points("poller.batches")[name] == batches + 3
    assert points("poller.handler.duration")[name] >= 3
    assert points("poller.ticks")[(("outcome", "delivered"), *name)] >= 1


def test_a_failing_handler_is_an_event_and_an_outcome(orders: Poller) -> None:
    def fail(batch: Batch) -> None:
        raise ValueError("postgresql://me:secret@host/db")

    orders.tick(fail)

    assert points("poller.ticks")[(("outcome", "handler_failed"), ("poller.name", "orders"))] >= 1
    assert points("poller.events")[(("event", "handler_failed"), ("poller.name", "orders"))] >= 1


def test_the_span_of_a_call_that_named_a_row_shows_an_error(orders: Poller) -> None:
    _SPANS.clear()
    orders.tick(lambda batch: {"batchItemFailures": [{"itemIdentifier": batch.key(batch.rows[0])}]})
    spans = {span.name: span for span in _SPANS.get_finished_spans()}
    assert not spans["poller.handle"].status.is_ok


def test_the_handlers_spans_hang_below_its_batch_without_errors(orders: Poller) -> None:
    _SPANS.clear()

    def handle(batch: Batch) -> None:
        with trace.get_tracer("shop").start_as_current_span("ship"):
            raise ValueError("password=secret")

    orders.tick(handle)

    spans = {span.name: span for span in _SPANS.get_finished_spans()}
    assert {"ship", "poller.handle", "poller.tick"} <= set(spans)
    assert spans["ship"].parent is not None
    assert spans["ship"].parent.span_id == spans["poller.handle"].context.span_id
    ours = spans["poller.handle"]
    assert ours.attributes is not None
    assert ours.attributes["poller.rows"] == 3
    assert ours.attributes["poller.name"] == "orders", "a replay has no tick above it that would name it"
    assert not ours.status.is_ok
    assert "secret" not in ours.to_json()


@pytest.mark.parametrize("asynchronous", [False, True])
def test_spans_of_calls_in_lanes_hang_below_the_tick(table: sqlite3.Connection, asynchronous: bool) -> None:
    _SPANS.clear()

    def ship(batch: Batch) -> None:
        with trace.get_tracer("shop").start_as_current_span("ship"):
            pass

    async def ship_later(batch: Batch) -> None:
        ship(batch)

    with polled(table, concurrency=3, batch_size=1) as orders:
        orders.tick(ship_later if asynchronous else ship)
    by_id = {span.context.span_id: span for span in _SPANS.get_finished_spans() if span.context is not None}
    spans = [span for span in by_id.values() if span.name == "ship"]
    above = [by_id[span.parent.span_id] for span in spans if span.parent is not None]
    assert [span.name for span in above] == ["poller.handle"] * 7
    assert {by_id[span.parent.span_id].name for span in above if span.parent is not None} == {"poller.tick"}
