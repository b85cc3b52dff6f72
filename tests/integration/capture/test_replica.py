"""A replica that is made of the changes which a poller delivers is the table, whatever several writers do meanwhile."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from poller.stores import MemoryStore
from tests.integration.capture.captured import Captured
from tests.integration.capture.reading import Replica, poller
from tests.integration.capture.torture import BEGINS, MARIADB, POSTGRESQL, SQLITE, Step, written

LONG = [
    pytest.param(5.0, marks=pytest.mark.soak),
    pytest.param(60.0, marks=[pytest.mark.prove, pytest.mark.soak]),
]
TABLE = "CREATE TABLE orders (id int PRIMARY KEY NOT NULL, note varchar(40))"
WORKER = """
import sqlite3, sys
from poller import Poller
from poller.sources import SqlSource
from poller.stores import SqlStore

url, state, target = sys.argv[1:]
copy = sqlite3.connect(target)

def handle(batch):
    with copy:
        for row in batch:
            if row["_op"] == "T":
                copy.execute("DELETE FROM orders")
            elif row["_op"] == "D":
                copy.execute("DELETE FROM orders WHERE id = ?", (row["id"],))
            else:
                copy.execute("REPLACE INTO orders VALUES (?, ?)", (row["id"], row["note"]))

orders = Poller("orders", source=SqlSource(url, table="orders", capture=True, start_from="beginning"), store=SqlStore(f"sqlite:///{state}"),
                app_name="shop", batch_size=20, lease_ttl="1500ms", heartbeat_interval="300ms")
while True:
    result = orders.tick(handle)
    if result.outcome == "delivered":
        print(result.rows, flush=True)
"""
"""A replica that is right however often changes come again."""


def follow(made: Captured, seconds: float, steps: Sequence[Step], *, writers: int, begins: Sequence[str]) -> None:
    made.install()
    kept, replica = poller(made, batch_size=50), Replica()
    with written(made, seconds, steps, writers=writers, begins=begins) as is_written:
        while is_written():
            kept.tick(replica)
    last = made.run("SELECT max(id) FROM poller_orders_changes")[0][0]
    while not replica.changes or replica.changes[-1] < last:
        kept.tick(replica)
    kept.close()
    table = {key: {"id": key, "note": note} for key, note in made.run("SELECT id, note FROM orders")}
    print(f"{len(replica.changes):,} changes, {len(table)} rows, {len(replica.breaks)} breaks")
    assert replica.breaks == []
    assert replica.rows == table
    assert replica.changes == [number for (number,) in made.run("SELECT id FROM poller_orders_changes ORDER BY id")]
    assert len(replica.changes) > 50


def follow_snapshots(
    made: Captured, seconds: float, steps: Sequence[Step], *, writers: int, begins: Sequence[str], lanes: int = 1
) -> None:
    """Snapshot after snapshot; every third tick has a source of its own."""
    made.install()
    store, replica, snapshots, ticks = MemoryStore(), Locked(), 0, 0
    kept = poller(made, store, start_from="snapshot", batch_size=4, concurrency=lanes)
    kept.tick(replica)
    with written(made, seconds, steps, writers=writers, begins=begins) as is_written:
        while is_written():
            kept.tick(replica)
            if "E" in replica.ops:
                snapshots += 1
                replica.ops.clear()
                kept.reset("snapshot")
            ticks += 1
            if ticks % 3 == 0:
                kept.close()
                kept = poller(made, store, batch_size=4, concurrency=lanes, max_batches_per_tick=7 * lanes)
    while kept.tick(replica).outcome != "idle":
        pass
    kept.close()
    table = {key: {"id": key, "note": note} for key, note in made.run("SELECT id, note FROM orders")}
    print(f"{snapshots} snapshots, {len(replica.changes):,} changes and rows, {len(replica.breaks)} breaks")
    assert replica.breaks == []
    assert not replica.is_partial
    assert replica.rows == table
    assert snapshots > 0


class Locked(Replica):
    """For several lanes."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()

    def take(self, row: Mapping[str, Any]) -> None:
        with self._lock:
            super().take(row)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("seconds", LONG)
