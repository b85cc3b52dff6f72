"""From commit to handler by `poller run`'s loop, with `wake` and without: rows one at a time, PostgreSQL, Azurite.

    python -m benchmarks.latency.woken [--seconds 20]

The writer is a program of its own; both read the clock that all processes of a machine share.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

import sqlalchemy as sa
from azure.storage.blob import ContainerClient

from benchmarks.latency.measures import percentile
from poller import Batch, Poller
from poller.admin.capture import TableCapture
from poller.config import PollerConfig
from poller.ports import StateStore
from poller.runtime import SystemRuntime
from poller.sources import SqlSource
from poller.stores import BlobStore
from poller.worker import run
from tests.support.azurite import Azurite
from tests.support.postgres import PostgresServer
from tests.support.services import REPOSITORY

Wake: TypeAlias = Literal["auto", "off"]
WAKES: tuple[Wake, ...] = ("auto", "off")
SCHEDULE = "* * * * * *"
"""The shortest there is: each second."""
GAP, LONG_GAP = 0.05, 0.5
"""Seconds between two rows on average, at most twice that: as the probe of `bound_cost`, and more rarely."""
LATE = 15.0
"""Seconds for which what is missing is waited for."""
TABLES: Mapping[str, tuple[str, dict[str, Any]]] = {
    "xid8+pk": (
        "create table orders (id int primary key, changed xid8 not null default pg_current_xact_id())",
        {"cursor_column": "changed", "cursor_kind": "xid8+pk", "pk_columns": ["id"]},
    ),
    "captured": ("create table orders (id int primary key)", {"capture": True, "start_from": "beginning"}),
    "timestamp+pk, settle 1s": (
        "create table orders (id int primary key, at timestamptz not null default clock_timestamp())",
        {"cursor_column": "at", "pk_columns": ["id"]},
    ),
    "timestamp+pk, settle 100ms": (
        "create table orders (id int primary key, at timestamptz not null default clock_timestamp())",
        {"cursor_column": "at", "pk_columns": ["id"], "settle": "100ms"},
    ),
}


def write(url: str, gap: float, seconds: float) -> None:
    """Insert rows one at a time, at random moments, and print when each commit had returned."""
    chance, committed, until = random.Random(7), {}, time.monotonic() + seconds
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        number = 1
        while time.monotonic() < until:
            time.sleep(chance.uniform(0, 2 * gap))
            number += 1
            connection.exec_driver_sql(f"insert into orders (id) values ({number})")
            committed[number] = time.monotonic()
    engine.dispose()
    print(json.dumps(committed))


def measure(url: str, store: StateStore, kind: str, wake: Wake, gap: float, seconds: float) -> dict[str, Any]:
    """One line: how long rows took. `first_ms`: of the first one, for which nothing was awake. The other figures are of
    the `steady` rows, committed after the first one had come."""
    ddl, keys = TABLES[kind]
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.exec_driver_sql(ddl)
    source = SqlSource(url=url, table="orders", **keys)
    if keys.get("capture"):
        _capture(url)
    with engine.begin() as connection:
        connection.exec_driver_sql("insert into orders (id) values (1)")
    arrived: dict[int, float] = {}

    def take(batch: Batch) -> None:
        now = time.monotonic()
        for row in batch:
            arrived.setdefault(int(row["id"]), now)

    name = f"b{time.monotonic_ns()}"
    poller = Poller(name, source=source, store=store, app_name="woken", schedule=SCHEDULE, wake=wake, observers=())
    stop = threading.Event()
    worker = threading.Thread(target=run, args=([poller], "forever", stop), kwargs={"handler": take})
    asked = [sys.executable, "-m", "benchmarks.latency.woken", "--write", url, str(gap), str(seconds)]
    with _reads(poller) as reads:
        worker.start()
        while 1 not in arrived:
            time.sleep(0.05)
        began = time.monotonic()
        said = subprocess.run(asked, stdout=subprocess.PIPE, text=True, check=True, cwd=REPOSITORY).stdout
        committed = {int(number): at for number, at in json.loads(said).items()}
        until = time.monotonic() + LATE
        while not arrived.keys() >= committed.keys() and time.monotonic() < until:
            time.sleep(0.05)
        lasted, looks = time.monotonic() - began, len(reads)
    stop.set()
    worker.join()
    poller.close()
    engine.dispose()
    ms = {number: 1000 * (arrived[number] - at) for number, at in committed.items() if number in arrived}
    awake = min(arrived[number] for number in ms)
    steady = [each for number, each in ms.items() if committed[number] > awake]
    return {
        "bench": "woken",
        "kind": kind,
        "wake": wake,
        "schedule": SCHEDULE,
        "gap_s": gap,
        "rows": len(committed),
        "missing": len(committed) - len(ms),
        "first_ms": round(next(iter(ms.values())), 1),
        "steady": len(steady),
        "p50_ms": round(statistics.median(steady), 1),
        "p99_ms": round(percentile(steady, 0.99), 1),
        "looks_per_s": round(looks / lasted, 1),
        "load": round(os.getloadavg()[0], 1),
    }


def _capture(url: str) -> None:
    """Install the triggers."""
    options = {
        "handler": "handlers:handle",
        "source": {"url": url, "table": "orders", "capture": True, "start_from": "beginning"},
    }
    TableCapture("orders", PollerConfig.model_validate(options), runtime=SystemRuntime(), environ=os.environ).install()


@contextmanager
def _reads(poller: Poller) -> Iterator[list[float]]:
    """The moments at which its ticks began."""
    found: list[float] = []
    tick = poller.tick

    def counted(*args: Any, **more: Any) -> Any:
        found.append(time.monotonic())
        return tick(*args, **more)

    poller.tick = counted  # type: ignore[method-assign]
    yield found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.latency.woken", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each measurement")
    parser.add_argument("--write", nargs=3, metavar=("URL", "GAP", "SECONDS"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.write:
        url, gap, seconds = asked.write
        write(url, float(gap), float(seconds))
        return
    with Azurite.start(memory=True) as azurite, PostgresServer.start() as postgres:
        container, storage = azurite.container_name(), azurite.connection_string
        ContainerClient.from_connection_string(storage, container).create_container()
        store = BlobStore.from_connection_string(storage, container)
        for kind, gap in [*((kind, GAP) for kind in TABLES), ("xid8+pk", LONG_GAP)]:
            for wake in WAKES:
                line = measure(postgres.new_database(), store, kind, wake, gap, asked.seconds)
                print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
