"""Outages in mid-drain under one real `poller run`: it says what is wrong, and goes on by itself when it is over."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy.engine import make_url

from tests.resilience.faults.proxy import FaultProxy
from tests.resilience.kills.fleet import Fleet, Worker
from tests.resilience.outages.relay import Relay
from tests.support.azurite import Azurite
from tests.support.postgres import PostgresServer
from tests.support.services import wait_until

OPTIONS = 'lease_ttl = "3s"\nheartbeat_interval = "750ms"\nbatch_size = 20'
ROWS = 1500

short_and_long = pytest.mark.parametrize(
    "seconds", [pytest.param(4, id="short"), pytest.param(30, id="long", marks=pytest.mark.prove)]
)


@pytest.fixture
def relay(postgres_db: str) -> Iterator[Relay]:
    with Relay(make_url(postgres_db).port or 5432) as running:
        yield running


def _through(relay: Relay, database: str) -> str:
    return make_url(database).set(port=relay.port).render_as_string(hide_password=False)


def _in_mid_drain(fleet: Fleet) -> Worker:
    fleet.insert(1, ROWS)
    worker = fleet.start(name="only")
    worker.await_event("batch_committed", where=lambda event: len(worker.emitted("batch_committed")) > 3)
    assert not worker.emitted("tick"), "the first tick is under way"
    return worker


def _recovers(fleet: Fleet, worker: Worker) -> None:
    """All rows come, in the same process, in order, and only what was in hand at the outage comes twice."""
    (fleet.folder / "fast").touch()
    wait_until(lambda: len(fleet.handled()) == ROWS, "every row is handled after the outage", seconds=60)
    worker.await_event("tick", where=lambda event: event["outcome"] == "idle")
    assert fleet.stop() == [0]
    assert fleet.handled() == list(range(1, ROWS + 1))
    last = fleet.last_batches()
    assert all(batch == last[token] for _, token, batch in fleet.repeated())
    assert not fleet.interleaved()


def _failures_back_off(worker: Worker, name: str) -> list[dict[str, Any]]:
    """Failed ticks are reported, each with what could not be reached and what to do, further and further apart."""
    failures = worker.emitted("tick_failed")
    assert failures
    assert {event["error_type"] for event in failures} == {name}
    assert all(len(event["error"]) > 40 for event in failures)
    return failures


def _ticks_during(worker: Worker, began: float, ended: float) -> set[str]:
    return {event["outcome"] for event in worker.emitted("tick") if began < event["arrived"] < ended}


@pytest.mark.guarantee("Delivery", 'An outage never looks like "no rows"')
@short_and_long
@pytest.mark.timeout(180)
def test_a_store_outage_in_mid_tick_is_reported_and_survived(
    fleets: Callable[..., Fleet], proxy: FaultProxy, seconds: int
) -> None:
    fleet = fleets(connection=proxy.connection_string, options=OPTIONS, pace=0.05)
    worker = _in_mid_drain(fleet)
    began = time.monotonic()
    proxy.down()
    worker.await_event("write_resent")
    unknown = worker.await_event("tick")
    assert unknown["outcome"] in {"commit_unknown", "lease_lost"}, "not idle, and not delivered"
    worker.await_event("tick_failed")
    time.sleep(max(0.0, began + seconds - time.monotonic()))
    ended = time.monotonic()
    proxy.up()
    assert not _ticks_during(worker, began, ended) & {"idle", "delivered"}, "an outage never looks like no rows"
    failures = _failures_back_off(worker, "StoreUnavailable")
    assert "state/shop/orders.json" in failures[0]["error"]
    _recovers(fleet, worker)
    if seconds >= 30:
        _apart(failures)


@short_and_long
@pytest.mark.timeout(180)
def test_a_database_outage_in_mid_tick_is_reported_and_survived(
    fleets: Callable[..., Fleet], postgres_db: str, relay: Relay, seconds: int
) -> None:
    """The ledger is written past the relay: the handler's own database is another's affair."""
    fleet = fleets(source=_through(relay, postgres_db), options=OPTIONS + "\npage_size = 20", pace=0.05)
    worker = _in_mid_drain(fleet)
    began = time.monotonic()
    relay.down()
    worker.await_event("tick_failed")
    assert worker.tenure is None, "the lease was given back: another with a better connection could go on"
    time.sleep(max(0.0, began + seconds - time.monotonic()))
    ended = time.monotonic()
    relay.up()
    assert not _ticks_during(worker, began, ended), "an outage never looks like no rows"
    failures = _failures_back_off(worker, "SourceUnavailable")
    assert "orders" in failures[0]["error"]
    _recovers(fleet, worker)
    assert fleet.repeated() == [], "everything handled before the outage was committed"
    if seconds >= 30:
        _apart(failures)


def _apart(failures: list[dict[str, Any]]) -> None:
    """Pauses double, within their jitter: the last is longer than the first, and few fit into half a minute."""
    at = [datetime.fromisoformat(event["at"]).timestamp() for event in failures]
    pauses = [after - before for before, after in pairwise(at)]
    assert len(pauses) >= 2
    assert pauses[-1] > 2 * pauses[0], pauses
    assert len(failures) <= 10


@pytest.mark.soak
@pytest.mark.timeout(180)
def test_a_restarted_database_server_is_outlived(azurite: Azurite, container: str, tmp_path: Path) -> None:
    with PostgresServer.start({"max_connections": "20"}) as server:
        fleet = Fleet(
            tmp_path,
            server.new_database(),
            connection=azurite.connection_string,
            container=container,
            options=OPTIONS,
            pace=0.05,
        )
        try:
            worker = _in_mid_drain(fleet)
            server.restart()
            _recovers(fleet, worker)
            assert worker.emitted("tick_failed", "handler_failed"), "it did notice"
        finally:
            fleet.close()


@pytest.mark.soak
def test_a_hanging_database_is_given_up_at_the_query_timeout(
    fleets: Callable[..., Fleet], postgres_db: str, relay: Relay
) -> None:
    fleet = fleets(
        source=_through(relay, postgres_db),
        options=OPTIONS,
        source_options='query_timeout = "2s"',
        pace=0.05,
    )
    worker = _in_mid_drain(fleet)
    relay.hang()
    failed = worker.await_event("tick_failed")
    assert failed["error_type"] == "SourceUnavailable"
    assert worker.tenure is None
    relay.flow()
    _recovers(fleet, worker)


@pytest.mark.soak
def test_a_query_that_takes_too_long_is_given_up_and_names_the_key(fleets: Callable[..., Fleet]) -> None:
    """Another transaction locks the table: the page waits, and `query_timeout` ends it, not the lease."""
    fleet = fleets(options=OPTIONS, source_options='query_timeout = "2s"')
    fleet.insert(1, 40)
    fleet.hold("only")
    worker = fleet.start(name="only")
    fleet.await_inside("only")
    with psycopg.connect(fleet.ledger_url) as blocker:
        blocker.execute("LOCK TABLE orders IN ACCESS EXCLUSIVE MODE")
        fleet.let_go("only")
        failed = worker.await_event("tick_failed")
        assert "query_timeout" in failed["error"]
        assert worker.tenure is None
        blocker.rollback()
    wait_until(lambda: len(fleet.handled()) == 40, "it goes on by itself")
    assert fleet.stop() == [0]
    assert fleet.repeated() == []
