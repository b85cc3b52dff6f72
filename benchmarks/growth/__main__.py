"""`python -m benchmarks.growth`: one JSON line per size of the table, and per way to hand over wide rows slowly."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from typing import Any

import sqlalchemy as sa
from azure.storage.blob import ContainerClient

from benchmarks.throughput.rounds import System
from benchmarks.throughput.table import fill
from tests.support.azurite import Azurite
from tests.support.postgres import PostgresServer
from tests.support.services import REPOSITORY

WIDE = 1_900
"""Characters of a wide row: as much as PostgreSQL keeps within the row."""
SLOW = 0.05
"""Seconds that the slow handler takes for a batch."""
SLOW_WAYS: dict[str, dict[str, Any]] = {
    "each": {},
    "grouped": {"max_uncommitted": 4},
    "page_size=100000": {"page_size": 100_000},
    "concurrency=16": {"concurrency": 16},
}


def drain(**asked: Any) -> dict[str, Any]:
    """One process, from the table's beginning to its end, or for so many seconds."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.growth.drain", json.dumps(asked)],
        stdout=subprocess.PIPE, text=True, check=True, cwd=REPOSITORY,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def sizes(where: dict[str, Any], counts: list[int], *, rounds: int) -> list[dict[str, Any]]:
    """Tables of these sizes in turn, round after round; the largest is drained in one round less."""
    for rows in counts:
        fill(where["url"], f"rows_{rows}", rows)
    found: dict[int, list[dict[str, Any]]] = {rows: [] for rows in counts}
    for number in range(rounds):
        for rows in counts:
            if number and number == rounds - 1 and rows == max(counts):
                continue
            one = drain(**where, table=f"rows_{rows}", name=f"rows-{rows}-{number}", rows=rows, batch=1_000)
            if one["rows"] != rows:
                raise RuntimeError(f"{one['rows']} of {rows} rows were delivered")
            found[rows].append(one)
    return [
        {
            "bench": "growth",
            "rows": rows,
            "batch": 1_000,
            "before_mb": [one["before_mb"] for one in all_],
            "peak_mb": [one["peak_mb"] for one in all_],
            "cpu_us": [round(statistics.median(one["cpu_us"]), 3) for one in all_],
            "wall_us": [round(statistics.median(one["wall_us"]), 3) for one in all_],
            "cpu_us_by_depth": all_[0]["cpu_us"],
        }
        for rows, all_ in found.items()
    ]


def slow(where: dict[str, Any], rows: int, *, seconds: float) -> list[dict[str, Any]]:
    """Wide rows, a slow handler, and more of them than it can take: the most memory that the process had."""
    body, numbers = f"repeat('x', {WIDE})", f"generate_series(1, {rows})"
    engine = sa.create_engine(where["url"], poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for statement in (
            "create table wide (id bigint primary key, updated_at timestamptz not null, body text not null)",
            f"insert into wide select n, timestamptz '2020-01-01Z' + n * interval '1 s', {body} from {numbers} n",
            "create index wide_cursor on wide (updated_at, id)",
            "vacuum analyze wide",
        ):
            connection.exec_driver_sql(statement)
    found: list[dict[str, Any]] = []
    for name, options in SLOW_WAYS.items():
        if missing := System(name, "ours", {"options": options}).missing():
            found.append({"bench": "slow handler", "options": name, "missing": missing})
            continue
        one = drain(
            **where, table="wide", name=f"slow-{len(found)}", rows=rows, batch=500, wait=SLOW, seconds=seconds,
            options={**options, "tick_timeout": f"{max(1, int(seconds))}s", "retry_backoff_max": "1s"},
        )  # fmt: skip
        found.append(
            {
                "bench": "slow handler",
                "options": name,
                "table_mb": round(rows * WIDE / 1e6),
                "rows": one["rows"],
                "before_mb": one["before_mb"],
                "peak_mb": one["peak_mb"],
            }
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--sizes", default="100000,1000000,5000000")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--wide", type=int, default=200_000, help="wide rows")
    parser.add_argument("--seconds", type=float, default=6.0, help="of the slow handler")
    asked = parser.parse_args()
    with Azurite.start(memory=True) as azurite, PostgresServer.start({"max_prepared_transactions": "0"}) as postgres:
        container = azurite.container_name()
        ContainerClient.from_connection_string(azurite.connection_string, container).create_container()
        where = {"url": postgres.new_database(), "storage": azurite.connection_string, "container": container}
        for line in slow(where, asked.wide, seconds=asked.seconds):
            print(json.dumps(line), flush=True)
        for line in sizes(where, [int(one) for one in asked.sizes.split(",")], rounds=asked.rounds):
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
