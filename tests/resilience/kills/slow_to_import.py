"""A handler whose module is imported, in the handler's process, until its test says that this took long enough."""

from __future__ import annotations

import multiprocessing
import os
import time
from pathlib import Path

from poller import Batch
from tests.resilience.kills import children

BEGUN, LONG_ENOUGH = "import begun", "import long enough"
"""Files in the children's folder."""

if multiprocessing.parent_process() is not None:
    _folder = Path(os.environ[children.FOLDER])
    (_folder / BEGUN).touch()
    while not (_folder / LONG_ENOUGH).exists():
        time.sleep(0.01)


def fine(batch: Batch) -> None:
    children.fine(batch)
