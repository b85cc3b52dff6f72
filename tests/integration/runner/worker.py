"""A worker in a process of its own, with its settings as one line of JSON on stdin.

Run as `python -m tests.integration.runner.worker`. It says "ready", waits for a second line, ticks until nothing is
left, and prints the outcome of every tick. Its handler takes longer than the lease's ttl, and writes into a ledger, by
the database's clock, when it was at work on what.
"""

from __future__ import annotations

import json
import sys
import time

import sqlalchemy as sa

from poller import Batch, Poller
from poller.sources import SqlSource
from poller.stores import BlobStore


def main() -> None:
    settings = json.loads(sys.stdin.readline())
    ledger = sa.create_engine(settings["database"], isolation_level="AUTOCOMMIT")

    def note(what: str, ids: list[int], token: int) -> None:
        with ledger.connect() as connection:
            connection.execute(
                sa.text("INSERT INTO ledger (worker, token, what, ids) VALUES (:worker, :token, :what, :ids)"),
                {"worker": settings["worker"], "token": token, "what": what, "ids": ids},
            )

    def handle(batch: Batch) -> None:
        ids = [row["id"] for row in batch]
        note("begin", ids, batch.fencing_token)
        time.sleep(settings["handler_seconds"])
        batch.check()
        note("end", ids, batch.fencing_token)

    poller = Poller(
        "orders",
        app_name="shop",
        source=SqlSource(settings["database"], table="orders", cursor_column="updated_at", pk_columns=["id"]),
        store=BlobStore.from_connection_string(settings["connection"], settings["container"]),
        batch_size=settings["batch_size"],
        max_batches_per_tick=1,
        lease_ttl=settings["lease_ttl"],
        heartbeat_interval=settings["heartbeat_interval"],
        observers=(),
    )
    print("ready", flush=True)
    sys.stdin.readline()
    outcome = ""
    while outcome != "idle":
        outcome = poller.tick(handle).outcome
        print(outcome, flush=True)
        time.sleep(0.1)


if __name__ == "__main__":
    main()
