"""A program that delivers a table from its beginning, and reports its memory and what a row cost on the way."""

from __future__ import annotations

import itertools
import json
import logging
import sys
import time
from pathlib import Path
from typing import Any

from poller import Batch, Poller
from poller.runtime import collect_less
from poller.sources import SqlSource
from poller.stores import BlobStore

PARTS = 10
"""Into so many parts a drain is cut, to show what a row costs the deeper it lies."""


def memory(key: str) -> float:
    """`VmRSS` (now) or `VmHWM` (the most so far) of this process, in MB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"/proc/self/status does not say {key}")


def main() -> None:
    asked: dict[str, Any] = json.loads(sys.argv[1])
    logging.disable(logging.CRITICAL)
    collect_less()
    source = SqlSource(asked["url"], table=asked["table"], cursor_column="updated_at", pk_columns=["id"])
    store = BlobStore.from_connection_string(asked["storage"], asked["container"])
    poller = Poller(
        asked["name"], source=source, store=store, app_name="growth", observers=(), batch_size=asked["batch"],
        **asked.get("options", {}),
    )  # fmt: skip
    wait, most = asked.get("wait", 0.0), asked["rows"]
    rows = 0
    marks: list[tuple[int, float, float]] = []

    def take(batch: Batch) -> None:
        nonlocal rows
        if wait:
            time.sleep(wait)
        rows += len(batch)
        if not marks or rows >= most * len(marks) // PARTS:
            marks.append((rows, time.perf_counter(), time.process_time()))

    before = memory("VmRSS")
    until = time.monotonic() + asked.get("seconds", 3600.0)
    while time.monotonic() < until:
        result = poller.tick(take)
        if result.outcome == "idle":
            break
        if result.outcome != "delivered":
            raise RuntimeError(f"the tick was {result.outcome}: {result.error}")
    parts = list(itertools.pairwise(marks))
    report = {
        "rows": rows,
        "before_mb": round(before, 1),
        "peak_mb": round(memory("VmHWM"), 1),
        "wall_us": [round(1e6 * (b[1] - a[1]) / (b[0] - a[0]), 3) for a, b in parts],
        "cpu_us": [round(1e6 * (b[2] - a[2]) / (b[0] - a[0]), 3) for a, b in parts],
    }
    print(json.dumps(report))
    poller.close()


if __name__ == "__main__":
    main()
