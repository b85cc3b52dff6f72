"""A replica that the relay `sql` keeps, snapshot after snapshot: it is never without a row that the source has."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from poller.relays import Relay, relay
from poller.stores import SqlStore
from tests.integration.capture.captured import Captured
from tests.integration.capture.reading import poller
from tests.integration.capture.torture import BEGINS, MARIADB, POSTGRESQL, SQLITE, written

FIXTURES = {"postgresql": "postgres_db", "mariadb": "mariadb_db", "sqlite": "sqlite_url"}
COLUMNS = "id INTEGER PRIMARY KEY NOT NULL, note VARCHAR(40)"
STEADY = frozenset(range(1000, 1040))
"""Keys that no writer writes."""
LONG = [
    pytest.param(5.0, marks=pytest.mark.soak),
    pytest.param(60.0, marks=[pytest.mark.prove, pytest.mark.soak]),
]
WORKER = """
import sys
from poller import Poller
from poller.relays import relay
from poller.sources import SqlSource
from poller.stores import SqlStore

url, target, state = sys.argv[1:]
write = relay("sql", url=target, table="copy", key_columns=["id"], on_truncate="delete", on_snapshot="sweep",
              snapshot_column="seen")
orders = Poller("orders", source=SqlSource(url, table="orders", capture=True, start_from="snapshot"), app_name="shop",
                store=SqlStore(state), batch_size=7, concurrency=2, lease_ttl="1500ms", heartbeat_interval="300ms")

def handle(batch):
    write(batch)
    print(len(batch), flush=True)

handle.exact_values = handle.knows_changes = True
while True:
    orders.tick(handle)
