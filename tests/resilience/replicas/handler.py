"""The handler of these processes: waits as if for a service, then writes its batch into a ledger.

Set by the environment: HERD_LEDGER (a PostgreSQL URL), HERD_WORKER (who we are), HERD_FOLDER, HERD_PACE (seconds that a
batch takes, until a file `fast` is in the folder).
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import psycopg

from poller import Batch

_lock = threading.Lock()
_ledger: psycopg.Connection[tuple[object, ...]] | None = None


def handle(batch: Batch) -> None:
    if not (Path(os.environ["HERD_FOLDER"]) / "fast").exists():
        time.sleep(float(os.environ["HERD_PACE"]))
    with _lock:
        _write(batch)


def _write(batch: Batch) -> None:
    """One statement: a killed process leaves a whole batch or nothing of it."""
    global _ledger
    if _ledger is None or _ledger.closed:
        _ledger = psycopg.connect(os.environ["HERD_LEDGER"], autocommit=True)
    _ledger.execute(
        "INSERT INTO ledger (poller, id, token, worker) SELECT %s, unnest(%s::int[]), %s, %s",
        (batch.poller_name, [row["id"] for row in batch], batch.fencing_token, os.environ["HERD_WORKER"]),
    )
