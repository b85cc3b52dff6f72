"""A handler whose module takes longer to import than its poller gives a call, in the handler's process only."""

from __future__ import annotations

import multiprocessing
import time

from poller import Batch
from tests.resilience.kills import children

SECONDS = 2.0

if multiprocessing.parent_process() is not None:
    time.sleep(SECONDS)


def fine(batch: Batch) -> None:
    children.fine(batch)
