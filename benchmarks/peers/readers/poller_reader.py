"""poller: `Poller.tick` over `SqlSource` and `BlobStore`."""

from __future__ import annotations

import logging
from importlib.metadata import version

from benchmarks.peers.readers import loop
from poller import Batch, Poller
from poller.sources import SqlSource
from poller.stores import BlobStore

logging.disable(logging.CRITICAL)
plan = loop.plan()
arrived: list[int] = []
source = SqlSource(plan["url"], table="torture", cursor_column="updated_at", pk_columns=["id"], **plan["settings"])
poller = Poller(
    "bench",
    source=source,
    store=BlobStore.from_connection_string(plan["storage"], container=plan["container"]),
    app_name="bench",
    observers=(),
)


def take(batch: Batch) -> None:
    arrived.extend(int(row["id"]) for row in batch)


def poll() -> list[int]:
    arrived.clear()
    poller.tick(take)
    return list(arrived)


loop.run(poll, {}, version=version("poller"))
