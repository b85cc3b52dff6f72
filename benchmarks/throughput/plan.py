"""Which systems are compared, on which tables, in batches of which size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.throughput.rounds import System, Turn

PLAIN, JSON = "orders", "orders_json"
WAIT = 0.02
"""Seconds that a call of the handler waits in the bench of lanes."""
RAW = "by hand"
RAW_RUN = "by hand, collector as in poller run"
READ = "by hand, no state"
ADBC = "by hand, ADBC to arrow, no state"
FLOOR = "by hand, read ahead"
PEER = "azure-functions-db"
EACH, GROUPED, TURN_BY_TURN, LIBRARY = "each", "grouped", "read_ahead=0", "each, as a library"
SPEED, GROUPED_SPEED = "each, speed", "grouped, speed"
ARROW, ARROW_GROUPED = "arrow", "arrow, grouped"
TEXT, PROCESS = "each, json=text", "isolation=process"
ONE_LANE, LANES = "concurrency=1", "concurrency=16"
_RUN = {"collect_less": True}
"""Python's collector as `poller run` and the Functions entry set it; a library leaves it alone."""
_SLOW = {**_RUN, "without": ["orjson"]}
_GROUPED = {"options": {"max_uncommitted": 4}}
_ARROW = {**_RUN, "source": {"format": "arrow", "json": "text"}}
_LANES = {"options": {"concurrency": 16, "ordering_key": ["customer"]}}

SYSTEMS = {
    one.name: one
    for one in (
        System(RAW, "raw"),
        System(RAW_RUN, "raw", {"collect_less": True}),
        System(READ, "raw", {"state": False}),
        System(FLOOR, "raw", {"ahead": True}),
        System(ADBC, "adbc", needs="adbc_driver_postgresql"),
        System(EACH, "ours", _SLOW),
        System(GROUPED, "ours", {**_SLOW, **_GROUPED}),
        System(TURN_BY_TURN, "ours", {**_SLOW, "options": {"read_ahead": 0}}),
        System(LIBRARY, "ours", {"without": ["orjson"]}),
        System(SPEED, "ours", _RUN),
        System(GROUPED_SPEED, "ours", {**_RUN, **_GROUPED}),
        System(ARROW, "ours", _ARROW),
        System(ARROW_GROUPED, "ours", {**_ARROW, **_GROUPED}),
        System(TEXT, "ours", {**_SLOW, "source": {"json": "text"}}),
        System(PROCESS, "ours", {**_SLOW, "options": {"isolation": "process"}}),
        System(PEER, "azure_functions_db", peer=True),
        System(ONE_LANE, "ours", {**_SLOW, **_GROUPED, "wait": WAIT}),
        System(LANES, "ours", {**_SLOW, **_LANES, "wait": WAIT}),
    )
}


@dataclass(frozen=True)
class Part:
    """Systems that are compared with each other."""

    turn: Turn
    systems: Sequence[str]


def parts(scale: int) -> list[Part]:
    """Everything; `scale`: by how much a turn is smaller than that of a whole run."""

    def part(table: str, batch: int, batches: int, *systems: str) -> Part:
        return Part(Turn(table, batch, batch * max(2, batches // scale)), systems)

    return [
        part(PLAIN, 100, 100, RAW, FLOOR, EACH, GROUPED, TURN_BY_TURN, LIBRARY, PROCESS, PEER),
        part(PLAIN, 1_000, 50, RAW, FLOOR, EACH, GROUPED, TURN_BY_TURN, LIBRARY, PROCESS, ARROW, PEER),
        part(PLAIN, 10_000, 10, RAW, RAW_RUN, READ, ADBC, FLOOR, EACH, GROUPED, TURN_BY_TURN, LIBRARY, ARROW, PEER),
        part(JSON, 100, 100, RAW, EACH, GROUPED, SPEED, GROUPED_SPEED, PEER),
        part(JSON, 1_000, 20, RAW, FLOOR, EACH, TEXT, SPEED, GROUPED_SPEED, LIBRARY, ARROW, PEER),
        part(JSON, 10_000, 6, RAW, RAW_RUN, READ, ADBC, FLOOR, EACH, TEXT, SPEED, GROUPED_SPEED, LIBRARY, ARROW, PEER),
    ]


def lanes(scale: int) -> list[Part]:
    """Each with its own number of batches: what waits 16 times as long is asked for a 16th."""
    return [
        Part(Turn(PLAIN, 100, 100 * max(4, 100 // scale)), [ONE_LANE]),
        Part(Turn(PLAIN, 100, 100 * max(32, 1_600 // scale)), [LANES]),
    ]
