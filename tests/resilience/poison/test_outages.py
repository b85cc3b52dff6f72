"""What the handler calls is down for a while and then flaps: nothing is poison, and all is delivered by itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from poller.runtime import SystemRuntime
from poller.stores import BlobStore
from tests.resilience.poison.bench import Bench
from tests.support.azurite import Azurite

ROWS = 200
MODES = ("block", "halt", "quarantine")


class Storm:
    """Down for `out` seconds, then up and down by turns for `flaps` seconds; rows arrive meanwhile."""

    def __init__(self, bench: Bench, *, out: float, flaps: float, turn: float) -> None:
        self.bench = bench
        self.out, self.flaps, self.turn = out, flaps, turn
        self.rows = 0
        self.most_aside = 0
        self.halts = 0

    def blow(self) -> None:
        """From the first call to the end of it."""
        bench, began = self.bench, self.bench.runtime.monotonic()
        while (since := bench.runtime.monotonic() - began) < self.out + self.flaps:
            bench.downstream.down = since < self.out or int((since - self.out) / self.turn) % 2 == 1
            if self.rows < ROWS:
                bench.insert(range(self.rows + 1, self.rows + 6))
                self.rows += 5
            self._tick()
        bench.downstream.down = False

    def calm(self, seconds: float) -> None:
        """Until all is delivered."""
        bench, ends = self.bench, self.bench.runtime.monotonic() + seconds
        bench.insert(range(self.rows + 1, ROWS + 1))
        while set(bench.downstream.done) != set(range(1, ROWS + 1)) or bench.waits != (0, 0):
            assert bench.runtime.monotonic() < ends, (len(set(bench.downstream.done)), bench.state)
            self._tick()

    def _tick(self) -> None:
        bench = self.bench
        result = bench.tick()
        if result.outcome == "halted":
            self.halts += 1
            bench.poller.resume(by="ada")
        self.most_aside = max(self.most_aside, bench.waits[0])
        bench.runtime.sleep(self.turn / 5)


def weather(bench: Bench, mode: str, storm: Storm, *, patience: float) -> None:
    """Let it blow, and judge."""
    storm.blow()
    storm.calm(patience)
    assert (storm.halts > 0) == (mode == "halt"), "halted where that was asked for only"
    assert not bench.emitted("row_quarantined")
    if mode != "quarantine":
        assert not storm.most_aside
    assert set(bench.statuses()) <= {"delivered"}
    if mode != "quarantine":
        done = bench.downstream.done
        assert sorted(set(done)) == list(dict.fromkeys(done)), "in strict order, but for what came again"


@pytest.mark.guarantee(
    "Delivery",
    "An outage of what the handler calls makes no row poison and halts no poller that is not set to halt; what was "
    "set aside is delivered automatically",
)
@pytest.mark.parametrize("asks", [False, True], ids=["raises", "asks-for-later"])
@pytest.mark.parametrize("mode", MODES)
def test_an_outage_that_flaps_condemns_nothing(
    benches: Callable[..., Bench], sqlite_url: str, mode: str, asks: bool
) -> None:
    bench = benches(sqlite_url, on_poison=mode, batch_size=16, max_aside=3, max_attempts=3, retry_backoff_max="600s")
    bench.downstream.asks = asks
    storm = Storm(bench, out=300.0, flaps=120.0, turn=20.0)
    storm.blow()
    storm.calm(2000.0)
    assert (storm.halts > 0) == (mode == "halt" and not asks)
    assert not bench.emitted("row_quarantined")
    assert storm.most_aside == (3 if mode == "quarantine" and not asks else 0), "one outage sets a handful aside"


def _real(benches: Callable[..., Bench], azurite: Azurite, container: str, url: str, **options: Any) -> Bench:
    store = BlobStore.from_connection_string(azurite.connection_string, container)
    return benches(url, store=store, runtime=SystemRuntime(), batch_size=16, max_aside=3, max_attempts=3, **options)


@pytest.mark.soak
@pytest.mark.parametrize("mode", MODES)
def test_a_short_outage_in_front_of_real_servers(
    benches: Callable[..., Bench], azurite: Azurite, container: str, postgres_db: str, mode: str
) -> None:
    bench = _real(
        benches, azurite, container, postgres_db, on_poison=mode, retry_backoff="50ms", retry_backoff_max="400ms"
    )
    weather(bench, mode, Storm(bench, out=3.0, flaps=2.0, turn=0.4), patience=30.0)


@pytest.mark.prove
@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", MODES)
def test_an_outage_of_a_minute_in_front_of_real_servers(
    benches: Callable[..., Bench], azurite: Azurite, container: str, postgres_db: str, mode: str
) -> None:
    bench = _real(
        benches, azurite, container, postgres_db, on_poison=mode, retry_backoff="500ms", retry_backoff_max="10s"
    )
    began = time.monotonic()
    storm = Storm(bench, out=60.0, flaps=20.0, turn=2.0)
    weather(bench, mode, storm, patience=60.0)
    calls = bench.downstream.calls
    print(
        f"{mode}: {ROWS} rows, {len(calls)} calls, {sum(not call.done for call in calls)} of them failed, "
        f"{storm.most_aside} rows aside at most, {storm.halts} halts, {time.monotonic() - began:.0f} s in all"
    )
