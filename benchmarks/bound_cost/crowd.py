"""Many pollers of one server: how old is the bound that each of them reads below, under constant writes.

In one process the pollers are threads; across processes each is a separate program: `python -m
benchmarks.bound_cost.crowd '{"url": ...}'` is one of them, and prints what it saw as one JSON line.
"""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from benchmarks.torture import tables
from poller.sources import SqlSource
from tests.support.services import REPOSITORY

WRITES_EVERY = 0.02


@dataclass
class Seen:
    """ages: of the bound, in seconds, by the clock that client and server share, at the moment it was handed over.
    took: seconds that this cost. stale: how often it had not moved since the call before. unknown: how often there was
    none. The first call of each poller, which connects, is left out of the last three."""

    ages: list[float] = field(default_factory=list)
    took: list[float] = field(default_factory=list)
    stale: int = 0
    unknown: int = 0

    def add(self, more: Seen) -> None:
        self.ages += more.ages
        self.took += more.took
        self.stale += more.stale
        self.unknown += more.unknown

    def summary(self) -> dict[str, Any]:
        calls = max(1, len(self.ages) + self.unknown)
        return {
            "bounds": calls,
            "stale_percent": round(100 * (self.stale + self.unknown) / calls, 1),
            "unknown": self.unknown,
            "age_p50_s": _at(self.ages, 0.5),
            "age_p99_s": _at(self.ages, 0.99),
            "took_p50_ms": round(1000 * (_at(self.took, 0.5) or 0), 1),
            "took_p99_ms": round(1000 * (_at(self.took, 0.99) or 0), 1),
        }


def poll(url: str, seconds: float, every: float, seed: int) -> Seen:
    """One poller's bounds; its polls come `every` so many seconds, more or less."""
    chance, seen = random.Random(seed), Seen()
    source = SqlSource(url, table="torture", cursor_column="updated_at", pk_columns=["id"], cursor_time_zone="UTC")
    try:
        time.sleep(chance.uniform(0, every))
        until, last, first = time.monotonic() + seconds, None, True
        while time.monotonic() < until:
            began = time.monotonic()
            bound = source.bound()
            if bound.at is not None:
                if not first:
                    seen.took.append(time.monotonic() - began)
                seen.ages.append((datetime.now(UTC) - bound.at).total_seconds())
                seen.stale += bound.at == last
                last = bound.at
            elif not first:
                seen.unknown += 1
            first = False
            time.sleep(every * chance.uniform(0.8, 1.2))
    finally:
        source.close()
    return seen


def crowd(url: str, *, pollers: int, processes: bool, seconds: float, every: float) -> dict[str, Any]:
    """So many pollers, in this process or each in its own."""
    tables.make(url, "timestamp+pk")
    with _written_all_the_time(url):
        found = (_programs if processes else _threads)(url, pollers, seconds, every)
    return {"pollers": pollers, "processes": pollers if processes else 1, "every_s": every, **found.summary()}


def _threads(url: str, pollers: int, seconds: float, every: float) -> Seen:
    seen: list[Seen] = []
    threads = [
        threading.Thread(target=lambda number=number: seen.append(poll(url, seconds, every, number)))
        for number in range(pollers)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return _sum(seen)


def _programs(url: str, pollers: int, seconds: float, every: float) -> Seen:
    asked = [{"url": url, "seconds": seconds, "every": every, "seed": number} for number in range(pollers)]
    programs = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.bound_cost.crowd", json.dumps(one)],
            stdout=subprocess.PIPE, text=True, cwd=REPOSITORY,
        )
        for one in asked
    ]  # fmt: skip
    try:
        return _sum([Seen(**json.loads(program.communicate()[0])) for program in programs])
    finally:
        for program in programs:
            program.kill()
            program.wait()


@contextlib.contextmanager
def _written_all_the_time(url: str) -> Iterator[None]:
    """One writer, so that the server's sessions are never all at rest."""
    done = threading.Event()

    def write() -> None:
        with sa.create_engine(url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT").connect() as connection:
            number = 0
            while not done.wait(WRITES_EVERY):
                number += 1
                connection.exec_driver_sql(f"insert into torture (id) values ({number})")

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _sum(parts: list[Seen]) -> Seen:
    whole = Seen()
    for part in parts:
        whole.add(part)
    return whole


def _at(values: list[float], share: float) -> float | None:
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, int(len(ordered) * share))], 3) if ordered else None


if __name__ == "__main__":
    print(json.dumps(asdict(poll(**json.loads(sys.argv[1])))))
