"""A container that the relay `blob` lands files in, and batches with tables."""

from __future__ import annotations

import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
from azure.storage.blob import ContainerClient

from poller import Batch, Standing
from poller.relays import BlobRelay, BlobSettings
from tests.support.azurite import Azurite


class Lake:
    """A container of the run's Azurite, and relays that land files there."""

    def __init__(self, azurite: Azurite, container: str) -> None:
        self.connection, self.container = azurite.connection_string, container
        self.client = ContainerClient.from_connection_string(self.connection, container)

    def relay(self, **settings: Any) -> BlobRelay:
        own = BlobSettings(container=self.container, connection_env="TARGET", **settings)
        return BlobRelay(own, environ={"TARGET": self.connection})

    def files(self, prefix: str = "orders/") -> dict[str, bytes]:
        return {
            name: self.client.download_blob(name).readall()
            for name in self.client.list_blob_names(name_starts_with=prefix)
        }

    def rows(self, prefix: str = "orders/") -> list[Any]:
        return [json.loads(line) for content in self.files(prefix).values() for line in content.splitlines()]


class Arrow:
    """A page's table."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def arrow(self) -> pa.Table:
        return self.table


def arrow_batch(rows: list[dict[str, Any]], schema: pa.Schema | None = None, **more: Any) -> Batch:
    made = Batch.of_rows(rows, poller_name="orders", standing=Standing(app_name="shop", through=len(rows)), **more)
    table = Arrow(pa.Table.from_pylist(rows, schema=schema))
    object.__setattr__(made, "_table", table)
    return made


def parquet_of(content: bytes) -> pa.Table:
    return parquet.read_table(io.BytesIO(content))
