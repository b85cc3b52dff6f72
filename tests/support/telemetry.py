"""An OpenTelemetry SDK for tests: an application installs its providers once per process."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from functools import cache
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from poller import Poller
from poller.config import BoundChoice
from poller.sources import SqlSource
from poller.stores import MemoryStore

READER = InMemoryMetricReader()
SPANS = InMemorySpanExporter()


@cache
def install() -> None:
    """Install both, where this process has none yet."""
    metrics.set_meter_provider(MeterProvider([READER]))
    tracing = TracerProvider()
    tracing.add_span_processor(SimpleSpanProcessor(SPANS))
    trace.set_tracer_provider(tracing)


@contextlib.contextmanager
def polled(table: sqlite3.Connection, *, bound: BoundChoice = "none", **keys: Any) -> Iterator[Poller]:
    """A poller of the table `orders`."""
    file = table.execute("PRAGMA database_list").fetchone()[2]
    delay = {"settle": keys.pop("settle")} if "settle" in keys else {}
    source = SqlSource(
        f"sqlite:///{file}", table="orders", cursor_column="updated_at", cursor_time_zone="UTC", pk_columns=["id"],
        bound=bound, **delay,
    )  # fmt: skip
    settings: dict[str, Any] = {"name": "orders", "batch_size": 3, "store": MemoryStore(), **keys}
    poller = Poller(source=source, app_name="shop", **{"observers": (), **settings})
    yield poller
    poller.close()


def ours(reader: InMemoryMetricReader = READER) -> dict[str, Any]:
    """The poller's own metrics by name."""
    data = reader.get_metrics_data()
    scopes = [scope for resource in (data.resource_metrics if data else ()) for scope in resource.scope_metrics]
    return {one.name: one for scope in scopes if scope.scope.name == "poller" for one in scope.metrics}


def points(metric: str, reader: InMemoryMetricReader = READER) -> dict[tuple[tuple[str, Any], ...], Any]:
    """A metric's values (of a histogram: its count), by the sorted attributes."""
    found: dict[tuple[tuple[str, Any], ...], Any] = {}
    known = ours(reader)
    for point in known[metric].data.data_points if metric in known else ():
        value = getattr(point, "value", None)
        found[tuple(sorted((point.attributes or {}).items()))] = point.count if value is None else value
    return found


def of_poller(metric: str, name: str, label: str = "", reader: InMemoryMetricReader = READER) -> dict[str, Any]:
    """A metric's values for one poller, by the value of a label."""
    every = [(dict(labels), value) for labels, value in points(metric, reader).items()]
    return {str(labels.get(label, "")): value for labels, value in every if labels.get("poller.name") == name}


def counted(metric: str, name: str, label: str) -> dict[str, Any]:
    """A counter's values for one poller, by the value of a label, less what never happened."""
    return {of: value for of, value in of_poller(metric, name, label).items() if value}
