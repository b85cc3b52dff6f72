"""What a tick found shows in metrics as the conditions of docs/health.md, without a further look."""

from __future__ import annotations

import gc
import sqlite3
from datetime import UTC, datetime
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from poller import Batch, Poller
from poller.errors import SourceError
from poller.model.conditions import view
from poller.model.view import PollerFacts, PollerLimits, PollerView
from poller.observability import MetricsObserver
from poller.stores import MemoryStore
from tests.support.quarantine import Clock
from tests.support.telemetry import of_poller, points, polled

KEPT = 15 * 60.0
"""Seconds, as docs/health.md says."""


def conditions(name: str) -> dict[str, str]:
    """Each condition that is not well, and its severity."""
    every = [dict(labels) for labels in points("poller.condition")]
    return {str(one["condition"]): str(one["severity"]) for one in every if one["poller.name"] == name}


def take(batch: Batch) -> None:
    """Everything."""


def refuse(batch: Batch) -> None:
    raise ValueError("no such product")


def test_what_a_tick_found_is_its_condition(table: sqlite3.Connection) -> None:
    clock = Clock()
    with polled(table, name="found", store=MemoryStore(clock), runtime=clock) as poller:
        poller.tick(refuse)
        assert (of_poller("poller.severity", "found"), conditions("found")) == ({"": 1}, {"failing": "warning"})
        clock.passed += 900
        poller.tick(refuse)
        assert (of_poller("poller.severity", "found"), conditions("found")) == ({"": 2}, {"failing": "unhealthy"})
        clock.passed += 60
        poller.tick(take)
        assert (of_poller("poller.severity", "found"), conditions("found")) == ({"": 0}, {})
        poller.pause(by="ada")
        poller.tick(take)
        assert conditions("found") == {"paused": "warning"}
        poller.resume(by="ada")
        table.execute("DROP TABLE orders")
        with pytest.raises(SourceError):
            poller.tick(take)
        assert conditions("found") == {"source_unreadable": "unhealthy"}


def test_a_halt_is_unhealthy_while_it_lasts(table: sqlite3.Connection) -> None:
    options: dict[str, Any] = {"on_poison": "halt", "max_attempts": 1, "retry_backoff": "1ms", "batch_size": 1}
    clock = Clock()
    with polled(table, name="halts", store=MemoryStore(clock), runtime=clock, **options) as poller:
        while poller.tick(refuse).outcome != "halted":
            clock.passed += 1
        assert conditions("halts") == {"halted": "unhealthy"}
        poller.resume(by="ada")
        poller.tick(take)
        assert conditions("halts") == {}


def test_rows_left_for_lack_of_time_are_no_condition(table: sqlite3.Connection) -> None:
    with polled(table, name="left", max_batches_per_tick=1) as poller:
        poller.tick(take)
        assert of_poller("poller.pending", "left") == {"": 4}
        assert (of_poller("poller.severity", "left"), conditions("left")) == ({"": 0}, {})


def test_of_a_poller_at_work_elsewhere_nothing_is_said(table: sqlite3.Connection) -> None:
    """The process that has its lease knows better."""
    store = MemoryStore()
    with polled(table, name="else", store=store) as poller, polled(table, name="else", store=store) as other:

        def beside(batch: Batch) -> None:
            assert other.tick(take).outcome == "held_elsewhere"
            assert of_poller("poller.severity", "else") == {}

        poller.tick(beside)
    assert of_poller("poller.severity", "else") == {"": 0}


def test_a_poller_that_is_gone_is_not_kept_for_it(table: sqlite3.Connection) -> None:
    with polled(table, name="gone-one") as poller:
        poller.tick(take)
    assert of_poller("poller.severity", "gone-one") == {"": 0}
    del poller
    gc.collect()
    assert not [one for one in gc.get_objects() if isinstance(one, Poller) and one.name == "gone-one"]
    assert of_poller("poller.severity", "gone-one") == {}


def found(**facts: Any) -> PollerView:
    return view(PollerFacts(name="orders", now=datetime(2026, 4, 7, tzinfo=UTC), **facts), PollerLimits())


class Watched:
    """An observer of its own, on a clock of its own."""

    def __init__(self) -> None:
        self.reader, self.now = InMemoryMetricReader(), 0.0
        self.observe = MetricsObserver(MeterProvider([self.reader], shutdown_on_exit=False), now=lambda: self.now)

    def severity(self) -> float | None:
        return of_poller("poller.severity", "orders", reader=self.reader).get("")

    def conditions(self) -> set[str]:
        return {str(dict(labels)["condition"]) for labels in points("poller.condition", self.reader)}


def test_what_a_look_found_is_forgotten_after_a_while() -> None:
    watched = Watched()
    watched.observe.looked("orders", found(halted=True))
    assert watched.severity() == 2
    watched.observe.looked("orders", found())
    assert (watched.severity(), watched.conditions()) == (0, set())
    watched.now += KEPT + 1
    assert watched.severity() is None


@pytest.mark.parametrize(("due", "lasts"), [(10.0, KEPT), (3600.0, KEPT + 3600), (86_400.0, KEPT + 3600)])
def test_what_a_tick_found_stays_until_the_next_is_overdue(due: float, lasts: float) -> None:
    """At most an hour longer than other gauges: an instance that no longer ticks knows nothing."""
    watched = Watched()
    watched.observe.ticked("orders", lambda: found(paused=True), lambda: due)
    watched.now += lasts
    assert watched.conditions() == {"paused"}
    watched.now += 11
    assert watched.severity() is None


def test_a_tick_keeps_what_only_a_look_can_see() -> None:
    watched = Watched()
    watched.observe.looked("orders", found(null_cursors=2, halted=True))
    watched.observe.ticked("orders", found, lambda: 10.0)
    assert (watched.severity(), watched.conditions()) == (1, {"unread"})
    watched.observe.looked("orders", found())
    assert (watched.severity(), watched.conditions()) == (0, set())
