"""`python -m benchmarks.arrow`: one JSON line per table, without and with a `jsonb` column."""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from benchmarks.full_page.table import by_hand, fill
from poller import Batch, Poller
from poller.model.cursor import Cursor
from poller.sources import SqlSource
from poller.stores import MemoryStore
from tests.support.postgres import PostgresServer

BATCH = 10_000

Walk = Callable[[], int]
"""Reads the whole table, batch after batch, and returns how many rows there were."""


def source(url: str, table: str, **options: Any) -> SqlSource:
    return SqlSource(url, table=table, cursor_column="updated_at", pk_columns=["id"], **options)


def by_pages(found: SqlSource, batch: int) -> Walk:
    """The pages as a tick reads them, each with its table and the cursor behind it."""

    def walk() -> int:
        after: Cursor | None = None
        rows = 0
        while True:
            page = found.next_page(after, batch)
            if not page.rows:
                return rows
            rows += len(page.rows) if page.table is None else page.table.arrow().num_rows
            after = page.cursors[-1]

    return walk


def by_ticks(found: SqlSource, batch: int) -> Walk:
    """One tick of a poller from the beginning, its state in memory: lease, heartbeat, a commit per batch."""
    rows = 0

    def handler(given: Batch) -> None:
        nonlocal rows
        rows += given.table.num_rows

    def walk() -> int:
        nonlocal rows
        rows = 0
        store = MemoryStore()
        poller = Poller("bench", app_name="bench", source=found, store=store, batch_size=batch, tick_timeout="10m")
        poller.tick(handler)
        return rows

    return walk


def raw(connection: sa.Connection, url: str, table: str, batch: int, *, payload: bool) -> Walk:
    read = by_hand(connection, url, table, payload=payload, limit=batch)

    def walk() -> int:
        after: tuple[Any, Any] | None = None
        count = 0
        while rows := read(after):
            count += len(rows)
            after = rows[-1]["updated_at"], rows[-1]["id"]
        return count

    return walk


@contextmanager
def walks(url: str, *, rows: int, batch: int, payload: bool) -> Iterator[dict[str, Walk]]:
    """All ways over one table."""
    table = fill(url, rows, payload=payload)
    readers = {name: source(url, table, format=name.partition("_")[0]) for name in ("rows", "arrow", "arrow_ticks")}
    engine = sa.create_engine(url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        yield {
            "raw": raw(connection, url, table, batch, payload=payload),
            "rows": by_pages(readers["rows"], batch),
            "arrow": by_pages(readers["arrow"], batch),
            "arrow_ticks": by_ticks(readers["arrow_ticks"], batch),
        }
    for reader in readers.values():
        reader.close()


def measure(url: str, *, rows: int, rounds: int, batch: int, payload: bool) -> dict[str, Any]:
    """All ways in turn, `rounds` times over, after one walk that is not counted; then the medians."""
    with walks(url, rows=rows, batch=batch, payload=payload) as ways:
        assert {walk() for walk in ways.values()} == {rows}
        wall: dict[str, list[float]] = {name: [] for name in ways}
        cpu: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(rounds):
            for name, walk in ways.items():
                began, worked = time.perf_counter(), time.process_time()
                walk()
                wall[name].append(time.perf_counter() - began)
                cpu[name].append(time.process_time() - worked)
    return {
        "json": payload,
        "rows": rows,
        "batch": batch,
        "rounds": rounds,
        "rows_per_second": {name: round(rows / statistics.median(found)) for name, found in wall.items()},
        "times_raw": _ratios(wall),
        "cpu_times_raw": _ratios(cpu),
    }


def _ratios(times: dict[str, list[float]]) -> dict[str, float]:
    """How many times as fast as by hand, the median of the rounds."""
    return {
        name: round(statistics.median(b / a for a, b in zip(found, times["raw"], strict=True)), 2)
        for name, found in times.items()
        if name != "raw"
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.arrow", description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=BATCH)
    asked = parser.parse_args()
    with PostgresServer.start({"max_prepared_transactions": "0"}) as postgres:
        for payload in (False, True):
            found = measure(
                postgres.new_database(), rows=asked.rows, rounds=asked.rounds, batch=asked.batch, payload=payload
            )
            print(json.dumps({"database": "postgresql", **found}), flush=True)


if __name__ == "__main__":
    main()
