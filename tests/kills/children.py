"""Handlers that run in a child process, and note beside themselves what they saw there. `FOLDER` is told by the
environment."""

from __future__ import annotations

import os
import time
from pathlib import Path

from poller import Batch
from poller.errors import LeaseLost

FOLDER = "CHILDREN_FOLDER"


def note(name: str, text: object = "") -> None:
    path = Path(os.environ[FOLDER]) / name
    path.with_suffix(".new").write_text(str(text))
    path.with_suffix(".new").rename(path)


def fine(batch: Batch) -> None:
    note("pid", os.getpid())
    batch.check()
    assert not batch.lost.is_set()
    note("remaining", batch.remaining())
    note("key", batch.key(batch.rows[0]))


def hangs(batch: Batch) -> None:
    """Says when it learns that the lease is lost, and ignores it."""
    note("pid", os.getpid())
    batch.lost.wait(60)
    note("lost", batch.lost.is_set())
    while batch.remaining() > 0:
        time.sleep(0.005)
    try:
        batch.check()
    except LeaseLost:
        note("refused")
    time.sleep(60)
    note("survived")


def hangs_without_a_look(batch: Batch) -> None:
    note("pid", os.getpid())
    time.sleep(60)
    note("survived")


def dies(batch: Batch) -> None:
    os._exit(7)


def fails(batch: Batch) -> None:
    raise ValueError(f"{len(batch)} rows are too many")
