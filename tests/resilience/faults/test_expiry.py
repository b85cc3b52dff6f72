"""Who may take a lease, and when: decided by the server's two times, whatever any clock shows (protocol 3)."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta
from typing import Any

import pytest

from poller import Batch, TickResult
from poller.model.timing import Timing
from poller.stores import BlobStore
from tests.resilience.faults.bench import Brisk
from tests.resilience.faults.proxy import FaultProxy
from tests.resilience.faults.shop import Shop

HOURS = 3600.0
TIMING = Timing(ttl=60, heartbeat=15)
LEASE: dict[str, Any] = {"lease_ttl": "60s", "heartbeat_interval": "15s"}


class Wrong(Brisk):
    """A machine whose wall clock is off by so many seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def utcnow(self) -> datetime:
        return super().utcnow() + timedelta(seconds=self.seconds)


class Working:
    """A worker inside its handler, on a thread; `finish` lets it go on."""

    def __init__(self, shop: Shop, store: BlobStore, runtime: Brisk) -> None:
        self.go = threading.Event()
        self.inside = threading.Event()
        self.results: list[TickResult] = []
        self.poller = shop.poller(store, runtime=runtime, **LEASE)
        self.thread = threading.Thread(target=lambda: self.results.append(self.poller.tick(self._handle)))
        self.thread.start()
        assert self.inside.wait(30)

    def _handle(self, batch: Batch) -> None:
        self.inside.set()
        assert self.go.wait(60)

    def finish(self) -> TickResult:
        self.go.set()
        self.thread.join(30)
        return self.results[0]


def _store(proxy: FaultProxy, container: str) -> BlobStore:
    return BlobStore.from_connection_string(proxy.connection_string, container)


@pytest.mark.guarantee("One worker at a time", "No clock of any worker matters")
@pytest.mark.parametrize(("owner", "taker"), [(-30 * HOURS, 30 * HOURS), (30 * HOURS, -30 * HOURS)])
def test_wall_clocks_that_are_hours_wrong_change_nothing(
    proxy: FaultProxy, container: str, shop: Shop, owner: float, taker: float
) -> None:
    working = Working(shop, _store(proxy, container), Wrong(owner))
    other = shop.poller(_store(proxy, container), runtime=Wrong(taker), **LEASE)
    seen: list[int] = []
    assert other.tick(lambda batch: seen.append(len(batch))).outcome == "held_elsewhere"
    assert seen == []
    assert working.finish().outcome == "delivered"
    assert other.tick(lambda batch: seen.append(len(batch))).outcome == "idle", "a release counts at once, too"


def test_a_server_whose_clock_was_always_wrong_changes_nothing(proxy: FaultProxy, container: str, shop: Shop) -> None:
    proxy.clock.shift(30 * HOURS)
    working = Working(shop, _store(proxy, container), Brisk())
    other = shop.poller(_store(proxy, container), **LEASE)
    assert other.tick(lambda batch: None).outcome == "held_elsewhere"
    assert working.finish().outcome == "delivered"
    assert shop.poller(_store(proxy, container), **LEASE).tick(lambda batch: None).outcome == "idle"


def test_a_lease_is_taken_over_after_ttl_and_margin_of_server_time(
    proxy: FaultProxy, container: str, shop: Shop
) -> None:
    """The server's clock is moved on instead of waiting: to well before the end of ttl and margin, then past it."""
    working = Working(shop, _store(proxy, container), Brisk())
    conditional = shop.poller(_store(proxy, container), **LEASE)
    proxy.clock.step(TIMING.ttl + TIMING.margin - 30)
    assert conditional.tick(lambda batch: None).outcome == "held_elsewhere"
    assert conditional.tick(lambda batch: None).outcome == "held_elsewhere"
    proxy.clock.step(31)
    # Its GET is answered by a 304: the new Date with the Last-Modified it knows.
    assert conditional.tick(lambda batch: None).outcome == "delivered"
    assert proxy.requests.select("GET", "state/shop", lambda one: one.status == 304)
    [taken] = shop.emitted("lease_taken_over")
    assert (taken["previous_fencing_token"], taken["fencing_token"]) == (1, 2)
    assert working.finish().outcome == "lease_lost", "the store refuses the former owner, whose own clock ran right"
    assert shop.emitted("stale_commit_refused")


def test_a_server_clock_that_steps_back_hastens_nothing(proxy: FaultProxy, container: str, shop: Shop) -> None:
    working = Working(shop, _store(proxy, container), Brisk())
    proxy.clock.step(-HOURS)
    other = shop.poller(_store(proxy, container), **LEASE)
    assert other.tick(lambda batch: None).outcome == "held_elsewhere"
    assert working.finish().outcome == "delivered"
    assert other.tick(lambda batch: None).outcome == "held_elsewhere", "its stamp is of the clock before the step"
    proxy.clock.step(TIMING.ttl + TIMING.margin + 1)
    assert other.tick(lambda batch: None).outcome == "idle"
