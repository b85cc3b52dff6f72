"""What an application with an OpenTelemetry SDK sees of a poller."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from poller import Batch, Poller
from poller.sources import SqlSource
from poller.stores import MemoryStore

_READER = InMemoryMetricReader()
_SPANS = InMemorySpanExporter()


@pytest.fixture(scope="module", autouse=True)
def sdk() -> None:
    """An application installs its providers once per process."""
    metrics.set_meter_provider(MeterProvider([_READER]))
    tracing = TracerProvider()
    tracing.add_span_processor(SimpleSpanProcessor(_SPANS))
    trace.set_tracer_provider(tracing)


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[Poller]:
    path = tmp_path / "orders.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, updated_at TEXT NOT NULL)")
        connection.executemany("INSERT INTO orders VALUES (?, ?)", [(i, f"2026-01-01 00:00:0{i}") for i in range(7)])
    source = SqlSource(
        f"sqlite:///{path}",
        table="orders",
        cursor_column="updated_at",
        cursor_time_zone="UTC",
        pk_columns=["id"],
        bound="none",
    )
    poller = Poller("orders", source=source, store=MemoryStore(), app_name="shop", batch_size=3, observers=())
    yield poller
    poller.close()


def points(metric: str) -> dict[tuple[tuple[str, Any], ...], Any]:
    data = _READER.get_metrics_data()
    found: dict[tuple[tuple[str, Any], ...], Any] = {}
    for resource in data.resource_metrics if data else ():
        for scope in resource.scope_metrics:
            for one in scope.metrics:
                if one.name == metric:
                    for point in one.data.data_points:
                        value = getattr(point, "value", None)
                        found[tuple(sorted((point.attributes or {}).items()))] = (
                            point.count if value is None else value  # type: ignore[union-attr]
                        )
    return found


def test_rows_batches_ticks_and_lag_are_metrics(orders: Poller) -> None:
    name = (("poller.name", "orders"),)
    rows, batches = points("poller.rows").get(name, 0), points("poller.batches").get(name, 0)

    orders.tick(lambda batch: None)

    assert points("poller.rows")[name] == rows + 7
    assert points("poller.batches")[name] == batches + 3
    assert points("poller.handler.duration")[name] >= 3
    assert points("poller.pending")[name] == 0
    assert points("poller.ticks")[(("outcome", "delivered"), *name)] >= 1


def test_a_failing_handler_is_an_event_and_an_outcome(orders: Poller) -> None:
    def fail(batch: Batch) -> None:
        raise ValueError("postgresql://me:secret@host/db")

    orders.tick(fail)

    assert points("poller.ticks")[(("outcome", "handler_failed"), ("poller.name", "orders"))] >= 1
    assert points("poller.events")[(("event", "handler_failed"), ("poller.name", "orders"))] >= 1


def test_what_the_handler_traces_hangs_below_its_batch_and_no_span_quotes_an_error(orders: Poller) -> None:
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
    assert not ours.status.is_ok
    assert "secret" not in ours.to_json()
