"""The proxy as a fixture, and clients of both sides of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from azure.storage.blob import BlobClient, ContainerClient

from tests.resilience.faults.bench import Bench
from tests.resilience.faults.clients import BLOB
from tests.resilience.faults.proxy import FaultProxy
from tests.resilience.faults.shop import Shop
from tests.support.azurite import Azurite


@pytest.fixture
def direct(azurite: Azurite, container: str) -> BlobClient:
    """The state blob without the proxy: the truth. Its container exists, the blob does not."""
    client = ContainerClient.from_connection_string(azurite.connection_string, container)
    client.create_container()
    return client.get_blob_client(BLOB)


@pytest.fixture
def blob(proxy: FaultProxy, direct: BlobClient) -> BlobClient:
    """The same blob through the proxy, without the SDK's own retries and with a short read timeout."""
    return BlobClient.from_connection_string(
        proxy.connection_string,
        direct.container_name,
        BLOB,
        retry_total=0,
        connection_timeout=2,
        read_timeout=1.5,
    )


@pytest.fixture
def bench(azurite: Azurite, proxy: FaultProxy, container: str) -> Iterator[Bench]:
    """With a document that stands there already, released under token 1."""
    made = Bench(azurite, proxy, container)
    made.acquire().release(give_back=True)
    made.events.clear()
    yield made
    made.close()


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    made = Shop(tmp_path, 5)
    yield made
    made.close()
