from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import telemetry


@pytest.fixture(scope="session", autouse=True)
def sdk() -> None:
    telemetry.install()


@pytest.fixture
def table(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """The table `orders` with seven rows of a second each; what is written stays, statement by statement."""
    with contextlib.closing(sqlite3.connect(tmp_path / "orders.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = wal")
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, updated_at TEXT NOT NULL)")
        connection.executemany(
            "INSERT INTO orders VALUES (?, ?)", [(i, f"2026-01-01T00:00:0{i}.000Z") for i in range(7)]
        )
        yield connection