"""
"""Its lines are of batches that are in the target, before they are committed in the state."""


class Kept:
    """A captured table, its replica, and who reads that all the time."""

    def __init__(self, url: str, target: str) -> None:
        self.target = target
        self.source = Captured(url)
        self.copy = Captured(target)
        self.source.run(f"CREATE TABLE orders ({COLUMNS})")
        self.copy.run(f"CREATE TABLE copy ({COLUMNS}, seen INTEGER, CONSTRAINT short CHECK (note <> 'no'))")
        self.source.run("INSERT INTO orders VALUES " + ", ".join(f"({key}, 'steady')" for key in sorted(STEADY)))
        self.source.install()

    def relay(self) -> Relay[Any]:
        sweeping: dict[str, Any] = {"on_snapshot": "sweep", "snapshot_column": "seen", "on_truncate": "delete"}
        return relay("sql", url=self.target, table="copy", key_columns=["id"], **sweeping)

    def rows(self, of: Captured, table: str) -> list[tuple[int, str]]:
        return sorted(map(tuple, of.run(f"SELECT id, note FROM {table}")))

    def is_the_table(self) -> bool:
        return self.rows(self.source, "orders") == self.rows(self.copy, "copy")

    @contextmanager
    def read(self) -> Iterator[list[int]]:
        """Meanwhile each look at the replica finds every steady row; gives how many looks there were."""
        ended, looks, missing = threading.Event(), [0], list[frozenset[int]]()
        engine = sa.create_engine(self.target)

        def look() -> None:
            while not ended.wait(0.002):
                with engine.connect() as connection:
                    there = frozenset(connection.scalars(sa.text("SELECT id FROM copy WHERE id >= 1000")))
                looks[0] += 1
                if not there >= STEADY:
                    missing.append(STEADY - there)

        reader = threading.Thread(target=look)
        reader.start()
        try:
            yield looks
        finally:
            ended.set()
            reader.join()
            engine.dispose()
        assert missing == []
        assert looks[0] > 0

    def close(self) -> None:
        self.source.close()
        self.copy.close()


@pytest.fixture(params=FIXTURES)
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kept]:
    url = request.getfixturevalue(FIXTURES[request.param])
    made = Kept(url, url if request.param != "sqlite" else f"sqlite:///{tmp_path}/target.db")
    if request.param == "sqlite":
        for one in (made.source, made.copy):
            one.run("PRAGMA journal_mode = WAL")
    yield made
    made.close()


def drained(tick: Callable[[], Any]) -> None:
    for _ in range(200):
        if tick().outcome == "idle":
            return
    raise AssertionError("it never comes to an end")


@pytest.mark.parametrize("lanes", [1, 3])
def test_a_second_snapshot_takes_nothing_away_that_is_there(kept: Kept, lanes: int) -> None:
    write = kept.relay()
    orders = poller(kept.source, start_from="snapshot", batch_size=3, concurrency=lanes)
    drained(lambda: orders.tick(write))
    assert kept.is_the_table()
    with kept.read():
        kept.copy.run("INSERT INTO copy (id, note) VALUES (1, 'stale'), (2, 'stale'), (2000, 'stale')")
        kept.source.run("INSERT INTO orders VALUES (1, 'there')", "UPDATE orders SET note = 'new' WHERE id < 1010")
        orders.reset("snapshot")
        kept.source.run("INSERT INTO orders VALUES (3, 'late')")
        drained(lambda: orders.tick(write))
    assert kept.is_the_table()
    assert (3, "late") in kept.rows(kept.copy, "copy")
    orders.close()
    write.close()


def test_a_snapshot_that_is_begun_again_in_its_middle(kept: Kept) -> None:
    write = kept.relay()
    orders = poller(kept.source, start_from="snapshot", batch_size=10, max_batches_per_tick=2)
    drained(lambda: orders.tick(write))
    with kept.read():
        kept.copy.run("INSERT INTO copy (id, note) VALUES (1, 'stale')")
        for _ in range(2):
            orders.reset("snapshot")
            orders.tick(write)
            assert not kept.is_the_table()
        drained(lambda: orders.tick(write))
    assert kept.is_the_table()
    orders.close()
    write.close()


def test_a_row_whose_version_is_discarded_keeps_the_old_one(kept: Kept) -> None:
    write = kept.relay()
    orders = poller(kept.source, start_from="snapshot", batch_size=10, on_poison="quarantine", max_attempts=1)
    drained(lambda: orders.tick(write))
    with kept.read():
        kept.copy.run("INSERT INTO copy (id, note) VALUES (1, 'stale')")
        kept.source.run("UPDATE orders SET note = 'no' WHERE id = 1005")
        orders.reset("snapshot")
        while orders.tick(write).outcome != "blocked":
            pass
        assert (1, "stale") in kept.rows(kept.copy, "copy")
        orders.quarantine.discard(all=True)
        drained(lambda: orders.tick(write))
    there = {(1005, "no"): (1005, "steady")}
    assert kept.rows(kept.copy, "copy") == [there.get(row, row) for row in kept.rows(kept.source, "orders")]
    orders.close()
    write.close()


@pytest.mark.timeout(240)
@pytest.mark.parametrize("seconds", LONG)
def test_of_a_worker_that_is_killed(kept: Kept, tmp_path: Path, seconds: float) -> None:
    """At another batch each time, and every third time a snapshot begins before."""
    state = f"sqlite:///{tmp_path}/state.db"
    lease = {"lease_ttl": "1500ms", "heartbeat_interval": "300ms"}
    write, orders = kept.relay(), poller(kept.source, SqlStore(state), start_from="snapshot", **lease)
    family = kept.source.engine.dialect.name
    steps = {"postgresql": POSTGRESQL[:2], "mysql": MARIADB, "sqlite": SQLITE[:2]}[family]  # nothing that empties it
    begins = {"postgresql": BEGINS, "mysql": ("BEGIN",), "sqlite": ("BEGIN IMMEDIATE",)}[family]
    drained(lambda: orders.tick(write))
    kills = 0

    def worker() -> subprocess.Popen[str]:
        command = [sys.executable, "-c", WORKER, kept.source.url, kept.target, state]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    with kept.read() as looks:
        with written(kept.source, seconds, steps, writers=3, begins=begins) as is_written:
            while is_written() or kills < 4:
                if kills % 3 == 0:
                    kept.copy.run(f"INSERT INTO copy (id, note) VALUES ({2000 + kills}, 'stale')")
                    orders.reset("snapshot", break_lease=True)
                one = worker()
                assert one.stdout is not None
                for _ in range(1 + kills % 7):
                    one.stdout.readline()
                one.send_signal(signal.SIGKILL)
                one.wait()
                one.stdout.close()
                kills += 1
        last = worker()
        try:
            assert last.stdout is not None
            while not kept.is_the_table():
                last.stdout.readline()  # of what it delivers next
        finally:
            last.kill()
            last.wait()
    print(f"{kills} kills, {looks[0]:,} looks, {len(kept.rows(kept.copy, 'copy'))} rows")
    orders.close()
    write.close()
