"""What is rare and matters has a metric of its own, so that an alert names it."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from poller import Batch, TickResult, load_app
from poller.errors import StoreUnavailable
from poller.observability import LeaseTakenOver, MetricsObserver, TickFinished
from poller.stores import MemoryStore
from tests.support.dispatching import APP, Shop
from tests.support.telemetry import counted, of_poller, points, polled

NOW: Any = {"at": datetime(2026, 4, 7, tzinfo=UTC)}


def test_a_stale_owners_commit_and_its_lost_lease_are_counted(table: sqlite3.Connection) -> None:
    store = MemoryStore()

    def fence(batch: Batch) -> None:
        operator.reset("beginning", break_lease=True)

    with polled(table, name="stale", store=store) as poller, polled(table, name="stale", store=store) as operator:
        assert poller.tick(fence).outcome == "lease_lost"
    assert counted("poller.stale_writes", "stale", "reason") == {"broken": 1}
    assert counted("poller.lease.losses", "stale", "reason") == {"broken": 1}


def test_who_takes_the_lease_and_who_finds_it_held_is_counted(table: sqlite3.Connection) -> None:
    store, outcomes = MemoryStore(), list[str]()

    def try_beside(batch: Batch) -> None:
        outcomes.append(other.tick(lambda batch: None).outcome)
        outcomes.append(poller.tick(lambda batch: None).outcome)

    with (
        polled(table, name="lease", store=store, batch_size=9) as poller,
        polled(table, name="lease", store=store) as other,
    ):
        poller.tick(try_beside)
        poller.emit(LeaseTakenOver(
            poller="lease", owner_id="w", fencing_token=2, previous_owner_id="v", previous_fencing_token=1, **NOW
        ))  # fmt: skip
    assert outcomes == ["held_elsewhere", "held_elsewhere"]
    taken = {"taken": 1, "taken_over": 1, "held_elsewhere": 1}
    assert counted("poller.lease.acquisitions", "lease", "outcome") == taken, "its own batch is not elsewhere"


def test_what_becomes_of_rows_that_failed_is_counted(table: sqlite3.Connection) -> None:
    def refuse(batch: Batch) -> None:
        for row in batch:
            if row["id"] in (1, 2):
                batch.reject(row, "no such product")

    with polled(table, name="rows", on_poison="quarantine", max_quarantined=7) as poller:
        poller.tick(refuse)
        assert of_poller("poller.quarantine.pending", "rows") == {"": 2}
        assert of_poller("poller.quarantine.limit", "rows") == {"": 7}
        first, second = poller.quarantine.list().pending
        before = counted("poller.handler.attempts", poller.name, "outcome")
        poller.quarantine.replay(first.id, handler=lambda batch: None)
        after = counted("poller.handler.attempts", poller.name, "outcome")
        assert after == {**before, "returned": before.get("returned", 0) + 1}, "a replay is a call of a handler"
        poller.quarantine.discard(second.id)
    rows = counted("poller.quarantine.rows", "rows", "action")
    assert rows == {"condemned": 2, "replayed": 1, "discarded": 1}


def test_a_look_at_the_health_is_a_metric(tmp_path: Path) -> None:
    (tmp_path / "poller.toml").write_text(
        f"""
        app_name = "shop"
        [state]
        store = "sql"
        [pollers.unreachable.source]
        url = "sqlite:///{tmp_path}/missing/shop.db"
        table = "orders"
        cursor_column = "updated_at"
        cursor_time_zone = "UTC"
        pk_columns = ["id"]
        """
    )
    with load_app(tmp_path / "poller.toml") as app:
        assert not app.health().healthy
    assert of_poller("poller.severity", "unreachable") == {"": 2}
    assert points("poller.condition")[
        ("condition", "source_away"), ("poller.name", "unreachable"), ("severity", "unhealthy")
    ]


def test_rounds_of_the_dispatcher_are_metrics(tmp_path: Path) -> None:
    app = ("poller.app", APP)
    shop = Shop(tmp_path, 2)
    dispatcher = shop.started()
    before = points("poller.dispatch.messages").get((app, ("why", "rows")), 0)
    shop.rows("p1")
    shop.round(dispatcher, after=25.0)
    assert points("poller.dispatch.messages")[app, ("why", "rows")] == before + 1
    assert points("poller.dispatch.due")[(app,)] == 2
    assert points("poller.dispatch.late")[(app,)] > 10
    done, probes = points("poller.dispatch.rounds")[("outcome", "done"), app], points("poller.dispatch.probes")[(app,)]
    shop.round(dispatcher)
    assert points("poller.dispatch.rounds")[("outcome", "done"), app] == done + 1
    assert points("poller.dispatch.probes")[(app,)] > probes


def test_a_round_that_failed_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop(tmp_path, 1)
    dispatcher = shop.started()

    def away(*_: Any, **__: Any) -> None:
        raise StoreUnavailable("no answer")

    monkeypatch.setattr(shop.counted, "listed", away)
    failed = (("outcome", "failed"), ("poller.app", APP))
    before = points("poller.dispatch.rounds").get(failed, 0)
    with pytest.raises(StoreUnavailable):
        shop.round(dispatcher)
    assert points("poller.dispatch.rounds")[failed] == before + 1


@pytest.mark.guarantee("Never silently dead", "A worker that lost a poller to another does not go on reporting its lag")
def test_a_gauge_forgets_what_another_worker_knows_better() -> None:
    """Else each of several workers reports for ever the lag that it saw last."""
    reader, clock = InMemoryMetricReader(), [0.0]
    observe = MetricsObserver(MeterProvider([reader]), now=lambda: clock[0])

    def finished(outcome: Any = "idle", **facts: Any) -> None:
        observe(TickFinished(poller="orders", **NOW, **TickResult(outcome=outcome, **facts).as_json()))

    finished(lag_seconds=3600.0)
    clock[0] = 15 * 60.0
    assert of_poller("poller.lag", "orders", reader=reader) == {"": 3600}
    clock[0] = 15 * 60.0 + 1
    assert of_poller("poller.lag", "orders", reader=reader) == {}
    finished(lag_seconds=60.0)
    finished("held_elsewhere", error="a batch of this poller still runs in this process")
    assert of_poller("poller.lag", "orders", reader=reader) == {"": 60}, "it is this process that is at work"
    finished("held_elsewhere")
    assert of_poller("poller.lag", "orders", reader=reader) == {}
