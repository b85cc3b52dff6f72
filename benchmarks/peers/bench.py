"""One run: writers in a process, a reader in another, and the judgement here."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.torture import tables
from benchmarks.torture.plan import Plan
from tests.support.services import REPOSITORY

READERS = {
    "poller": "benchmarks.peers.readers.poller_reader",
    "azure-functions-db": "benchmarks.peers.readers.azure_functions_db_reader",
    "dlt": "benchmarks.peers.readers.dlt_reader",
}


@dataclass(frozen=True)
class Setup:
    """Which library polls, and with which settings."""

    peer: str
    settings: dict[str, Any] = field(default_factory=dict)


_LATE = "updated_at < now() - interval '{} second'"
PEERS = [
    Setup("azure-functions-db"),
    Setup("azure-functions-db", {"batch_size": 1000}),
    Setup("azure-functions-db", {"batch_size": 1000, "lease_ttl_seconds": 1}),
    Setup("azure-functions-db", {"batch_size": 1000, "store": "memory"}),
    Setup("azure-functions-db", {"batch_size": 1000, "store": "memory", "where": _LATE.format(1)}),
    Setup("azure-functions-db", {"batch_size": 1000, "store": "memory", "where": _LATE.format(3)}),
    Setup("dlt"),
    Setup("dlt", {"lag": 1}),
    Setup("dlt", {"lag": 3}),
]
OURS = {
    "postgresql": [
        Setup("poller", {"bound": "none"}),
        Setup("poller", {"bound": "delay", "settle": "1s"}),
        Setup("poller", {"bound": "exact"}),
        Setup("poller", {"bound": "strict"}),
    ],
    "mysql": [Setup("poller", {"bound": "none"}), Setup("poller", {"bound": "exact"})],
}


@dataclass(frozen=True)
class Run:
    """Where and how hard.

    Attributes:
        url: of an empty database; storage, container: of blobs, for those who keep their place there.
        pythons: which Python runs which peer; seconds: how long the writers write; longest: how long a transaction
            stays open at most; poll: seconds between two polls; quiet: after the last commit, polled on until nothing
            new has come for so long.
    """

    url: str
    storage: str
    container: str
    pythons: dict[str, str]
    seconds: float = 60.0
    longest: float = 2.0
    poll: float = 0.2
    writers: int = 8
    quiet: float = 12.0
    seed: int = 1


def compare(run: Run, setup: Setup) -> dict[str, Any]:
    """Write, poll, and report which rows were lost or came twice."""
    tables.make(run.url, "timestamp+pk")
    python = run.pythons.get(setup.peer, sys.executable)
    report = {
        "url": run.url,
        "storage": run.storage,
        "container": run.container,
        "poll": run.poll,
        "quiet": run.quiet,
        "settings": setup.settings,
    }
    reader = subprocess.Popen(
        [python, "-m", READERS[setup.peer], json.dumps(report)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY,
    )  # fmt: skip
    try:
        assert reader.stdout is not None
        if reader.stdout.readline().strip() != "ready":
            raise RuntimeError(f"{setup.peer} did not start: see its errors above")
        plan = Plan(run.url, writers=run.writers, seconds=run.seconds, longest=run.longest, features=(), seed=run.seed)
        began = time.monotonic()
        wrote = subprocess.run(
            [sys.executable, "-m", "benchmarks.peers.writers", json.dumps(asdict(plan))],
            stdout=subprocess.PIPE, text=True, check=True, cwd=REPOSITORY,
        )  # fmt: skip
        took = time.monotonic() - began
        answer = reader.communicate(timeout=run.quiet + 240)[0]  # ends its standard input, and waits
    finally:
        reader.kill()
        reader.wait()
    if reader.returncode:
        raise RuntimeError(f"{setup.peer} failed: see its errors above")
    written: dict[str, Any] = json.loads(wrote.stdout)
    return {**judge(setup, json.loads(answer), set(tables.truth(run.url)), took), **written}


def judge(setup: Setup, answered: dict[str, Any], rows: set[int], took: float) -> dict[str, Any]:
    """Keys that never came, and deliveries, while there were writers, of keys that had come before."""
    during = Counter(answered.pop("during"))
    lost = rows - set(during) - set(answered.pop("after"))
    return {
        "peer": setup.peer,
        "settings": setup.settings,
        "rows": len(rows),
        "rows_per_minute": round(60 * len(rows) / took),
        "lost": len(lost),
        "lost_percent": round(100 * len(lost) / max(1, len(rows)), 1),
        "duplicates": during.total() - len(during),
        **answered,
    }
