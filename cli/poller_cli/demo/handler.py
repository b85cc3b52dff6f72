"""The handler of the show: writes its rows to its worker's file, and stops in mid-batch when asked to."""

from __future__ import annotations

import os
import time
from pathlib import Path

from poller.handler.batch import Batch
from poller_cli.demo.scene import Scene, key_of

_PACE = 0.04
"""Seconds per batch: work that takes no time would give the other worker no chance to compete."""
_HELD_AT_MOST = 30.0


def record(batch: Batch) -> None:
    """Record half of the batch's rows, stop if asked to, and record the other half."""
    scene = Scene(Path(os.environ["POLLER_DEMO_FOLDER"]))
    lines = [f"{key_of(dict(row))}\t{batch.batch_id}\t{batch.fencing_token}\n" for row in batch]
    half = len(lines) // 2
    with scene.deliveries(os.environ["POLLER_DEMO_WORKER"]).open("a", encoding="utf-8") as out:
        out.writelines(lines[:half])
        out.flush()
        if scene.hold.exists() and half > 0:
            scene.held.write_text(f"{os.getpid()} {batch.batch_id} {batch.fencing_token}", encoding="utf-8")
            time.sleep(_HELD_AT_MOST)
        time.sleep(_PACE)
        out.writelines(lines[half:])
