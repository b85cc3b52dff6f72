"""`python -m benchmarks.pages --rows 5000000`: one JSON line per database."""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.pages.table import Size, cursor_of, fill, source
from benchmarks.pages.work import work_of
from tests.support.mariadb import MariaDbServer
from tests.support.postgres import PostgresServer


def measure(url: str, size: Size, repeat: int) -> dict[str, Any]:
    """Fill, then read the page at each place, place after place, `repeat` times over: what is noisy, is so for all."""
    began = time.perf_counter()
    fill(url, size)
    filled = time.perf_counter() - began
    places = {name: cursor_of(url, identity) for name, identity in size.places.items()}
    reader = source(url)
    try:
        work = {name: work_of(reader, url, after, size.limit).units for name, after in places.items()}
        times: dict[str, list[float]] = {name: [] for name in places}
        for _ in range(repeat):
            for name, after in places.items():
                began = time.perf_counter()
                rows = list(reader.page(after, size.limit).rows)  # made where they are asked for
                times[name].append(1000 * (time.perf_counter() - began))
                assert len(rows) == size.limit
    finally:
        reader.close()
    return {
        "rows": size.rows,
        "tie": size.tie,
        "limit": size.limit,
        "repeat": repeat,
        "filled_in_s": round(filled, 1),
        "ms_median": {name: round(statistics.median(found), 2) for name, found in times.items()},
        "ms_least": {name: round(min(found), 2) for name, found in times.items()},
        "work": work,
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pages", description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--tie", type=int, default=200_000, help="rows in the middle that share one timestamp")
    parser.add_argument("--limit", type=int, default=1_000, help="rows of a page")
    parser.add_argument("--repeat", type=int, default=25)
    parser.add_argument("--database", choices=["all", "postgresql", "mysql", "sqlite"], default="all")
    asked = parser.parse_args()
    size = Size(asked.rows, asked.tie, asked.limit)

    def show(name: str, url: str) -> None:
        print(json.dumps({"database": name, **measure(url, size, asked.repeat)}), flush=True)

    if asked.database in ("all", "postgresql"):
        with PostgresServer.start() as postgres:
            show("postgresql", postgres.new_database())
    if asked.database in ("all", "mysql"):
        with MariaDbServer.start() as mariadb:
            show("mysql", mariadb.new_database())
    if asked.database in ("all", "sqlite"):
        with tempfile.TemporaryDirectory() as folder:
            show("sqlite", f"sqlite:///{Path(folder) / 'pages.db'}")


if __name__ == "__main__":
    main()
