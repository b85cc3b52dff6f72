"""Closing an app ends what its pollers kept, also of those that a command wired for itself."""

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


def test_the_process_of_a_commands_poller_ends_with_the_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `poller backfill` does: each of its parts is a poller with a document, and a handler, of its own."""
    monkeypatch.setenv(children.FOLDER, str(tmp_path))
    (tmp_path / "poller.toml").write_text(CONFIG)
    with closing(sqlite3.connect(tmp_path / "orders.db")) as connection, connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, updated_at TEXT NOT NULL)")
        connection.execute("INSERT INTO orders VALUES (1, '2026-01-01 00:00:00')")
    with load_app(tmp_path / "poller.toml", {}) as app:
        part = app.wire("orders-part", app.config.pollers["orders"])
        assert part.tick(children.fine).rows == 1
        child = int((tmp_path / "pid").read_text())
        assert Path(f"/proc/{child}").exists()
    assert not Path(f"/proc/{child}").exists()
