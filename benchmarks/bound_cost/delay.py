"""From commit to delivery: a poller over a store in memory, polled every so often, under one bound and one load."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import Any

from benchmarks.torture import tables
from poller import Batch, Poller
from poller.sources import SqlSource
from poller.stores import MemoryStore
from tests.support.bounds import reading_as
from tests.support.services import REPOSITORY

POLL = 0.01
"""Seconds between the starts of two ticks, by default."""
LATE = 15.0
"""Seconds for which what is missing is waited for."""


@dataclass(frozen=True)
class Way:
    """A kind of bound, and `settle`; empty: as it is by itself."""

    bound: str
    settle: str = ""

    def keys(self, url: str) -> dict[str, Any]:
        """As keywords of a source of the database at `url`."""
        reads, bound = reading_as(self.bound, url)
        return {"url": reads, "bound": bound, **({"settle": self.settle} if self.settle else {})}


SETTLES = ("0s", "50ms", "1s")
WAYS = {
    "postgresql": [
        Way("none"),
        *(Way(bound, settle) for bound in ("exact", "observed") for settle in SETTLES),
        Way("heuristic", "3s"),
    ],
    "mysql": [Way("none"), *(Way("exact", settle) for settle in SETTLES), Way("heuristic", "3s")],
}


@dataclass
class Delays:
    """ms: from the return of each of the probe's commits to the handler's call with its row. in_all_ms: the same since
    its row was sent, before its timestamp was taken: no `settle` is longer. missing: rows of the probe that never came:
    without a bound, those that a later commit overtook. load: transactions of the others."""

    ms: list[float] = field(default_factory=list)
    in_all_ms: list[float] = field(default_factory=list)
    missing: int = 0
    load: int = 0

    def add(self, more: Delays) -> None:
        self.ms += more.ms
        self.in_all_ms += more.in_all_ms
        self.missing += more.missing
        self.load += more.load

    def summary(self) -> dict[str, Any]:
        ordered = sorted(self.ms)
        return {
            "commits": len(ordered),
            "missing": self.missing,
            "load_transactions": self.load,
            "median_ms": round(statistics.median(ordered), 1),
            "p90_ms": round(ordered[len(ordered) * 9 // 10], 1),
        }


def delays(url: str, way: Way, load: str, seconds: float, seed: int, every: float = POLL) -> Delays:
    """Write under this load, and poll under this bound, `every` so many seconds."""
    tables.make(url, "timestamp+pk")
    source = SqlSource(table="torture", cursor_column="updated_at", pk_columns=["id"], **way.keys(url))
    poller = Poller("bench", source=source, store=MemoryStore(), app_name="bench", batch_size=1000, observers=())
    arrived: dict[str, float] = {}

    def take(batch: Batch) -> None:
        now = time.monotonic()
        for row in batch:
            arrived.setdefault(str(row["id"]), now)

    def poll() -> None:
        began = time.monotonic()
        poller.tick(take)
        time.sleep(max(0.0, every - (time.monotonic() - began)))

    poll()
    asked = {"url": url, "load": load, "seconds": seconds, "seed": seed}
    writing = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.bound_cost.probe", json.dumps(asked)],
        stdout=subprocess.PIPE, text=True, cwd=REPOSITORY,
    )  # fmt: skip
    try:
        while writing.poll() is None:
            poll()
        report = json.loads(writing.communicate()[0])
        until = time.monotonic() + LATE
        while not arrived.keys() >= report["committed"].keys() and time.monotonic() < until:
            poll()
    finally:
        writing.kill()
        writing.wait()
        poller.close()
    committed = report["committed"]
    came = [(arrived[key], sent, returned) for key, (sent, returned) in committed.items() if key in arrived]
    return Delays(
        ms=[1000 * (at - returned) for at, _, returned in came],
        in_all_ms=[1000 * (at - sent) for at, sent, _ in came],
        missing=len(committed) - len(came),
        load=report["load_transactions"],
    )
