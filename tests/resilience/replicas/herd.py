"""Processes that run the same pollers on PostgreSQL, with their state in Azurite and a ledger of what they handled."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy.engine import make_url

from tests.support.services import REPOSITORY

HEAD = """
app_name = "shop"
[run]
max_concurrent = {slots}
[state]
connection = "STORAGE"
container = "{container}"
[defaults]
handler = "tests.resilience.replicas.handler:handle"
schedule = "* * * * * *"
batch_size = {batch}
lease_ttl = "3s"
heartbeat_interval = "750ms"
"""
POLLER = """
[pollers.{name}]
[pollers.{name}.source]
url = "{source}"
table = "{name}"
cursor_column = "updated_at"
pk_columns = ["id"]
"""


@dataclass
class Herd:
    """`pace`: seconds that a batch takes; `batch`: its rows."""

    folder: Path
    database: str
    connection: str
    container: str
    pollers: int
    pace: float
    batch: int = 5
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    started: int = 0

    def __post_init__(self) -> None:
        self.names = [f"t{number}" for number in range(self.pollers)]
        self.ledger = make_url(self.database).set(drivername="postgresql").render_as_string(hide_password=False)
        self.connection_to_ledger = psycopg.connect(self.ledger, autocommit=True, connect_timeout=10)
        for name in self.names:
            self.execute(f"CREATE TABLE {name} (id int PRIMARY KEY, updated_at timestamptz NOT NULL)")
            self.execute(f"CREATE INDEX ON {name} (updated_at, id)")
        self.execute(
            "CREATE TABLE ledger (place bigserial, poller text, id int, token bigint, worker text, "
            "at timestamptz DEFAULT clock_timestamp())"
        )

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        cursor = self.connection_to_ledger.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []

    def insert(self, rows: int) -> None:
        """So many more of each."""
        for name in self.names:
            self.execute(
                f"INSERT INTO {name} SELECT n, timestamptz '2026-04-01T00:00:00Z' + n * interval '1 s' FROM "
                f"generate_series((SELECT coalesce(max(id), 0) + 1 FROM {name}), "
                f"(SELECT coalesce(max(id), 0) + {rows} FROM {name})) AS n"
            )

    def start(self, *arguments: str, slots: int = 16) -> subprocess.Popen[bytes]:
        """One more `poller run`."""
        self.started += 1
        name = f"w{self.started}"
        place = self.folder / name
        place.mkdir()
        text = HEAD.format(container=self.container, slots=slots, batch=self.batch)
        text += "".join(POLLER.format(name=poller, source=self.database) for poller in self.names)
        (place / "poller.toml").write_text(text)
        environ = {k: v for k, v in os.environ.items() if k != "POLLER_CONFIG"} | {
            "STORAGE": self.connection,
            "PYTHONPATH": os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "cli")]),
            "HERD_FOLDER": str(self.folder),
            "HERD_LEDGER": self.ledger,
            "HERD_WORKER": name,
            "HERD_PACE": str(self.pace),
        }
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "poller_cli.main", "run", *arguments],
                cwd=place,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.processes.append(process)
        return process

    def hurry(self) -> None:
        """From here on batches take no time."""
        (self.folder / "fast").touch()

    def dawdle(self) -> None:
        """They take their time again."""
        (self.folder / "fast").unlink(missing_ok=True)

    def stop(self) -> list[int]:
        """SIGTERM to all that run; their exit codes."""
        running = [process for process in self.processes if process.poll() is None]
        for process in running:
            process.send_signal(signal.SIGTERM)
        return [process.wait(60) for process in running]

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
        self.connection_to_ledger.close()

    # --- what came out

    def handled(self) -> int:
        """How many rows are in the ledger, each once."""
        return int(self.execute("SELECT count(*) FROM (SELECT DISTINCT poller, id FROM ledger) AS seen")[0][0])

    def now(self) -> str:
        """By the ledger's clock."""
        return str(self.execute("SELECT clock_timestamp()")[0][0])

    def at_work_after(self, moment: str) -> list[float]:
        """After how many seconds each poller was worked on for the first time since then; those that were."""
        found = self.execute(
            f"SELECT extract(epoch FROM min(at) - '{moment}') AS after FROM ledger WHERE at > '{moment}' "
            "GROUP BY poller ORDER BY after"
        )
        return [float(row[0]) for row in found]

    def out_of_order(self) -> int:
        """How many rows came before an older one of their poller, for the first time."""
        found = self.execute(
            "SELECT count(*) FROM (SELECT poller, id, lag(id) OVER (PARTITION BY poller ORDER BY place) AS before FROM "
            "(SELECT poller, id, min(place) AS place FROM ledger GROUP BY poller, id) AS firsts) AS seen "
            "WHERE id < before"
        )
        return int(found[0][0])

    def stale(self) -> int:
        """How many entries of an older token came after one of a newer of their poller."""
        found = self.execute(
            "SELECT count(*) FROM (SELECT token, max(token) OVER (PARTITION BY poller ORDER BY place) AS highest "
            "FROM ledger) AS seen WHERE token < highest"
        )
        return int(found[0][0])
