"""Closing an app ends what its pollers kept; a backfill ends what its parts kept."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from poller import load_app
from tests.resilience.kills import children

CONFIG = """
app_name = "shop"
[state]
store = "sql"
[pollers.orders]
handler = "handlers:on_orders"
isolation = "process"
[pollers.orders.source]
url = "sqlite:///orders.db"
table = "orders"
cursor_column = "updated_at"
cursor_time_zone = "UTC"
pk_columns = ["id"]
bound = "none"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(children.FOLDER, str(tmp_path))
    (tmp_path / "poller.toml").write_text(CONFIG)
    with closing(sqlite3.connect(tmp_path / "orders.db")) as connection, connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, updated_at TEXT NOT NULL)")
        connection.execute("INSERT INTO orders VALUES (1, '2026-01-01 00:00:00')")
    return tmp_path


def handlers_process(folder: Path) -> Path:
    return Path(f"/proc/{(folder / 'pid').read_text()}")


def test_a_handlers_process_ends_with_the_app(folder: Path) -> None:
    with load_app(folder / "poller.toml", {}) as app:
        assert app.poller("orders").tick(children.fine).rows == 1
        assert handlers_process(folder).exists()
    assert not handlers_process(folder).exists()


def test_a_handlers_process_ends_with_its_backfill(folder: Path) -> None:
    with load_app(folder / "poller.toml", {}) as app:
        assert app.poller("orders").backfill("2026-01-01", "2026-01-02", handler=children.fine).rows == 1
        assert not handlers_process(folder).exists()
