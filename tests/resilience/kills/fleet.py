"""Replicas of `poller run` on one PostgreSQL table, with their state in Azurite and a ledger of what they handled."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy.engine import make_url

from tests.support.services import REPOSITORY, wait_until

CONFIG = """
app_name = "shop"
[state]
{state}
[pollers.orders]
handler = "{handler}"
schedule = "* * * * * *"
{options}
[pollers.orders.source]
url = "{source}"
table = "orders"
cursor_column = "updated_at"
pk_columns = ["id"]
{source_options}
"""


CUSTOMERS = 37
"""Among whom the rows are divided, by turns."""


@dataclass
class Worker:
    """One process and what it reported: `events`, each with `arrived` (monotonic seconds) beside its own fields."""

    name: str
    process: subprocess.Popen[str]
    log: Path
    events: list[dict[str, Any]] = field(default_factory=list)
    reader: threading.Thread | None = None

    def emitted(self, *names: str) -> list[dict[str, Any]]:
        return [event for event in list(self.events) if event["event"] in names]

    def await_event(
        self, name: str, *, seconds: float = 60, where: Callable[[dict[str, Any]], bool] = lambda _: True
    ) -> dict[str, Any]:
        """The first event of that name for which `where` holds."""
        found: list[dict[str, Any]] = []

        def seen() -> bool:
            found[:] = [event for event in self.emitted(name) if where(event)]
            assert found or self.process.poll() is None, f"{self} ended:\n{self.log.read_text()[-3000:]}"
            return bool(found)

        wait_until(seen, f"{name} of {self}", seconds=seconds)
        return found[0]

    @property
    def tenure(self) -> int | None:
        """The token under which it works now, as far as it has reported."""
        token: int | None = None
        for event in self.emitted("lease_acquired", "lease_taken_over", "lease_released", "lease_lost"):
            token = event["fencing_token"] if event["event"] in ("lease_acquired", "lease_taken_over") else None
        return token

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self, seconds: float = 30) -> int:
        """Wait until it has ended by itself; its exit code."""
        code = self.process.wait(seconds)
        if self.reader is not None:
            self.reader.join(10)
        return code

    def kill(self) -> None:
        self.process.kill()
        self.end()

    def __repr__(self) -> str:
        return f"<worker {self.name}, pid {self.process.pid}>"


class Fleet:
    """Makes the table and starts workers. `connection`: of the storage, where the state is in `container`, or in the
    `table` of Table Storage; `state`: the keys of `[state]` for another store; `source`: the URL they read through."""

    def __init__(
        self,
        folder: Path,
        database: str,
        *,
        connection: str,
        container: str,
        table: str | None = None,
        state: str | None = None,
        source: str | None = None,
        options: str = "",
        source_options: str = "",
        pace: float = 0.0,
        handler: str = "tests.resilience.kills.handler:handle",
    ) -> None:
        self.folder = folder
        self.connection = connection
        self.pace = pace
        self.workers: list[Worker] = []
        self.ledger_url = make_url(database).set(drivername="postgresql").render_as_string(hide_password=False)
        place = f'container = "{container}"' if table is None else f'store = "table"\ntable = "{table}"'
        text = CONFIG.format(
            state=state or f'connection = "STORAGE"\n{place}',
            source=source or database,
            options=options,
            source_options=source_options,
            handler=handler,
        )
        (folder / "poller.toml").write_text(text)
        self.execute(
            "CREATE TABLE orders (id int PRIMARY KEY, updated_at timestamptz NOT NULL, "
            f"customer int GENERATED ALWAYS AS (id % {CUSTOMERS}) STORED)"
        )
        self.execute("CREATE INDEX ON orders (updated_at, id)")
        self.execute(
            "CREATE TABLE ledger (place bigserial, id int, token bigint, batch_id text, worker text, "
            "at timestamptz DEFAULT clock_timestamp())"
        )

    def environ(self, name: str = "command") -> dict[str, str]:
        """What a process of that name needs to find its modules, the storage and the ledger."""
        return {k: v for k, v in os.environ.items() if k != "POLLER_CONFIG"} | {
            "STORAGE": self.connection,
            "PYTHONPATH": os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "cli")]),
            "PYTHONUNBUFFERED": "1",
            "FLEET_FOLDER": str(self.folder),
            "FLEET_LEDGER": self.ledger_url,
            "FLEET_WORKER": name,
            "FLEET_PACE": str(self.pace),
        }

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.ledger_url, autocommit=True, connect_timeout=10) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def insert(self, first: int, last: int) -> None:
        """Rows with these ids, ten on each timestamp."""
        self.execute(
            "INSERT INTO orders SELECT n, timestamptz '2026-04-01T00:00:00Z' + n / 10 * interval '1 s' "
            f"FROM generate_series({first}, {last}) AS n"
        )

    def start(self, *arguments: str, name: str | None = None) -> Worker:
        """One more `poller run --json`; with the arguments beside."""
        name = name or f"w{len(self.workers) + 1}"
        log = self.folder / f"{name}.log"
        with log.open("w") as errors:
            process = subprocess.Popen(
                [sys.executable, "-m", "poller_cli.main", "run", "--json", *arguments],
                cwd=self.folder,
                env=self.environ(name),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        worker = Worker(name, process, log)

        def read() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                if line.endswith("\n"):  # a killed process may leave half a line
                    worker.events.append({**json.loads(line), "arrived": time.monotonic()})

        worker.reader = threading.Thread(target=read, name=f"events-{name}", daemon=True)
        worker.reader.start()
        self.workers.append(worker)
        return worker

    # --- gates

    def hold(self, name: str, how: str = "sleep") -> None:
        """Keep that worker's next batch in its handler, after it has written the ledger."""
        (self.folder / f"hold-{name}").write_text(how)

    def await_inside(self, name: str) -> None:
        wait_until((self.folder / f"inside-{name}").exists, f"{name} in its handler", seconds=60)

    def let_go(self, name: str) -> None:
        (self.folder / f"hold-{name}").unlink()

    # --- what came out

    def handled(self) -> list[int]:
        """The ids in the ledger, each once, in order."""
        return [row[0] for row in self.execute("SELECT DISTINCT id FROM ledger ORDER BY id")]

    def count_handled(self) -> int:
        """How many rows are in the ledger."""
        return int(self.execute("SELECT count(DISTINCT id) FROM ledger")[0][0])

    def repeated(self) -> list[tuple[int, int, str]]:
        """Entries (id, token, batch) whose row was handled again under a later token."""
        return [
            (row[0], row[1], row[2])
            for row in self.execute(
                "SELECT one.id, one.token, one.batch_id FROM ledger one WHERE EXISTS "
                "(SELECT 1 FROM ledger other WHERE other.id = one.id AND other.place > one.place)"
            )
        ]

    def out_of_order(self) -> int:
        """How many rows came before an older one of their customer, under one token or for the first time."""
        found = self.execute(
            "SELECT count(*) FROM ("
            f"SELECT id, lag(id) OVER (PARTITION BY token, id % {CUSTOMERS} ORDER BY place) AS before FROM ledger "
            f"UNION ALL SELECT id, lag(id) OVER (PARTITION BY id % {CUSTOMERS} ORDER BY place) FROM "
            "(SELECT id, min(place) AS place FROM ledger GROUP BY id) AS firsts) AS seen WHERE id < before"
        )
        return int(found[0][0])

    def last_batches(self) -> dict[int, str]:
        """The last batch in the ledger of each token."""
        found = self.execute("SELECT DISTINCT ON (token) token, batch_id FROM ledger ORDER BY token, place DESC")
        return {row[0]: row[1] for row in found}

    def tokens(self) -> list[int]:
        """The tokens in the ledger, in the order in which they wrote."""
        return [row[0] for row in self.execute("SELECT token FROM ledger GROUP BY token ORDER BY min(place)")]

    def interleaved(self) -> bool:
        """Whether an entry of an older token came after one of a newer."""
        found = self.execute(
            "SELECT count(*) FROM (SELECT token, max(token) OVER (ORDER BY place) AS highest FROM ledger) AS seen "
            "WHERE token < highest"
        )
        return bool(found[0][0])

    def stop(self) -> list[int]:
        """SIGTERM to all that run; their exit codes."""
        running = [worker for worker in self.workers if worker.process.poll() is None]
        for worker in running:
            worker.signal(signal.SIGTERM)
        return [worker.end() for worker in running]

    def close(self) -> None:
        for worker in self.workers:
            if worker.process.poll() is None:
                worker.signal(signal.SIGCONT)
                worker.kill()
