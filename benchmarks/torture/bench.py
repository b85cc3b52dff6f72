"""One run: writers in a process of their own, a reader in this one, and the judgement."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.torture import tables, writers
from benchmarks.torture.plan import Plan
from benchmarks.torture.readers import Shipped, Version, reader

SETTLES = 15.0
"""How long the reader may go on after the writers have ended, before what is missing counts as lost."""


@dataclass(frozen=True)
class Result:
    """What came of it.

    Attributes:
        rows: keys in the table; delivered: versions delivered; lost: keys whose last version never came.
        duplicates: versions that came again; disorder: versions that came after a later one of their key.
        transactions, refused: of the writers; took_longest: the seconds that one of them took, refused ones and
            waiting included.
        died: threads of the writers that ended with an error, by name.
        done: how often the writers did what; a feature that is not there was not exercised.
        polls: ticks; bounds: how many ticks under which kind; again: full pages below a bound that served before;
            counted: looks at which nothing waited, so that the count took the place of the page.
        settled: seconds until all was delivered after the writers had ended; slowest: the longest tick.
    """

    rows: int
    delivered: int
    lost: int
    duplicates: int
    disorder: int
    transactions: int
    refused: int
    took_longest: float
    died: dict[str, str]
    done: dict[str, int]
    polls: int
    settled: float
    slowest: float
    bounds: dict[str, int]
    again: int
    counted: int

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def torture(plan: Plan, *, restart: bool = True, settles: float = SETTLES) -> Result:
    """Create the table, write, read, compare. `restart`: the reader is restarted in the middle."""
    tables.make(plan.url, plan.kind)
    polled = reader(plan)
    seen: list[Version] = []
    polls, slowest = 0, 0.0

    def poll() -> None:
        nonlocal polls, slowest
        began = time.monotonic()
        seen.extend(polled.poll())
        took = time.monotonic() - began
        polls, slowest = polls + 1, max(slowest, took)
        time.sleep(max(0.0, plan.poll - took))

    try:
        with _burning(plan.burners):
            writing = subprocess.Popen(writers.arguments(plan), stdout=subprocess.PIPE, text=True)
            middle, restarted = time.monotonic() + plan.seconds / 2, not restart
            while writing.poll() is None:
                poll()
                if not restarted and time.monotonic() > middle:
                    polled.restart()
                    restarted = True
            wrote = json.loads(writing.communicate()[0])
        began = time.monotonic()
        truth = tables.truth(plan.url)
        while time.monotonic() - began < settles and not set(truth.items()) <= set(seen):
            poll()
        settled = time.monotonic() - began
        poll()  # what would come again, comes now
    finally:
        polled.close()
    return Result(
        rows=len(truth),
        delivered=len(seen),
        lost=len(set(truth.items()) - set(seen)),
        duplicates=len(seen) - len(set(seen)),
        disorder=_disorder(seen),
        transactions=wrote["transactions"],
        refused=wrote["refused"],
        took_longest=wrote["took_longest"],
        died=wrote["died"],
        done=wrote["done"],
        polls=polls,
        settled=round(settled, 2),
        slowest=round(slowest, 3),
        bounds=polled.bounds if isinstance(polled, Shipped) else {},
        again=polled.again if isinstance(polled, Shipped) else 0,
        counted=polled.counted if isinstance(polled, Shipped) else 0,
    )


def _disorder(seen: list[Version]) -> int:
    newest: dict[int, int] = {}
    late = 0
    for identity, version in seen:
        late += version < newest.get(identity, -1)
        newest[identity] = max(version, newest.get(identity, -1))
    return late


@contextlib.contextmanager
def _burning(many: int) -> Iterator[None]:
    """Processes that eat the processor."""
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(many)]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
