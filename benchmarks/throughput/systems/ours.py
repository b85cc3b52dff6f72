"""poller: `Poller.tick` over `SqlSource` and `BlobStore`, with the options that are asked for."""

from __future__ import annotations

import logging
import sys
import threading
import time
from importlib.metadata import version
from typing import Any

from benchmarks.throughput.systems import turns

plan: dict[str, Any] = turns.asked() if __name__ == "__main__" else {}  # in a child of isolation = "process"
for name in plan.get("without", ()):
    sys.modules[name] = None  # type: ignore[assignment]  # as where an extra is not installed

from benchmarks.throughput.systems.handlers import nothing  # noqa: E402
from poller import Batch, Poller  # noqa: E402
from poller.runtime import collect_less  # noqa: E402
from poller.sources import SqlSource  # noqa: E402
from poller.stores import BlobStore  # noqa: E402

logging.disable(logging.CRITICAL)
if plan.get("collect_less"):
    collect_less()
options: dict[str, Any] = plan.get("options", {})
source_options: dict[str, Any] = plan.get("source", {})
pollers: dict[tuple[str, int, int], Poller] = {}


def poller(table: str, batch: int, rows: int) -> Poller:
    """One for each table and batch size, so that each starts at the beginning of its table; a tick delivers `rows`."""
    found = pollers.get((table, batch, rows))
    if found is None:
        source = SqlSource(
            plan["url"], table=table, cursor_column="updated_at", pk_columns=["id"], **source_options
        )  # fmt: skip
        store = BlobStore.from_connection_string(plan["storage"], container=plan["container"])
        found = pollers[table, batch, rows] = Poller(
            f"{plan['name']}-{table}-{batch}".replace("_", "-"), source=source, store=store, app_name="bench",
            observers=(), batch_size=batch, max_batches_per_tick=rows // batch, **options,
        )  # fmt: skip
    return found


def in_order(tally: turns.Tally) -> Any:
    def take(batch: Batch) -> None:
        if arrow:
            ids = batch.table["id"]  # type: ignore[attr-defined, unused-ignore]
            tally.count(ids[0].as_py(), ids[-1].as_py(), len(ids))
        else:
            tally.count(batch.rows[0]["id"], batch.rows[-1]["id"], len(batch.rows))

    return take


def in_lanes(tally: turns.Tally) -> Any:
    """Waits as long as a slow service does. Rows of one customer must come in order; whatever else comes as it can."""
    lock, wait = threading.Lock(), plan["wait"]

    def take(batch: Batch) -> None:
        time.sleep(wait)
        with lock:
            tally.batches += 1
            tally.rows += len(batch.rows)
            for row in batch.rows:
                customer, row_id = row["customer"], row["id"]
                if tally.seen.get(customer, 0) >= row_id:
                    tally.misplaced += 1
                tally.seen[customer] = row_id

    return take


def turn(table: str, batch: int, rows: int, tally: turns.Tally) -> None:
    handler = nothing if elsewhere else (in_lanes if "wait" in plan else in_order)(tally)
    result = poller(table, batch, rows).tick(handler)
    if elsewhere:  # what its child saw is not known here
        tally.rows += result.rows
        tally.batches += result.batches
    if result.outcome != "delivered":
        raise RuntimeError(f"the tick was {result.outcome}: {result.error}")


arrow = source_options.get("format") == "arrow"
elsewhere = options.get("isolation") == "process"
if __name__ == "__main__":
    turns.serve(turn, version=version("poller"))
