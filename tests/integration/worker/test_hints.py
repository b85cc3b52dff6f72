"""Hints of replicas in each kind of store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from poller.ports import StateStore
from poller.runtime import SystemRuntime
from poller.stores import BlobStore, MemoryStore, SqlStore
from poller.worker import Replicas
from tests.support.azurite import Azurite

POLLERS = [f"p{number}" for number in range(100)]


@pytest.fixture(params=["blob", "sqlite", "postgresql", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> StateStore:
    made: dict[str, Callable[[], StateStore]] = {
        "blob": lambda: blob(request.getfixturevalue("azurite"), request.getfixturevalue("container")),
        "sqlite": lambda: SqlStore(f"sqlite:///{tmp_path / 'state.db'}"),
        "postgresql": lambda: SqlStore(request.getfixturevalue("postgres_db")),
        "memory": MemoryStore,
    }
    return made[request.param]()


def blob(azurite: Azurite, container: str) -> BlobStore:
    return BlobStore.from_connection_string(azurite.connection_string, container)


def test_two_processes_share_and_one_that_leaves_is_replaced(store: StateStore) -> None:
    runtime = SystemRuntime()
    first, second = (Replicas(store, "shop", runtime=runtime) for _ in range(2))
    for process in (first, second, first):
        process.begin(POLLERS, 6000)
        process._next_look = 0.0
        process.step()
    shares = [{name for name in POLLERS if one._ranking and one._ranking.is_first(name)} for one in (first, second)]
    assert shares[0] | shares[1] == set(POLLERS)
    assert not shares[0] & shares[1]
    second.step(("p1",))
    second.end()
    first._next_look = 0.0
    first.step()
    assert all(first.wants(name, lambda: 10.0) for name in POLLERS)
    assert list(store.names("replicas/")) == [f"replicas/shop/{first.id}"]
    first._next_renewal = 0.0
    first.step()
    assert list(store.names("replicas/")) == [f"replicas/shop/{first.id}"], "renewed in place"
    store.close()
