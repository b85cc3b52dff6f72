"""`python -m tests.resilience.race.show`: the race, with its event log and the ledger it ends in."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.azurite import Azurite
from tests.support.services import wait_until

ROWS = 10
BATCH = 5
SHOWN = {
    "lease_acquired",
    "lease_taken_over",
    "batch_started",
    "batch_committed",
    "held_at_barrier",
    "stopped",
    "woken",
    "woke_up",
    "ledger_written",
    "ledger_refused",
    "lease_lost",
    "stale_commit_refused",
    "finished",
}


@dataclass
class Race:
    """What came out: events in the order in which they arrived, and the ledger's entries (row id, token, worker)."""

    events: list[dict[str, Any]] = field(default_factory=list)
    ledger: list[tuple[int, int, str]] = field(default_factory=list)

    def names(self, worker: str) -> list[str]:
        return [event["event"] for event in self.events if event["worker"] == worker]


def run(
    azurite: Azurite,
    folder: Path,
    on_event: Callable[[dict[str, Any]], None] = lambda event: None,
    *,
    tables: bool = False,
) -> Race:
    """Run it once, on a real Azurite, with a SQLite table as source and another as the handler's sink. `tables`: the
    state is in Table Storage, else in a blob."""
    race = Race()
    one_at_a_time = threading.Lock()  # three threads bring events: a line printed by two of them is no line
    _prepare(azurite, folder, tables)

    def note(event: dict[str, Any]) -> None:
        with one_at_a_time:
            race.events.append(event)
            on_event(event)

    first = _start("first", folder, note)
    try:
        wait_until(lambda: "held_at_barrier" in race.names("first"), "the first worker at its barrier")
        first.send_signal(signal.SIGSTOP)
        note({"worker": "first", "event": "stopped", "by": "SIGSTOP"})
        second = _start("second", folder, note)
        try:
            wait_until(lambda: "finished" in race.names("second"), "the second worker's take-over", seconds=60)
        finally:
            second.kill()
            second.wait()
        (folder / "go").touch()
        note({"worker": "first", "event": "woken", "by": "SIGCONT"})
        first.send_signal(signal.SIGCONT)
        wait_until(lambda: "finished" in race.names("first"), "the first worker's end", seconds=60)
    finally:
        first.kill()
        first.wait()
    with sqlite3.connect(folder / "ledger.db") as ledger:
        race.ledger = ledger.execute("SELECT id, token, worker FROM ledger ORDER BY id, key").fetchall()
    return race


def _prepare(azurite: Azurite, folder: Path, tables: bool) -> None:
    with sqlite3.connect(folder / "source.db") as source:
        source.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, updated_at TEXT NOT NULL)")
        source.executemany(
            "INSERT INTO orders VALUES (?, ?)", [(i, f"2026-01-01 00:00:{i:02d}.000") for i in range(1, ROWS + 1)]
        )
    with sqlite3.connect(folder / "ledger.db") as ledger:
        ledger.execute("CREATE TABLE ledger (key TEXT PRIMARY KEY, id INTEGER, token INTEGER, worker TEXT)")
    settings = {
        "connection": azurite.connection_string_with_tables if tables else azurite.connection_string,
        "place": azurite.table_name() if tables else azurite.container_name(),
        "store": "TableStore" if tables else "BlobStore",
        "source": f"sqlite:///{folder / 'source.db'}",
        "ledger": str(folder / "ledger.db"),
        "batch_size": BATCH,
    }
    (folder / "race.json").write_text(json.dumps(settings))


def _start(name: str, folder: Path, note: Callable[[dict[str, Any]], None]) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.resilience.race.worker", name, str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            note(json.loads(line))

    threading.Thread(target=read, daemon=True).start()
    return process


def main() -> int:
    began = time.monotonic()

    def show_event(event: dict[str, Any]) -> None:
        if event["event"] in SHOWN:
            facts = {
                k: v
                for k, v in event.items()
                if k not in ("worker", "event", "poller", "at", "owner_id") and v is not None
            }
            shown = " ".join(f"{k}={v}" for k, v in facts.items())
            print(f"{time.monotonic() - began:6.2f}s  {event['worker']:<6}  {event['event']:<20}  {shown}")

    with tempfile.TemporaryDirectory(prefix="poller-race-") as folder, Azurite.start() as azurite:
        race = run(azurite, Path(folder), show_event)
    print("\n  row  token  written by")
    for row, token, worker in race.ledger:
        print(f"  {row:>3}  {token:>5}  {worker}")
    ids = [row for row, _, _ in race.ledger]
    tokens = sorted({token for _, token, _ in race.ledger})
    good = ids == list(range(1, ROWS + 1)) and tokens == [1, 2]
    print(f"\n{len(ids)} entries for {ROWS} rows, tokens {tokens}: {'as promised' if good else 'BROKEN'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
