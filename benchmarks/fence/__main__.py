"""`python -m benchmarks.fence`: batches per second of a poller with lanes into a fenced target, one JSON line each.

`shared`: as shipped. `alone`: the fence is locked exclusively for every batch, so that lanes wait for each other. All
take turns; each transaction inserts its rows and rests a moment, as one that does more work.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import sqlalchemy as sa

from poller import Batch, Poller
from poller.sinks import statements
from poller.sinks.sql import fenced
from poller.sources import SqlSource
from poller.stores import MemoryStore
from tests.support.mariadb import MariaDbServer
from tests.support.postgres import PostgresServer
from tests.support.server import DatabaseServer

BATCH = 50
SERVERS: dict[str, Callable[[], DatabaseServer]] = {
    "postgresql": PostgresServer.start,
    "mariadb": MariaDbServer.start,
}


@contextmanager
def alone(kind: type[Any], *, wanted: bool) -> Iterator[None]:
    """Within it nobody shares the fence."""
    enter = kind.enter

    def exclusively(self: Any, *args: Any, **how: Any) -> int:
        return int(enter(self, *args, **{**how, "shared": False}))

    if wanted:
        kind.enter = exclusively
    try:
        yield
    finally:
        kind.enter = enter


def drained(url: str, folder: Path, lanes: int, batches: int, rest: float) -> float:
    """Batches per second of one tick."""
    engine = sa.create_engine(url, pool_size=lanes)
    with engine.begin() as connection:
        for table in ("arrived", "poller_applied", "poller_fence"):
            connection.execute(sa.text(f"DROP TABLE IF EXISTS {table}"))
        connection.execute(sa.text("CREATE TABLE arrived (id INTEGER)"))
    source = SqlSource(
        f"sqlite:///{folder / 'shop.db'}", table="orders", cursor_column="id", cursor_kind="integer+pk",
        pk_columns=["id"], bound="none",
    )  # fmt: skip
    options: dict[str, Any] = {"concurrency": lanes} if lanes > 1 else {"max_uncommitted": 4}
    poller = Poller(
        "fence", source=source, store=MemoryStore(), app_name="bench", observers=(), batch_size=BATCH,
        max_batches_per_tick=batches, **options,
    )  # fmt: skip

    def take(batch: Batch) -> None:
        with engine.begin() as connection, fenced(connection, batch) as fresh:
            connection.execute(sa.text("INSERT INTO arrived VALUES (:id)"), [{"id": row["id"]} for row in fresh])
            time.sleep(rest)

    began = time.perf_counter()
    result = poller.tick(take)
    took = time.perf_counter() - began
    with engine.connect() as connection:
        arrived = connection.execute(sa.text("SELECT COUNT(*), COUNT(DISTINCT id) FROM arrived")).one()
    if result.rows == 0 or tuple(arrived) != (result.rows, result.rows):
        raise RuntimeError(f"{result.outcome}: {result.rows} rows, {arrived} arrived; {result.error}")
    poller.close()
    engine.dispose()
    return result.batches / took


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fence", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument("--rest", type=float, default=0.01, help="seconds that a transaction rests")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with closing(sqlite3.connect(folder / "shop.db")) as db, db:
            db.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
            db.executemany("INSERT INTO orders VALUES (?)", [(at,) for at in range(1, BATCH * asked.batches * 2)])
        for database, start in SERVERS.items():
            kind = statements.PostgreSqlFencing if database == "postgresql" else statements.MySqlFencing
            with start() as server:
                url = server.new_database()
                found: dict[tuple[int, str], list[float]] = {}
                for _ in range(asked.rounds):
                    for lanes in (1, 2, 8):
                        for how in ("shared", "alone"):
                            with alone(kind, wanted=how == "alone"):
                                rate = drained(url, folder, lanes, asked.batches, asked.rest)
                            found.setdefault((lanes, how), []).append(rate)
            for (lanes, how), rates in found.items():
                line = {"database": database, "lanes": lanes, "fence": how, "batches_per_s": round(median(rates), 1)}
                print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
