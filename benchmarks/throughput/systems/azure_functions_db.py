"""azure-functions-db as its documentation has it: `PollTrigger` over `SqlAlchemySource` and `BlobCheckpointStore`.

One run delivers all batches of a turn. Its store lets nobody take the lease again for 5 s after a run: that wait does
not count.
"""

from __future__ import annotations

import logging
import time
from importlib.metadata import version
from typing import Any

from azure.storage.blob import ContainerClient
from azure_functions_db import BlobCheckpointStore, PollTrigger, SqlAlchemySource

from benchmarks.throughput.systems import turns

logging.disable(logging.CRITICAL)
plan = turns.asked()
triggers: dict[tuple[str, int], PollTrigger] = {}


def trigger(table: str, batch: int, rows: int) -> PollTrigger:
    found = triggers.get((table, batch))
    if found is None:
        source = SqlAlchemySource(url=plan["url"], table=table, cursor_column="updated_at", pk_columns=["id"])
        container = ContainerClient.from_connection_string(plan["storage"], plan["container"])
        found = triggers[table, batch] = PollTrigger(
            name=f"{plan['name']}-{table}-{batch}",
            source=source,
            checkpoint_store=BlobCheckpointStore(
                container_client=container, source_fingerprint=source.source_descriptor.fingerprint
            ),
            batch_size=batch,
            max_batches_per_tick=rows // batch,
            lease_ttl_seconds=plan.get("ttl", 120),
        )
    return found


def turn(table: str, batch: int, rows: int, tally: turns.Tally) -> float:
    def take(events: list[Any]) -> None:
        tally.count(int(events[0].pk["id"]), int(events[-1].pk["id"]), len(events))

    waited = 0.0
    while True:
        began = time.perf_counter()
        if trigger(table, batch, rows).run(timer=None, handler=take):
            return waited
        time.sleep(0.05)
        waited += time.perf_counter() - began


turns.serve(turn, version=version("azure-functions-db"))
