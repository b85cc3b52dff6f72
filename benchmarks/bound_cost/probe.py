"""The writers of this bench, a separate program: a probe whose commits are timed, and other load.

The probe inserts one row per transaction, and prints for each the moments before it was sent and when its commit had
returned, by the clock that all processes of a machine share. Loads: `idle`: none. `busy`: short transactions, some
hundred a second. `late`: eight writers whose transactions stay open for a random 0 to 2 s.
"""

from __future__ import annotations

import itertools
import json
import sys
import threading
import time
from dataclasses import replace

from benchmarks.peers.writers import PlainMysql, PlainPostgres
from benchmarks.torture.plan import Plan
from benchmarks.torture.tables import family

LOADS = {"idle": (0, 0.0), "busy": (4, 0.01), "late": (8, 2.0)}
"""Writers, and how long at most their transactions stay open."""
PAUSE = 0.05
"""Seconds between two commits of the probe, on average."""


def main() -> None:
    asked = json.loads(sys.argv[1])
    writers, longest = LOADS[asked["load"]]
    plan = Plan(
        asked["url"], writers=writers, seconds=asked["seconds"], longest=longest, features=(), seed=asked["seed"]
    )
    until = time.monotonic() + plan.seconds
    kind = PlainPostgres if family(plan.url) == "postgresql" else PlainMysql
    numbers = itertools.count(1)
    loads = [kind(plan, next(numbers), until, []) for _ in range(writers)]
    threads = [threading.Thread(target=writer.loop) for writer in loads]
    for thread in threads:
        thread.start()
    probe = kind(replace(plan, writers=1), 0, until, [])
    probe.connection = probe.connect()
    committed: dict[str, tuple[float, float]] = {}
    while time.monotonic() < until or not committed:
        time.sleep(probe.random.uniform(0, 2 * PAUSE))
        identity = next(probe.ids)
        sent = time.monotonic()
        probe.run(f"insert into torture (id, updated_at) values ({identity}, {probe.stamp('now')})")
        committed[identity] = sent, time.monotonic()
    for thread in threads:
        thread.join()
    print(json.dumps({"committed": committed, "load_transactions": sum(writer.written for writer in loads)}))


if __name__ == "__main__":
    main()
