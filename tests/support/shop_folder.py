"""A folder as a user has it: a handler, a table in SQLite with one row, and `poller.toml`."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path


def write_shop(folder: Path, handlers: str) -> None:
    """All three; `handlers`: what `handlers.py` says, `on_orders` in it."""
    (folder / "handlers.py").write_text(handlers)
    with closing(sqlite3.connect(folder / "shop.db")) as shop, shop:
        shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, updated_at TEXT NOT NULL)")
        shop.execute("INSERT INTO orders VALUES (1, '2026-01-01 00:00:00.000')")
    configure(folder)


def configure(folder: Path, top: str = "") -> None:
    """Write `poller.toml`; `top`: what stands before its first table."""
    (folder / "poller.toml").write_text(
        f"""
        app_name = "shop"
        {top}
        [state]
        store = "sql"
        [pollers.orders]
        handler = "handlers:on_orders"
        schedule = "* * * * * *"
        [pollers.orders.source]
        url = "sqlite:///shop.db"
        table = "orders"
        cursor_column = "updated_at"
        cursor_time_zone = "UTC"
        pk_columns = ["id"]
        """
    )
