"""What Prometheus reads of real pollers: ticks over a SQLite table, through our own exporter, as text."""

from __future__ import annotations

import contextlib
import re
import sqlite3
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider

from poller import Batch
from poller.errors import SourceError
from poller.model.view import Condition, PollerView
from poller.observability import MetricsObserver, Rechecked
from poller.stores import MemoryStore
from scripts.docs_alerts import ALERTS
from tests.support.services import REPOSITORY
from tests.support.telemetry import polled

_LINE = re.compile(r"^(\w+)(?:\{(.*)\})? \S+$")
_LABEL = re.compile(r'(\w+)="([^"]*)"')


@dataclass(frozen=True)
class Series:
    """One line of the text."""

    name: str
    labels: dict[str, str]

    def __str__(self) -> str:
        labels = ",".join(f'{name}="{value}"' for name, value in self.labels.items())
        return f"{self.name}{{{labels}}}"


def documented(heading: str) -> dict[str, list[str]]:
    """The rows of the tables of docs/health.md below a heading, by their first cell."""
    text = (REPOSITORY / "docs" / "health.md").read_text().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    cells = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    return {name: rest for name, *rest in cells[1:] if set(name) != {"-"}}


def exported(folder: Path) -> list[Series]:
    """Every series of a poller `orders` that delivered, failed, rejected rows, lost its lease and was looked at, and of
    a dispatcher. Skips where the exporter is not installed."""
    reason = "poller[prometheus] is not installed"
    exporter = pytest.importorskip("opentelemetry.exporter.prometheus", reason=reason)
    client = import_module("prometheus_client")
    registry = client.CollectorRegistry()
    provider = MeterProvider([exporter.PrometheusMetricReader(registry=registry)], shutdown_on_exit=False)
    observe = MetricsObserver(provider)
    _work(folder, observe)
    observe.looked("orders", PollerView("orders", "halted", "unhealthy", _all_that_alerts()))
    observe.dispatched("shop", due=1, late_seconds=3.0, probes=1, messages={"rows": 1}, seconds=0.1)
    lines = client.generate_latest(registry).decode().splitlines()
    provider.shutdown()
    found = [match for line in lines if line.startswith("poller_") and (match := _LINE.match(line))]
    return [Series(match[1], dict(_LABEL.findall(match[2] or ""))) for match in found]


def _all_that_alerts() -> tuple[Condition, ...]:
    return tuple(Condition(one.condition, severity, "") for one in ALERTS for severity in one.of)


def _work(folder: Path, observe: MetricsObserver) -> None:
    observe.expect("orders", max_quarantined=100)
    store = MemoryStore()
    with contextlib.closing(sqlite3.connect(folder / "shop.db", isolation_level=None)) as table:
        table.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, updated_at TEXT NOT NULL)")
        table.executemany("INSERT INTO orders VALUES (?, ?)", [(i, f"2026-01-01T00:00:0{i}.000Z") for i in range(7)])
        keys: dict[str, Any] = {"store": store, "on_poison": "quarantine", "bound": "auto", "max_batches_per_tick": 1}
        with polled(table, observers=[observe], **keys) as poller, polled(table, store=store) as operator:

            def handle(batch: Batch) -> None:
                if batch.rows[0]["id"] == 0:
                    batch.reject(batch.rows[1], "no such product")
                elif batch.rows[0]["id"] == 3:
                    operator.reset("beginning", break_lease=True, by="test", reason="a stale owner")

            table.execute("ALTER TABLE orders RENAME TO away")
            with contextlib.suppress(SourceError):
                poller.tick(handle)
            table.execute("ALTER TABLE away RENAME TO orders")
            assert [poller.tick(handle).outcome for _ in range(2)] == ["handler_failed", "lease_lost"]
            observe(Rechecked(poller="orders", at=datetime.now(UTC), compared=1, late=1, complete=True))


def value_labels(series: list[Series], name: str, **labels: str) -> Series:
    """The series of that name with these labels. Fails where our exporter writes none."""
    for one in series:
        if one.name == name and labels.items() <= one.labels.items():
            return one
    raise AssertionError(f"our exporter writes no {name} with {labels}")
