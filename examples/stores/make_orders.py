"""Makes the table that the six files read: three orders in a SQLite file."""

import sqlite3

with sqlite3.connect("orders.db") as database:
    database.executescript(
        """
        CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY NOT NULL, total REAL, updated_at TEXT NOT NULL);
        INSERT OR IGNORE INTO orders VALUES
            (1, 99.5, '2026-04-07 12:00:00.000'),
            (2, 12.5, '2026-04-07 12:00:01.000'),
            (3, 7.25, '2026-04-07 12:00:02.000');
        """
    )
