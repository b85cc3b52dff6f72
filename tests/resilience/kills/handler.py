"""The handler of the processes in these tests: writes each batch into a ledger, and waits where a test wants it to.

Set by the environment: FLEET_FOLDER, FLEET_LEDGER (a PostgreSQL URL), FLEET_WORKER (who we are), FLEET_PACE (seconds a
batch takes). A file `hold-WORKER` in the folder keeps a batch in the handler until it is gone; what stands in it says
how: `sleep`, or `gil` for a C call that does not give the interpreter's lock back.
"""

from __future__ import annotations

import ctypes
import os
import time
from pathlib import Path

import psycopg

from poller import Batch

_ledger: psycopg.Connection[tuple[object, ...]] | None = None


def handle(batch: Batch) -> None:
    folder, worker = Path(os.environ["FLEET_FOLDER"]), os.environ["FLEET_WORKER"]
    pace = 0.0 if (folder / "fast").exists() else float(os.environ["FLEET_PACE"])
    time.sleep(pace / 2)
    _write(batch, worker)
    time.sleep(pace / 2)
    hold = folder / f"hold-{worker}"
    if hold.exists():
        how = hold.read_text()
        (folder / f"inside-{worker}").write_text(str(os.getpid()))
        if how == "gil":
            # Blocks until somebody opens the other end, and PyDLL, unlike CDLL, keeps the interpreter's lock meanwhile.
            ctypes.PyDLL(None).open(os.fsencode(folder / "fifo"), os.O_RDONLY)
        while hold.exists():
            time.sleep(0.02)
        (folder / f"outside-{worker}").touch()


def _write(batch: Batch, worker: str) -> None:
    """One transaction of one statement, so that a killed process leaves a whole batch or nothing of it."""
    global _ledger
    if _ledger is None or _ledger.closed:
        _ledger = psycopg.connect(os.environ["FLEET_LEDGER"], autocommit=True)
    _ledger.execute(
        "INSERT INTO ledger (id, token, batch_id, worker) SELECT unnest(%s::int[]), %s, %s, %s",
        ([row["id"] for row in batch], batch.fencing_token, batch.batch_id, worker),
    )
