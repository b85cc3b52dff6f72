"""The process that lets flights arrive: `python -m poller_cli.demo.writer FOLDER SECONDS`."""

from __future__ import annotations

import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path

from poller_cli.demo.scene import Scene, flights

_COLUMNS = ("time_hour", "carrier", "flight", "origin", "sched_dep_time", "dest", "tailnum")
_INSERT = f"INSERT INTO flights ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608
_PER_TRANSACTION = 150


def main() -> None:
    """Insert all flights in time order, spread over the given seconds; the database stamps each as it comes."""
    scene, seconds = Scene(Path(sys.argv[1])), float(sys.argv[2])
    rows = [tuple(row[column] for column in _COLUMNS) for row in flights()]
    began = time.monotonic()
    with closing(sqlite3.connect(scene.database, timeout=30)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        for start in range(0, len(rows), _PER_TRANSACTION):
            connection.executemany(_INSERT, rows[start : start + _PER_TRANSACTION])
            connection.commit()
            due = began + seconds * (start + _PER_TRANSACTION) / len(rows)
            time.sleep(max(0.0, due - time.monotonic()))


if __name__ == "__main__":
    main()
