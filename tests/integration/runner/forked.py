"""A program that uses one poller, forks two children while it does, and goes on with them: `python -m
tests.integration.runner.forked '{"store": ..., "source": ..., "isolation": ..., "ledger": ...}'`.

Every process notes in the ledger, one JSON line each: the batches that it handled (`rows`), the leases that it took
(`owner`), and how it ended (`outcomes`, or `failed`).
"""

from __future__ import annotations

import functools
import json
import os
import sys
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

from poller import Batch, Poller
from poller.observability import LeaseAcquired
from poller.ports import StateStore
from poller.sources import SqlSource
from poller.stores import BlobStore, SqlStore

BATCH = 5
EACH = 2
"""Batches that each process handles after the fork."""
ROWS = (2 + 3 * EACH) * BATCH
FORKS = 2

_parent = os.getpid()


def note(ledger: str, what: str, value: Any) -> None:
    line = json.dumps({"pid": os.getpid(), what: value}) + "\n"
    with Path(ledger).open("a") as file:
        file.write(line)


def handle(batch: Batch, *, ledger: str) -> None:
    ids = [row["id"] for row in batch]
    note(ledger, "rows", {"token": batch.fencing_token, "ids": ids, "for": os.getppid()})


def forks_in_handler(batch: Batch, *, ledger: str) -> None:
    """The parent's tick goes on in each child with a copy of its lease, as where a library forks."""
    children = [os.fork() for _ in range(FORKS) if os.getpid() == _parent]
    if os.getpid() == _parent:
        note(ledger, "children", children)
        handle(batch, ledger=ledger)


def store_of(asked: dict[str, Any]) -> StateStore:
    if "table" in asked:
        from poller.stores import TableStore

        return TableStore.from_connection_string(asked["store"], asked["table"])
    if "container" in asked:
        return BlobStore.from_connection_string(asked["store"], container=asked["container"])
    return SqlStore(asked["store"])


def main() -> None:
    asked = json.loads(sys.argv[1])
    ledger = asked["ledger"]

    def observe(event: object) -> None:
        if isinstance(event, LeaseAcquired):
            note(ledger, "owner", event.owner_id)

    source = SqlSource(
        asked["source"], table="orders", cursor_column="updated_at", pk_columns=["id"], cursor_time_zone="UTC",
        settle="0s",
    )  # fmt: skip
    poller = Poller(
        "orders", source=source, store=store_of(asked), app_name="shop", batch_size=BATCH, max_batches_per_tick=1,
        isolation=asked["isolation"], observers=[observe], audit_window="1h",
    )  # fmt: skip
    work = functools.partial(handle, ledger=ledger)
    outcomes: Counter[str] = Counter()
    try:
        poller.tick(work)
        if asked["isolation"] == "thread":
            last = poller.tick(functools.partial(forks_in_handler, ledger=ledger)).outcome
        else:
            last = poller.tick(work).outcome
            note(ledger, "children", [os.fork() for _ in range(FORKS) if os.getpid() == _parent])
        note(ledger, "left", last)
        while outcomes["delivered"] < EACH:
            outcome = poller.tick(work).outcome
            outcomes[outcome] += 1
            time.sleep(0 if outcome == "delivered" else 0.02)  # leave the processor to whoever has the lease
        note(ledger, "outcomes", outcomes)
    except BaseException:
        note(ledger, "failed", traceback.format_exc())
        raise
    if os.getpid() == _parent:
        for _ in range(FORKS):
            _, status = os.wait()
            note(ledger, "ended", status)
        note(ledger, "last", poller.tick(work).outcome)


if __name__ == "__main__":
    main()
