"""Benches whose document is in a table, in S3 or in Cosmos DB, behind the proxy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from poller import stores
from tests.resilience.faults.bench import Bench
from tests.resilience.faults.proxy import FaultProxy
from tests.support.azurite import Azurite
from tests.support.cosmos import DATABASE, CosmosServer, connection_string
from tests.support.moto import REGION, Moto

_SERVERS = {"tables": "azurite", "s3": "s3", "cosmos": "cosmos_server"}
"""The fixture of each store's server."""
STORES = tuple(_SERVERS)


@contextmanager
def elsewhere(store: str, request: pytest.FixtureRequest, *, ttl: float | None = None) -> Iterator[Bench]:
    """A bench of that store, in a table, bucket or container of its own."""
    if store == "tables":
        pytest.importorskip("azure.data.tables", reason="needs the extra table")
    server: Azurite | Moto | CosmosServer = request.getfixturevalue(_SERVERS[store])
    port = server.port
    if isinstance(server, Azurite):
        server.start_tables()
        port = server.table_port
    with FaultProxy("127.0.0.1", port) as proxy:
        made = _made(server, proxy, ttl)
        yield made
        made.close()


def _made(server: Azurite | Moto | CosmosServer, proxy: FaultProxy, ttl: float | None) -> Bench:
    if isinstance(server, Azurite):
        return Bench(server, proxy, server.table_name(), ttl=ttl, tables=True)
    if isinstance(server, Moto):
        name = server.new_bucket()

        def opened(address: str) -> stores.S3Store | stores.CosmosStore:
            return stores.S3Store(name, region=REGION, endpoint=address)

    else:
        name = server.new_container()

        def opened(address: str) -> stores.S3Store | stores.CosmosStore:
            return stores.CosmosStore.from_connection_string(connection_string(address), DATABASE, name)

    return Bench(None, proxy, name, ttl=ttl, open_at=opened, address=server.endpoint)
