"""Operators against real workers, on a real store: a reset is wholly before or wholly after a commit, and a worker that
commits every few milliseconds keeps no operator out (protocol 11)."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from poller import Batch, Poller
from poller.admin import Applied, Operator
from poller.errors import LeaseHeld
from poller.model.timing import Timing
from poller.ports import StateStore, Timeout, Written
from poller.runtime import SystemRuntime
from poller.sources import SqlSource
from poller.stores import BlobStore, SqlStore
from tests.support.azurite import Azurite
from tests.support.operators import pause, reset

ROWS, BATCH = 30, 5
TIMING = Timing(3.0, 0.5)
STATE = "state/shop/orders.json"


class Recording:
    """A store that notes every version of the document that was written."""

    def __init__(self, inner: StateStore, written: list[dict[str, Any]]) -> None:
        self.inner = inner
        self.written = written

    def write(self, name: str, body: bytes, *, if_tag: str | None, timeout: Timeout | None = None) -> Written:
        answer = self.inner.write(name, body, if_tag=if_tag, timeout=timeout)
        if name == STATE:
            self.written.append(json.loads(body))
        return answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@pytest.fixture(params=["embedded", "azurite"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], StateStore]]:
    """Makes stores of their own onto the same documents."""
    made: list[StateStore] = []
    if request.param == "azurite":
        azurite: Azurite = request.getfixturevalue("azurite")
        container: str = request.getfixturevalue("container")

    def make() -> StateStore:
        store: StateStore
        if request.param == "embedded":
            store = SqlStore(f"sqlite:///{tmp_path / 'state.db'}")
        else:
            store = BlobStore.from_connection_string(azurite.connection_string, container=container)
        made.append(store)
        return store

    yield make
    for store in made:
        store.close()


def table(folder: Path, rows: int) -> str:
    path = folder / "shop.db"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, updated_at TEXT NOT NULL)")
        stamps = ((n, f"2026-01-01 {n // 3600:02d}:{n // 60 % 60:02d}:{n % 60:02d}") for n in range(1, rows + 1))
        db.executemany("INSERT INTO orders VALUES (?, ?)", stamps)
    return f"sqlite:///{path}"


def worker(url: str, store: StateStore, **options: Any) -> Poller:
    return Poller(
        "orders",
        source=SqlSource(url, table="orders", cursor_column="updated_at", cursor_time_zone="UTC", pk_columns=["id"]),
        store=store,
        app_name="shop",
        observers=(),
        **{"lease_ttl": "3s", "heartbeat_interval": "500ms", "tick_timeout": "60s", **options},
    )


def operator(store: StateStore) -> Operator:
    return Operator(
        store, app_name="shop", poller_name="orders", runtime=SystemRuntime(), timing=TIMING, by="ada", patience=30
    )


@pytest.mark.guarantee("One worker at a time", "An operator's change is never lost, undone or kept out")
def test_a_reset_is_before_or_after_a_commit_and_never_mixed(
    open_store: Callable[[], StateStore], tmp_path: Path
) -> None:
    url = table(tmp_path, ROWS)
    written: list[dict[str, Any]] = []
    delivered: dict[int, list[int]] = defaultdict(list)
    over = threading.Event()
    failures: list[BaseException] = []

    def work() -> None:
        def handle(batch: Batch) -> None:
            delivered[batch.fencing_token] += [row["id"] for row in batch]

        try:
            with worker(url, Recording(open_store(), written), batch_size=BATCH, max_batches_per_tick=2) as poller:
                while not over.is_set():
                    poller.tick(handle)
        except BaseException as error:  # noqa: BLE001 - raised below
            failures.append(error)

    first = worker(url, open_store(), batch_size=BATCH, max_batches_per_tick=1)
    first.tick(lambda batch: None)
    first.close()
    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    done: list[Applied] = []
    refused = 0
    store = Recording(open_store(), written)
    while len(done) < 12 and refused < 3000 and not failures:
        try:
            done.append(reset(operator(store), None))
        except LeaseHeld:
            refused += 1
    over.set()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(done) == 12
    generations: dict[int, list[int]] = defaultdict(list)
    for state in sorted(
        written, key=lambda state: (state["checkpoint"]["generation"], state["lease"]["fencing_token"])
    ):
        cursor = state["checkpoint"]["cursor"]
        generations[state["checkpoint"]["generation"]].append(0 if cursor is None else cursor["tiebreaker"]["id"])
    assert generations.keys() - {0} == set(range(1, 13)), "every reset is a generation of its own"
    for generation, places in generations.items():
        if generation == 0:
            continue
        commits = sorted(set(places))
        assert commits == list(range(0, BATCH * len(commits), BATCH)), f"{generation} began anew and went on in order"
    for applied in done:
        assert applied.before is not None
        found = store.inner.read(applied.backup or "")
        assert getattr(found, "body", None) == applied.before.body
    tokens = [applied.after.lease.fencing_token for applied in done]
    assert tokens == sorted(set(tokens))


@pytest.mark.parametrize("command", ["pause", "reset"])
def test_a_worker_that_never_rests_keeps_no_operator_out(
    open_store: Callable[[], StateStore], tmp_path: Path, command: str
) -> None:
    url = table(tmp_path, 4000)
    seen: list[int] = []
    results: list[Any] = []
    begun = threading.Event()

    def handle(batch: Batch) -> None:
        seen.extend(row["id"] for row in batch)
        begun.set()

    def work() -> None:
        with worker(url, open_store(), batch_size=1) as poller:
            results.append(poller.tick(handle))

    thread = threading.Thread(target=work)
    thread.start()
    assert begun.wait(30)
    ada = operator(open_store())
    applied = pause(ada) if command == "pause" else reset(ada, None, break_lease=True)
    thread.join(60)
    (result,) = results
    state = ada.look().state
    assert len(seen) < 4000, "it came while the worker was draining"
    assert seen == list(range(1, len(seen) + 1))
    if command == "pause":
        assert state.control.paused
        assert state.checkpoint.cursor is not None
        assert state.checkpoint.cursor.tiebreaker == {"id": seen[-1]}
        assert state.lease.owner_id is None
    else:
        assert result.outcome == "lease_lost"
        assert state.checkpoint.cursor is None
        assert state.lease.fencing_token == applied.after.lease.fencing_token
        assert (state.lease.owner_id or "").startswith("operator/")
