"""`python -m benchmarks.capture`: one JSON line per database and kind of write.

Three tables that are alike take turns, round after round: one without triggers, one that keeps old values, one with
`--no-old`. `us`: microseconds per row of the table without, and how many more the others take; medians of the rounds.
`bytes`: what a change takes in the database, its index and pages included.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import sqlalchemy as sa

from poller.admin.capture import TableCapture
from poller.config import PollerConfig
from poller.runtime import SystemRuntime
from tests.support.mariadb import MariaDbServer
from tests.support.postgres import PostgresServer

TABLES: dict[str, bool | None] = {"plain": None, "old": True, "no_old": False}
"""Each table, and whether its changes keep old values; None: it has no triggers."""
COLUMNS = (
    "id int NOT NULL PRIMARY KEY, customer int NOT NULL, state varchar(20) NOT NULL, total numeric(12, 2) NOT NULL,"
    " note varchar(100), city varchar(40), created timestamp NOT NULL, paid int"
)
ROW = {
    "state": "waiting for payment",
    "note": "as it was ordered",
    "city": "Lisbon",
    "created": "2026-01-02 03:04:05",
    "paid": 0,
}
SIZES = {
    "postgresql": "SELECT pg_total_relation_size('poller_{table}_changes')",
    "mysql": "SELECT data_length + index_length FROM information_schema.tables"
    " WHERE table_name = 'poller_{table}_changes' AND table_schema = database()",
    "sqlite": "SELECT sum(pgsize) FROM dbstat WHERE name LIKE 'poller_{table}_changes%'",
}


def measure(url: str, *, rows: int, rounds: int) -> list[dict[str, Any]]:
    """A line per kind of write: `many` rows in one statement, and `one` row in a transaction of its own."""
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        for table in TABLES:
            connection.exec_driver_sql(f"CREATE TABLE {table} ({COLUMNS})")
            names = ["id", "customer", "total", *ROW]
            fill = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join(f':{name}' for name in names)})"
            some = [{"id": at, "customer": at % 997, "total": at % 1000 + 0.5, **ROW} for at in range(rows)]
            connection.execute(sa.text(fill), some)
    for table, old in TABLES.items():
        if old is not None:
            options = {"handler": "handlers:handle", "source": {"url": url, "table": table, "capture": True}}
            config = PollerConfig.model_validate(options)
            TableCapture(table, config, runtime=SystemRuntime(), environ=os.environ, old=old).install()
    took: dict[tuple[str, str], list[float]] = {(kind, table): [] for kind in ("many", "one") for table in TABLES}
    for number in range(rounds + 1):
        for table in [*TABLES, *TABLES][number % len(TABLES) :][: len(TABLES)]:
            many = _timed(engine, [f"UPDATE {table} SET paid = {number}"]) / rows
            single = [f"UPDATE {table} SET paid = -{number} WHERE id = {at}" for at in range(min(rows, 500))]
            one = _timed(engine, single) / len(single)
            if number:  # the first round warms up
                took["many", table].append(1e6 * many)
                took["one", table].append(1e6 * one)
    family, changes = engine.dialect.name.replace("mariadb", "mysql"), (rounds + 1) * (rows + min(rows, 500))
    with engine.begin() as connection:
        if family == "mysql":
            for table in ("old", "no_old"):
                connection.exec_driver_sql(f"ANALYZE TABLE poller_{table}_changes")
        size = {
            table: round(int(connection.scalar(sa.text(SIZES[family].format(table=table)))) / changes)
            for table in ("old", "no_old")
        }
    engine.dispose()
    return [
        {
            "bench": "capture",
            "database": family,
            "write": kind,
            "rows": rows,
            "rounds": rounds,
            "us": round(statistics.median(took[kind, "plain"]), 1),
            **{
                table: round(
                    statistics.median(b - a for a, b in zip(took[kind, "plain"], took[kind, table], strict=True)), 1
                )
                for table in ("old", "no_old")
            },
            "bytes": size,
        }
        for kind in ("many", "one")
    ]


def _timed(engine: sa.Engine, statements: list[str]) -> float:
    """Seconds of these statements, each committed."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        began = time.perf_counter()
        for statement in statements:
            connection.exec_driver_sql(statement)
        return time.perf_counter() - began


@contextmanager
def _databases(names: list[str]) -> Iterator[dict[str, str]]:
    with ExitStack() as stack:
        found = {}
        if "postgresql" in names:
            found["postgresql"] = stack.enter_context(PostgresServer.start()).new_database()
        if "mariadb" in names:
            found["mariadb"] = stack.enter_context(MariaDbServer.start()).new_database()
        if "sqlite" in names:
            found["sqlite"] = f"sqlite:///{stack.enter_context(tempfile.TemporaryDirectory())}/shop.db"
        yield found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.capture", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--database", choices=["postgresql", "mariadb", "sqlite"], action="append")
    asked = parser.parse_args()
    with _databases(asked.database or ["postgresql", "mariadb", "sqlite"]) as urls:
        for url in urls.values():
            for line in measure(url, rows=asked.rows, rounds=asked.rounds):
                print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
