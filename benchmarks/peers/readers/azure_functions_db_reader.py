"""azure-functions-db as its documentation has it: `PollTrigger` over `SqlAlchemySource` and `BlobCheckpointStore`.

Its blob store lets nobody take a lease, not even one that was given back, before a grace has passed: half of
`lease_ttl_seconds`, at most 5 s. Polls within it read nothing, which also hides how many rows faster polls would lose.
`"store": "memory"` is the smallest `StateStore` that its documentation allows, without a grace.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from azure.storage.blob import ContainerClient
from azure_functions_db import (
    BlobCheckpointStore,
    PollTrigger,
    SqlAlchemySource,
)

from benchmarks.peers.readers import loop

logging.disable(logging.CRITICAL)
plan = loop.plan()
settings = dict(plan["settings"])
arrived: list[int] = []
report = {"reads": 0}


class Source(SqlAlchemySource):
    """Counts how often it is read."""

    def fetch(self, cursor: Any, batch_size: int) -> Sequence[dict[str, object]]:
        report["reads"] += 1
        rows: Sequence[dict[str, object]] = super().fetch(cursor, batch_size)
        return rows


class Memory:
    """A `StateStore` for one process."""

    checkpoint: dict[str, object] = {}  # noqa: RUF012

    def acquire_lease(self, poller_name: str, ttl_seconds: int) -> str:  # noqa: ARG002
        return "mine:1"

    def renew_lease(self, poller_name: str, lease_id: str, ttl_seconds: int) -> None: ...

    def release_lease(self, poller_name: str, lease_id: str) -> None: ...

    def load_checkpoint(self, poller_name: str) -> dict[str, object]:  # noqa: ARG002
        return self.checkpoint

    def commit_checkpoint(self, poller_name: str, checkpoint: dict[str, object], lease_id: str) -> None:  # noqa: ARG002
        self.checkpoint = checkpoint


source = Source(
    url=plan["url"], table="torture", cursor_column="updated_at", pk_columns=["id"], where=settings.pop("where", None)
)
store: Any = Memory()
if settings.pop("store", "blob") == "blob":
    container = ContainerClient.from_connection_string(plan["storage"], plan["container"])
    container.create_container()
    store = BlobCheckpointStore(container_client=container, source_fingerprint=source.source_descriptor.fingerprint)
trigger = PollTrigger(name="bench", source=source, checkpoint_store=store, **settings)


def take(events: list[Any]) -> None:
    arrived.extend(int(event.pk["id"]) for event in events)


def poll() -> list[int]:
    arrived.clear()
    trigger.run(timer=None, handler=take)
    return list(arrived)


loop.run(poll, report, version=version("azure-functions-db"))
