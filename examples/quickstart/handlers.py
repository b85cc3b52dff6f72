"""The handler that poller.toml names, and a table to try it on: `python handlers.py` makes three orders."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from poller import Batch


def on_orders(batch: Batch) -> None:
    """Print one line per order. An exception here would leave the batch undelivered, to be tried again."""
    for order in batch:
        print(f"order {order['id']}: {order['status']}, {order['total']:.2f}", flush=True)


def make_orders() -> None:
    """Three new orders, stamped by the database in the transaction that writes them."""
    with closing(sqlite3.connect(Path(__file__).with_name("orders.db"))) as connection, connection:
        connection.executescript(
            """
            CREATE TABLE IF NOT EXISTS orders (
                id         INTEGER PRIMARY KEY NOT NULL,
                status     TEXT NOT NULL,
                total      REAL NOT NULL,
                updated_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now'))
            );
            CREATE INDEX IF NOT EXISTS orders_in_order ON orders (updated_at, id);
            CREATE TRIGGER IF NOT EXISTS orders_touch AFTER UPDATE ON orders WHEN NEW.updated_at IS OLD.updated_at
            BEGIN
                UPDATE orders SET updated_at = strftime('%Y-%m-%d %H:%M:%f', 'now') WHERE id = NEW.id;
            END;
            """
        )
        connection.executemany(
            "INSERT INTO orders (status, total) VALUES (?, ?)", [("new", 12.5), ("new", 99.0), ("paid", 7.25)]
        )


if __name__ == "__main__":
    make_orders()
