"""`python -m benchmarks.profile`: one JSON line per kind of tick."""

from __future__ import annotations

import argparse
import json
import logging
import statistics
import sys
from collections.abc import Callable
from typing import Any

from azure.storage.blob import ContainerClient

from benchmarks.latency.ticks import Ours, prepare
from benchmarks.profile.spent import GROUPS, spent
from benchmarks.throughput.table import fill
from poller import Poller
from poller.model.cursor import Cursor
from poller.runtime import collect_less
from poller.sources import SqlSource
from poller.stores import BlobStore
from tests.support.azurite import Azurite
from tests.support.postgres import PostgresServer

IDLE, PAGE, LANES = "an idle tick", "a page of 1,000", "a batch of 100, 16 lanes"


def line(kind: str, call: Callable[[], object], per: int, *, rounds: int, threads: bool = False) -> dict[str, Any]:
    """Several profiles of the call; `per`: how many ticks or batches it is. Medians of one, in milliseconds."""
    call()
    found = [spent(call, threads=threads) for _ in range(rounds)]
    return {
        "bench": "profile",
        "kind": kind,
        "ms": {name: round(statistics.median(one["ms"][name] for one in found) / per, 4) for name in GROUPS},
        "collector_ms": round(statistics.median(one["collector_ms"] for one in found) / per, 4),
    }


def _pages(url: str, pages: int, *, rounds: int) -> dict[str, Any]:
    """Pages of 1,000 rows, read by the source alone, below one bound."""
    fill(url, "pages_of_1000", 1_000 * pages)
    source = SqlSource(url, table="pages_of_1000", cursor_column="updated_at", pk_columns=["id"])

    def walk() -> None:
        after: Cursor | None = None
        for _ in range(pages):
            after = source.next_page(after, 1_000).cursors[-1]

    try:
        return line(PAGE, walk, pages, rounds=rounds)
    finally:
        source.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profile", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ticks", type=int, default=50, help="of each round")
    parser.add_argument("--batches", type=int, default=20, help="of each round")
    asked = parser.parse_args()
    logging.disable(logging.CRITICAL)
    collect_less()

    def show(found: dict[str, Any]) -> None:
        print(json.dumps(found), flush=True)

    with Azurite.start(memory=True) as azurite, PostgresServer.start({"max_prepared_transactions": "0"}) as postgres:
        container, storage = azurite.container_name(), azurite.connection_string
        ContainerClient.from_connection_string(storage, container).create_container()
        url = postgres.new_database()
        prepare(url)
        ours = Ours(url, storage, container, "idle")
        show(line(IDLE, lambda: [ours.tick() for _ in range(asked.ticks)], asked.ticks, rounds=asked.rounds))
        ours.close()
        show(_pages(url, max(2, asked.batches), rounds=asked.rounds))
        for batch, batches in ((100, asked.batches), (1_000, asked.batches), (10_000, max(2, asked.batches // 4))):
            table = f"rows_{batch}"
            fill(url, table, batch * (batches * (asked.rounds + 1) + 1))
            poller = Poller(
                f"of-{batch}",
                source=SqlSource(url, table=table, cursor_column="updated_at", pk_columns=["id"]),
                store=BlobStore.from_connection_string(storage, container),
                app_name="profile", observers=(), batch_size=batch, max_batches_per_tick=batches,
                read_ahead=0,  # all of it on one thread, which cProfile sees
            )  # fmt: skip
            show(line(f"a batch of {batch:,}", lambda: poller.tick(lambda _: None), batches, rounds=asked.rounds))  # noqa: B023
            poller.close()
        if sys.version_info < (3, 12):  # later there is one profiler for all threads, which mixes them up
            batches = 4 * asked.batches
            fill(url, "rows_of_lanes", 100 * (batches * (asked.rounds + 1) + 1))
            poller = Poller(
                "of-lanes",
                source=SqlSource(url, table="rows_of_lanes", cursor_column="updated_at", pk_columns=["id"]),
                store=BlobStore.from_connection_string(storage, container),
                app_name="profile", observers=(), batch_size=100, max_batches_per_tick=batches,
                concurrency=16, ordering_key=("customer",),
            )  # fmt: skip
            show(line(LANES, lambda: poller.tick(lambda _: None), batches, rounds=asked.rounds, threads=True))
            poller.close()


if __name__ == "__main__":
    main()
