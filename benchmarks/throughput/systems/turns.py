"""What every program has in common. This file imports nothing but the standard library.

A program is started with one JSON object as its argument, prints one line when it is ready, and then takes turns: each
line of its standard input asks for some rows in batches of some size, each line that it prints says how long that
took. A handler does as little as can be: it counts the rows and looks at the first and the last id of each batch, so
that what is skipped, repeated or out of order shows.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


def asked() -> dict[str, Any]:
    """What the program was started with."""
    found: dict[str, Any] = json.loads(sys.argv[1])
    return found


@dataclass
class Tally:
    """What one table's rows, in batches of one size, came to so far.

    Attributes:
        rows: delivered, in all turns. last: the last id. misplaced: batches that did not begin behind the last id, or
            did not hold as many rows as lie between their first and last id.
    """

    rows: int = 0
    batches: int = 0
    last: int = 0
    misplaced: int = 0
    seen: dict[Any, int] = field(default_factory=dict)

    def count(self, first: int, last: int, rows: int) -> None:
        """One batch whose ids follow each other."""
        if first != self.last + 1 or last - first + 1 != rows:
            self.misplaced += 1
        self.rows += rows
        self.batches += 1
        self.last = last


def serve(turn: Callable[[str, int, int, Tally], float | None], **about: Any) -> None:
    """Take turns until the standard input ends.

    Args:
        turn: of a table, a batch size and a number of rows: deliver them, and count them. It returns the seconds that
            do not count, if any.
        about: what the program says of itself, such as versions.
    """
    tallies: dict[tuple[str, int], Tally] = {}
    print(json.dumps({"python": sys.version.split()[0], **about}), flush=True)
    for line in sys.stdin:
        wanted = json.loads(line)
        table, batch, rows = wanted["table"], wanted["batch"], wanted["rows"]
        tally = tallies.setdefault((table, batch), Tally())
        before, batches = tally.rows, tally.batches
        began, used = time.perf_counter(), time.process_time()
        spared = turn(table, batch, rows, tally) or 0.0
        took, cpu = time.perf_counter() - began - spared, time.process_time() - used
        report = {
            "rows": tally.rows - before, "batches": tally.batches - batches, "misplaced": tally.misplaced,
            "seconds": took, "cpu": cpu,
        }  # fmt: skip
        print(json.dumps(report), flush=True)
