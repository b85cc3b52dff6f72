"""The handler of the workers in these tests: a fenced sink, and rows that it cannot do.

`bad.json` in the folder says which rows; a file `mended` there, that it can do them all. Each call is noted in the
table `calls` as it begins, outside of the sink's transaction, and again as it ends.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import psycopg
import sqlalchemy as sa
from sqlalchemy.engine import make_url

from poller import Batch
from poller.sinks.sql import fenced

_ENDS = 7
"""The exit code of a process that a row ends."""
_made: dict[str, Any] = {}


def handle(batch: Batch) -> dict[str, Any]:
    """Apply the rows. A row that fails is named where `reports` is set, and else the whole call fails with it."""
    folder = Path(os.environ["FLEET_FOLDER"])
    bad: dict[str, Any] = {"fails": [], "exits": [], "hangs": [], "reports": False, "hangs_in_thread": False}
    if not (folder / "mended").exists():
        bad = json.loads((folder / "bad.json").read_text())
    place = _began(batch)
    if bad["hangs_in_thread"] and any(row["id"] in bad["hangs"] for row in batch):
        batch.lost.wait(60)  # before the fence: a successor would wait for a transaction that stands still
        raise TimeoutError("it hung")
    named = []
    with _target().begin() as connection, fenced(connection, batch) as fresh:
        done = []
        for row in fresh:
            if row["id"] in bad["exits"]:
                os._exit(_ENDS)
            if row["id"] in bad["hangs"]:
                time.sleep(60)
            if row["id"] not in bad["fails"]:
                done.append({"id": row["id"]})
            elif bad["reports"]:
                batch.fail(row, ValueError("no such product"))
                named.append({"itemIdentifier": batch.key(row)})
            else:
                raise ValueError("no such product")
        if done:
            connection.execute(sa.text("INSERT INTO arrived (id) VALUES (:id)"), done)
    _ended(place)
    return {"batchItemFailures": named}


def _target() -> sa.Engine:
    if "target" not in _made:
        url = make_url(os.environ["FLEET_LEDGER"]).set(drivername="postgresql+psycopg")
        _made["target"] = sa.create_engine(url, pool_size=1, use_insertmanyvalues=True)
    made: sa.Engine = _made["target"]
    return made


def _calls() -> psycopg.Connection[tuple[Any, ...]]:
    if "calls" not in _made or _made["calls"].closed:
        _made["calls"] = psycopg.connect(os.environ["FLEET_LEDGER"], autocommit=True)
    made: psycopg.Connection[tuple[Any, ...]] = _made["calls"]
    return made


def _began(batch: Batch) -> int:
    found = (
        _calls()
        .execute(
            "INSERT INTO calls (token, batch_id, retry, replay, ids) VALUES (%s, %s, %s, %s, %s) RETURNING place",
            (
                batch.fencing_token,
                batch.batch_id,
                batch.retry,
                batch.replay,
                [row["id"] for row in batch],
            ),
        )
        .fetchone()
    )
    assert found is not None
    return int(found[0])


def _ended(place: int) -> None:
    _calls().execute("UPDATE calls SET ended = clock_timestamp() WHERE place = %s", (place,))
