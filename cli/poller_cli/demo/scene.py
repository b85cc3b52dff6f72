"""The stage: a folder with a SQLite table, a configuration, and the files in which each worker records what it got."""

from __future__ import annotations

import csv
import gzip
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

KEY = ("time_hour", "carrier", "flight", "origin", "sched_dep_time")
POLLER = "flights"

_CONFIG = """\
app_name = "demo"

[state]
store = "sql"
url = "sqlite:///state.db"

[pollers.flights]
handler = "poller_cli.demo.handler:record"
schedule = "* * * * * *"
batch_size = 400
lease_ttl = "3s"  # short: the other worker takes over soon
heartbeat_interval = "750ms"

[pollers.flights.source]
url = "sqlite:///flights.db"
table = "flights"
cursor_column = "updated_at"
cursor_time_zone = "UTC"
pk_columns = ["time_hour", "carrier", "flight", "origin", "sched_dep_time"]
"""

_TABLE = """\
CREATE TABLE flights (
    updated_at     TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    time_hour      TEXT NOT NULL,
    carrier        TEXT NOT NULL,
    flight         INTEGER NOT NULL,
    origin         TEXT NOT NULL,
    sched_dep_time INTEGER NOT NULL,
    dest           TEXT NOT NULL,
    tailnum        TEXT,
    PRIMARY KEY (time_hour, carrier, flight, origin, sched_dep_time)
);
CREATE INDEX flights_in_order ON flights (updated_at, time_hour, carrier, flight, origin, sched_dep_time);
CREATE TRIGGER flights_touch AFTER UPDATE ON flights WHEN NEW.updated_at IS OLD.updated_at BEGIN
    UPDATE flights SET updated_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now') WHERE rowid = NEW.rowid;
END;
"""


@dataclass(frozen=True, slots=True)
class Scene:
    """The folder of one show."""

    folder: Path

    @property
    def config(self) -> Path:
        """The workers' configuration."""
        return self.folder / "poller.toml"

    @property
    def database(self) -> Path:
        """Where the flights arrive."""
        return self.folder / "flights.db"

    @property
    def hold(self) -> Path:
        """While this file exists, a handler stops in the middle of its batch: so that the kill hits it there."""
        return self.folder / "hold"

    @property
    def held(self) -> Path:
        """Made by the handler that has stopped; holds its process id, and the batch's id and fencing token."""
        return self.folder / "held"

    def deliveries(self, worker: str) -> Path:
        """What one worker's handler was given: a line per row, `key TAB batch TAB token`."""
        return self.folder / f"delivered-{worker}.txt"

    def build(self) -> None:
        """Make the table and the configuration."""
        self.config.write_text(_CONFIG, encoding="utf-8")
        with closing(sqlite3.connect(self.database)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(_TABLE)

    def count(self) -> int:
        """The number of flights that have arrived."""
        with closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True, timeout=5)) as connection:
            return int(connection.execute("SELECT count(*) FROM flights").fetchone()[0])


def flights() -> Iterator[dict[str, str]]:
    """The departures out of New York in January 2013, in time order (US DOT, public domain)."""
    packed = files("poller_cli") / "demo_data" / "flights-2013-01.csv.gz"
    with packed.open("rb") as raw, gzip.open(raw, "rt", encoding="utf-8", newline="") as text:
        yield from csv.DictReader(text)


def key_of(row: dict[str, object] | dict[str, str]) -> str:
    """A flight's key as one text."""
    return "|".join(str(row[column]) for column in KEY)
