"""One of the two processes: `python -m tests.resilience.race.worker NAME FOLDER`, by FOLDER/race.json.

It prints its events, one JSON object a line. The one called `first` waits in its second batch until FOLDER/go exists,
and while it waits it is stopped by SIGSTOP, so neither its handler nor its heartbeat runs: as on a machine that hangs.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import time
from pathlib import Path
from typing import Any

from poller import Batch, Poller, stores
from poller.observability import PollerEvent
from poller.sources import SqlSource


def say(name: str, event: str, **facts: Any) -> None:
    line = json.dumps({"worker": name, "event": event, **facts}, default=str) + "\n"
    os.write(1, line.encode())  # one call: the heartbeat's thread speaks too


def write_ledger(ledger: sqlite3.Connection, batch: Batch, worker: str) -> int:
    """The sink keeps one entry per version of a row, and refuses whoever comes with an older token than it has seen."""
    with ledger:
        ledger.execute("BEGIN IMMEDIATE")
        (highest,) = ledger.execute("SELECT coalesce(max(token), 0) FROM ledger").fetchone()
        if batch.fencing_token < highest:
            return 0
        for row in batch:
            ledger.execute(
                "INSERT OR IGNORE INTO ledger VALUES (?, ?, ?, ?)",
                (batch.key(row), row["id"], batch.fencing_token, worker),
            )
        return len(batch)


def main(name: str, folder: Path) -> None:
    race = json.loads((folder / "race.json").read_text())
    ledger = sqlite3.connect(race["ledger"], timeout=30, isolation_level=None)
    started = 0

    def handle(batch: Batch) -> None:
        nonlocal started
        started += 1
        if name == "first" and started == 2:
            say(name, "held_at_barrier", batch_id=batch.batch_id, fencing_token=batch.fencing_token)
            while not (folder / "go").exists():
                time.sleep(0.01)
            say(name, "woke_up", lost=batch.lost.is_set(), remaining=batch.remaining())
        written = write_ledger(ledger, batch, name)
        say(name, "ledger_written" if written else "ledger_refused", fencing_token=batch.fencing_token, rows=written)

    def report(event: PollerEvent) -> None:
        facts = event.as_json()
        say(name, facts.pop("event"), **facts)

    poller = Poller(
        "orders",
        source=SqlSource(
            race["source"],
            table="orders",
            cursor_column="updated_at",
            cursor_time_zone="UTC",
            pk_columns=["id"],
            bound="none",
        ),
        store=getattr(stores, race["store"]).from_connection_string(race["connection"], race["place"]),
        app_name="race",
        batch_size=race["batch_size"],
        lease_ttl="3s",
        heartbeat_interval="750ms",
        observers=[report],
    )
    while True:
        result = poller.tick(handle)
        if result.outcome in ("delivered", "lease_lost"):
            break
        time.sleep(0.05)
    say(name, "finished", outcome=result.outcome, fencing_token=result.fencing_token)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
