"""Worker processes behind a real queue, killed while they work: no row is lost, and what was in hand is back within the
lease's time and margin, though the killed worker's message stays hidden for ten minutes."""

from __future__ import annotations

import json
import os
import random
import sqlite3
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from poller import load_app
from poller.dispatch import Dispatcher, open_dispatcher
from tests.functions.folder import Folder, add_rows
from tests.support.azurite import Azurite
from tests.support.queue_host import QueueHost
from tests.support.services import wait_until

TTL, MARGIN = 3.0, 2.0
POLLERS, ROWS, WORKERS = 8, 200, 3
ROUND = 0.5
"""Seconds between two rounds of the dispatcher."""
SLACK = 12.0
"""Seconds for what the machine needs beside: the start of a worker process, and the work itself."""

HANDLERS = """
import sqlite3, time
from contextlib import closing

def on_orders(batch):
    time.sleep(0.03)
    with closing(sqlite3.connect({seen!r}, timeout=30)) as database, database:
        database.executemany("insert into seen values (?, ?)", [(batch.poller_name, row["id"]) for row in batch])
"""


class Fleet:
    """An app of some pollers over one table, each of which delivers all of its rows."""

    def __init__(self, folder: Folder, connection_string: str, container: str) -> None:
        self.folder = folder
        self.connection_string = connection_string
        self.queue = f"q{container.removeprefix('test-')}"
        self.seen = folder.path / "seen.db"
        self._run("create table seen (poller text, id integer)")
        (folder.path / "handlers.py").write_text(HANDLERS.format(seen=str(self.seen)))
        self.rows = 0
        self.more(ROWS)
        folder.state = f'connection = "Storage"\ncontainer = "{container}"'
        folder.defaults = "\n".join(
            [
                f'batch_size = 10\nlease_ttl = "{TTL:g}s"\nschedule = "* * * * * *"\n',
                f'[functions]\nmode = "queue"\nqueue = "{self.queue}"',
            ]
        )
        for number in range(POLLERS):
            folder.poller(f"orders-{number}")
        queues = {"batchSize": 1, "newBatchThreshold": 0, "maxPollingInterval": "00:00:01"}
        content = {"version": "2.0", "extensionBundle": {}, "extensions": {"queues": queues}}
        (folder.path / "host.json").write_text(json.dumps(content))
        folder.write()

    def _run(self, sql: str) -> list[tuple[int, int]]:
        with closing(sqlite3.connect(self.seen, timeout=30)) as database, database:
            return database.execute(sql).fetchall()

    def more(self, rows: int) -> None:
        """So many more rows for each poller."""
        add_rows(self.folder.database, rows)
        self.rows += POLLERS * rows

    def delivered(self) -> int:
        """How many different rows."""
        return int(self._run("select count(*), 0 from (select distinct poller, id from seen)")[0][0])

    def host(self, log: Path) -> QueueHost:
        argv = [sys.executable, "-m", "tests.support.queue_host", str(self.folder.path)]
        return QueueHost(self.connection_string, self.queue, argv, workers=WORKERS, log=log)


class Rounds:
    """A dispatcher on a thread of its own."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._stop = threading.Event()
        self._dispatcher = dispatcher
        self._thread = threading.Thread(target=self._go, daemon=True)
        self._thread.start()

    def _go(self) -> None:
        while not self._stop.wait(ROUND):
            self._dispatcher.round()

    def end(self) -> None:
        self._stop.set()
        self._thread.join(20)
        self._dispatcher.close()


@pytest.fixture
def fleet(folder: Folder, azurite: Azurite, container: str, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    monkeypatch.setenv("Storage", azurite.connection_string_with_queues)
    monkeypatch.delenv("PYTHON_THREADPOOL_THREAD_COUNT", raising=False)
    return Fleet(folder, azurite.connection_string_with_queues, container)


def survive(fleet: Fleet, tmp_path: Path, *, seconds: float, every: float) -> None:
    """Kill a random worker now and then, and then see that all rows arrive."""
    chance = random.Random(1)
    with load_app(fleet.folder.path / "poller.toml") as app:
        rounds = Rounds(open_dispatcher(app, os.environ))
        try:
            with fleet.host(tmp_path / "workers.log") as host:
                wait_until(lambda: fleet.delivered() > 0, "the first rows", seconds=30)
                ends = time.monotonic() + seconds
                while time.monotonic() < ends:
                    time.sleep(every)
                    host.kill(chance.randrange(WORKERS))
                left = fleet.rows - fleet.delivered()
                work = left / 10 * 0.1  # in batches, one after the other
                wait_until(
                    lambda: fleet.delivered() == fleet.rows,
                    "every row",
                    seconds=TTL + MARGIN + 2 * ROUND + SLACK + work,
                )
                assert host.killed > 0
                took = time.monotonic() - ends
                print(f"{host.killed} workers killed; {left} rows left at the last kill; all there {took:.1f} s later")
        finally:
            rounds.end()


@pytest.mark.soak
def test_killed_workers_lose_no_row(fleet: Fleet, tmp_path: Path) -> None:
    survive(fleet, tmp_path, seconds=6, every=1.5)


@pytest.mark.prove
@pytest.mark.timeout(300)
def test_workers_killed_for_a_minute_lose_no_row(fleet: Fleet, tmp_path: Path) -> None:
    fleet.more(2_000)
    survive(fleet, tmp_path, seconds=60, every=2)
