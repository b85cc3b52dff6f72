"""Many writes under mixed faults: what each writer was shown is held against what the server did.

Truth is the chain of versions: every applied PUT names the ETag it replaced and the one it made. A write id in the
chain was applied; a false loss is one of these that its writer took for lost, a false success one that is not there.
"""

from __future__ import annotations

import base64
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from poller import Batch
from poller.errors import StoreUnavailable
from poller.model.document import State
from poller.stores import BlobStore
from tests.resilience.faults.accounts import hold_to_account, in_line
from tests.resilience.faults.bench import NAME, Bench
from tests.resilience.faults.other_stores import elsewhere
from tests.resilience.faults.plan import STATE_REQUESTS, Match, Seeded
from tests.resilience.faults.proxy import FaultProxy
from tests.resilience.faults.shop import Shop
from tests.support.azurite import Azurite

SEEDS = [1, 2]


def _document(body: bytes) -> dict[str, Any]:
    """What was sent; of an entity or item, what is in it."""
    data: dict[str, Any] = json.loads(body)
    if "text" in data:  # an item
        data = json.loads(data["text"])
    return json.loads(base64.b64decode(data["B00"])) if "B00" in data else data


def _chain(proxy: FaultProxy) -> list[State]:
    """Every version that the server had, in order, from the ETags of the applied PUTs."""
    versions: dict[str | None, tuple[str, State]] = {}
    for record in proxy.requests.select("PUT", NAME):
        for etag in record.etags:
            assert record.request.if_match not in versions, "one version was replaced twice"
            versions[record.request.if_match] = (etag, State.model_validate(_document(record.request.body)))
    return in_line(versions)


def _soak(azurite: Azurite, container: str, *, seed: int, writes: int) -> dict[str, int]:
    with FaultProxy("127.0.0.1", azurite.port) as proxy, closing(Bench(azurite, proxy, container, ttl=3.0)) as bench:
        return _soak_on(bench, seed=seed, writes=writes)


def _soak_on(bench: Bench, *, seed: int, writes: int) -> dict[str, int]:
    proxy = bench.proxy
    bench.acquire().release(give_back=True)
    proxy.reset()
    proxy.plan = plan = Seeded(seed, pace=0.05)

    def chain() -> list[State]:
        proxy.settle()
        return _chain(proxy)

    return hold_to_account(bench, writes, chain, plan.given, plan.to_json())


def test_writers_learn_the_truth_under_mixed_faults(azurite: Azurite, container: str) -> None:
    summary = _soak(azurite, container, seed=7, writes=70)
    assert summary["faults"] > 20
    assert summary["lost"] > 0, "the two did get into each other's way"
    assert summary["resolved"] > 0


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("writes", "seed"),
    [pytest.param(400, 3, marks=pytest.mark.soak), *(pytest.param(2000, s, marks=pytest.mark.prove) for s in SEEDS)],
)
def test_writers_learn_the_truth_in_many_writes(azurite: Azurite, container: str, writes: int, seed: int) -> None:
    summary = _soak(azurite, container, seed=seed, writes=writes)
    print(f"\nseed {seed}: {summary}")
    assert summary["done"] + summary["lost"] + summary["unknown"] >= writes
    assert summary["resolved"] > writes / 40


@pytest.mark.soak
@pytest.mark.timeout(400)
@pytest.mark.parametrize(("store", "seed"), [("tables", 5), ("s3", 6), ("cosmos", 8)])
def test_elsewhere_writers_learn_the_truth_in_many_writes(
    store: str, seed: int, request: pytest.FixtureRequest
) -> None:
    with elsewhere(store, request, ttl=3.0) as bench:
        summary = _soak_on(bench, seed=seed, writes=400)
    print(f"\n{store}: {summary}")
    assert summary["lost"] > 0
    assert summary["resolved"] > 10


def _drain(azurite: Azurite, container: str, folder: Path, *, seed: int, rows: int) -> Shop:
    """A real poller delivers one row a batch under mixed faults; the lease is long enough for all of them."""
    shop = Shop(folder, rows)
    with FaultProxy("127.0.0.1", azurite.port) as proxy:
        store = BlobStore.from_connection_string(proxy.connection_string, container)
        store.write("state/other", b"{}", if_tag=None)  # the container
        plan = Seeded(seed, match=Match(STATE_REQUESTS.methods, "orders.json"), pace=0.05)
        proxy.plan = plan
        poller = shop.poller(store, batch_size=1, lease_ttl="6s", heartbeat_interval="1500ms")
        seen: list[int] = []

        def handle(batch: Batch) -> None:
            seen.extend(row["id"] for row in batch)

        outcomes: list[str] = []
        while not outcomes or outcomes[-1] != "idle":
            try:
                outcomes.append(poller.tick(handle).outcome)
            except StoreUnavailable:
                outcomes.append("unavailable")
            assert len(outcomes) < 60, f"it does not come to an end: {outcomes[-10:]} under {plan.to_json()}"
        proxy.settle()
        assert seen == list(range(1, rows + 1)), f"under {plan.to_json()}"
        assert set(outcomes) <= {"delivered", "idle", "unavailable"}, f"{outcomes} under {plan.to_json()}"
        assert not shop.emitted("lease_lost")
        assert sum(plan.given.values()) > rows / 10
    shop.close()
    return shop


def test_a_drain_under_mixed_faults_delivers_each_row_once(azurite: Azurite, container: str, tmp_path: Path) -> None:
    _drain(azurite, container, tmp_path, seed=11, rows=15)


@pytest.mark.prove
@pytest.mark.timeout(400)
def test_a_long_drain_under_mixed_faults_delivers_each_row_once(
    azurite: Azurite, container: str, tmp_path: Path
) -> None:
    shop = _drain(azurite, container, tmp_path, seed=12, rows=600)
    print(f"\n600 commits: {len(shop.emitted('write_resent'))} resent, {len(shop.emitted('write_resolved'))} resolved")
