"""The handler of the show about a poison row: it cannot handle one flight until it is fixed."""

from __future__ import annotations

import os
import time
from pathlib import Path

from poller.handler.batch import Batch
from poller_cli.demo.poison_scene import PoisonScene
from poller_cli.demo.scene import key_of

_PACE = 0.04
"""Seconds per batch, as real work takes some."""


def record(batch: Batch) -> None:
    """Record the batch's rows, or nothing of it where the poison row is among them and the handler is not fixed."""
    scene = PoisonScene(Path(os.environ["POLLER_DEMO_FOLDER"]))
    poison = "" if scene.fixed.exists() else scene.poison_key()
    lines = []
    for row in batch:
        key = key_of(dict(row))
        if key == poison:
            raise ValueError(f"flight {row['carrier']} {row['flight']}: no such aircraft: {row['tailnum']}")
        lines.append(f"{key}\t{batch.batch_id}\t{batch.fencing_token}\n")
    time.sleep(_PACE)
    with scene.deliveries(os.environ["POLLER_DEMO_WORKER"]).open("a", encoding="utf-8") as out:
        out.writelines(lines)