@pytest.mark.parametrize("lanes", [1, 3])
def test_of_postgresql_by_snapshots(postgres_db: str, seconds: float, lanes: int) -> None:
    made = Captured(postgres_db)
    made.run(TABLE)
    follow_snapshots(made, seconds, POSTGRESQL, writers=4, begins=BEGINS, lanes=lanes)
    made.close()


@pytest.mark.timeout(180)
@pytest.mark.parametrize("seconds", LONG)
def test_of_mariadb_by_snapshots(mariadb_db: str, seconds: float) -> None:
    made = Captured(mariadb_db)
    made.run(TABLE)
    follow_snapshots(made, seconds, MARIADB, writers=4, begins=("BEGIN",))
    made.close()


@pytest.mark.timeout(180)
@pytest.mark.parametrize("seconds", LONG)
def test_of_sqlite_by_snapshots(sqlite_url: str, seconds: float) -> None:
    made = Captured(sqlite_url)
    made.run("PRAGMA journal_mode = WAL", TABLE.replace("int PRIMARY", "INTEGER PRIMARY"))
    follow_snapshots(made, seconds, SQLITE, writers=3, begins=("BEGIN IMMEDIATE", "BEGIN"))
    made.close()


@pytest.mark.timeout(180)
@pytest.mark.parametrize("seconds", LONG)
def test_of_postgresql(postgres_db: str, seconds: float) -> None:
    made = Captured(postgres_db)
    made.run(TABLE)
    follow(made, seconds, POSTGRESQL, writers=8, begins=BEGINS)
    made.close()


@pytest.mark.timeout(180)
@pytest.mark.parametrize("seconds", LONG)
def test_of_mariadb(mariadb_db: str, seconds: float) -> None:
    made = Captured(mariadb_db)
    made.run(TABLE)
    follow(made, seconds, MARIADB, writers=8, begins=("BEGIN",))
    made.close()


@pytest.mark.timeout(180)
@pytest.mark.parametrize("seconds", LONG)
def test_of_sqlite(sqlite_url: str, seconds: float) -> None:
    made = Captured(sqlite_url)
    made.run("PRAGMA journal_mode = WAL", TABLE.replace("int PRIMARY", "INTEGER PRIMARY"))
    follow(made, seconds, SQLITE, writers=3, begins=("BEGIN IMMEDIATE", "BEGIN"))
    made.close()


@pytest.mark.timeout(240)
@pytest.mark.parametrize("seconds", LONG)
def test_of_a_worker_that_is_killed(postgres_db: str, tmp_path: Path, seconds: float) -> None:
    """Every 2 seconds, once it has delivered something."""
    made, target, state = Captured(postgres_db), tmp_path / "target.db", tmp_path / "state.db"
    made.run(TABLE)
    made.install()
    with sqlite3.connect(target) as copy:
        copy.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, note TEXT)")
    kills = 0

    def worker() -> subprocess.Popen[str]:
        command = [sys.executable, "-c", WORKER, made.url, str(state), str(target)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    with written(made, seconds, POSTGRESQL, writers=4, begins=BEGINS) as is_written:
        while is_written() or not kills:
            one = worker()
            assert one.stdout is not None
            one.stdout.readline()
            try:
                one.wait(timeout=2)
            except subprocess.TimeoutExpired:
                one.send_signal(signal.SIGKILL)
                kills += 1
            one.wait()
            one.stdout.close()
    table, last = sorted(map(tuple, made.run("SELECT id, note FROM orders"))), worker()

    def copied() -> list[tuple[int, str]]:
        return sqlite3.connect(target).execute("SELECT id, note FROM orders ORDER BY id").fetchall()

    try:
        assert last.stdout is not None
        while copied() != table:
            last.stdout.readline()  # of what it delivers next
    finally:
        last.kill()
        last.wait()
    print(f"{kills} kills, {len(table)} rows")
    made.close()
