"""Where documents live: bytes under names, changed by compare-and-swap (`ports.StateStore`).

`BlobStore` is Azure Blob Storage, `TableStore` Azure Table Storage, both also Azurite; `CosmosStore` Azure Cosmos DB,
`S3Store` a bucket of Amazon S3, `SqlStore` any database that SQLAlchemy knows, `MemoryStore` this process. Each is
imported on first use, so that a poller on SQLite does not load Azure's SDK, nor one on Azure a database driver.
`open_store` opens the one that the table `[state]` of `poller.toml` names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from poller.doors import door

if TYPE_CHECKING:
    from poller.stores.blob.store import BlobStore
    from poller.stores.cosmos.store import CosmosStore
    from poller.stores.memory import MemoryStore
    from poller.stores.opening import open_store
    from poller.stores.s3.store import S3Store
    from poller.stores.sql.store import SqlStore
    from poller.stores.table.store import TableStore

__all__ = [
    "BlobStore",
    "CosmosStore",
    "MemoryStore",
    "S3Store",
    "SqlStore",
    "TableStore",
    "open_store",
]

_HOMES = {
    "BlobStore": "blob.store",
    "CosmosStore": "cosmos.store",
    "MemoryStore": "memory",
    "S3Store": "s3.store",
    "SqlStore": "sql.store",
    "TableStore": "table.store",
    "open_store": "opening",
}

__getattr__, __dir__ = door(__name__, _HOMES)
