"""`python -m benchmarks.full_page`: one JSON line per database and table."""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from benchmarks.full_page.table import PAGE, by_hand, fill
from poller.model.cursor import Cursor
from poller.ports import Page
from poller.sources import SqlSource
from tests.support.mariadb import MariaDbServer
from tests.support.postgres import PostgresServer

Step = Callable[[], int]
"""Reads the next page and returns how many rows it has; after the last one it begins anew."""


def source(url: str, table: str, **options: Any) -> SqlSource:
    """A source over the table, with the bound that the database has by itself."""
    return SqlSource(
        url, table=table, cursor_column="updated_at", cursor_time_zone="UTC", pk_columns=["id"], **options
    )  # fmt: skip


def ours(read: Callable[[Cursor | None, int], Page], last: int) -> Step:
    """`read`: `SqlSource.page`, which samples for every page, or `next_page`, whose bound serves several; `last`: the
    last row's id."""
    after: Cursor | None = None

    def step() -> int:
        nonlocal after
        page = read(after, PAGE)
        rows = list(page.rows)  # made where they are asked for
        after = None if rows[-1]["id"] == last else page.cursors[-1]
        return len(rows)

    return step


def raw(connection: sa.Connection, url: str, table: str, last: int, *, payload: bool) -> Step:
    read = by_hand(connection, url, table, payload=payload)
    after: tuple[Any, Any] | None = None

    def step() -> int:
        nonlocal after
        rows = read(after)
        after = None if rows[-1]["id"] == last else (rows[-1]["updated_at"], rows[-1]["id"])
        return len(rows)

    return step


def measure(url: str, *, rows: int, rounds: int, payload: bool, **options: Any) -> dict[str, Any]:
    """Walk through a table of full pages in all ways at once, page by page in turn, `rounds` times over: what is noisy,
    is so for all. Of each way and round the time of a page; then the medians of the rounds."""
    table = fill(url, rows, payload=payload)
    readers = [source(url, table, **options) for _ in range(2)]
    engine = sa.create_engine(url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        server = ".".join(str(part) for part in connection.dialect.server_version_info or ())
        ways = {
            "raw": raw(connection, url, table, rows, payload=payload),
            "sampled": ours(readers[0].page, rows),
            "reused": ours(readers[1].next_page, rows),
        }
        assert {step() for step in ways.values()} == {PAGE}, "what is asked once is not measured"
        pages = rows // PAGE
        wall: dict[str, list[float]] = {name: [] for name in ways}
        cpu: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(rounds):
            for spent in (wall, cpu):
                for found in spent.values():
                    found.append(0.0)
            for _ in range(pages):
                for name, step in ways.items():
                    began, worked = time.perf_counter(), time.process_time()
                    step()
                    wall[name][-1] += 1000 * (time.perf_counter() - began) / pages
                    cpu[name][-1] += 1000 * (time.process_time() - worked) / pages
    for reader in readers:
        reader.close()
    return {
        "json": payload,
        "server": server,
        "rows": rows,
        "page": PAGE,
        "rounds": rounds,
        "ms": {name: round(statistics.median(found), 3) for name, found in wall.items()},
        "cpu_ms": {name: round(statistics.median(found), 3) for name, found in cpu.items()},
        "to_raw": _ratios(wall),
        "cpu_to_raw": _ratios(cpu),
        "rounds_to_raw": {
            name: [round(a / b, 3) for a, b in zip(wall[name], wall["raw"], strict=True)]
            for name in ("sampled", "reused")
        },
    }


def _ratios(times: dict[str, list[float]]) -> dict[str, float]:
    """Of each way to the page by hand, the median of the rounds."""
    return {
        name: round(statistics.median(a / b for a, b in zip(times[name], times["raw"], strict=True)), 2)
        for name in ("sampled", "reused")
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.full_page", description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--database", choices=["all", "postgresql", "mysql", "sqlite"], default="all")
    asked = parser.parse_args()

    def show(name: str, url: str) -> None:
        for payload in (False, True):
            found = measure(url, rows=asked.rows, rounds=asked.rounds, payload=payload)
            print(json.dumps({"database": name, **found}), flush=True)

    if asked.database in ("all", "postgresql"):
        with PostgresServer.start({"max_prepared_transactions": "0"}) as postgres:
            show("postgresql", postgres.new_database())
    if asked.database in ("all", "mysql"):
        with MariaDbServer.start() as mariadb:
            show("mysql", mariadb.new_database())
    if asked.database in ("all", "sqlite"):
        with tempfile.TemporaryDirectory() as folder:
            show("sqlite", f"sqlite:///{Path(folder) / 'pages.db'}")


if __name__ == "__main__":
    main()
