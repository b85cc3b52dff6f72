"""The places that the laws are tried in: this process's memory, four databases, a real Azurite, and servers
that stand for Amazon S3 and Azure Cosmos DB."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from functools import cache

import pytest
from azure.storage.blob import ContainerClient
from sqlalchemy import create_engine, text

from poller.contract.stores import Place, store  # noqa: F401
from poller.stores import BlobStore, MemoryStore, SqlStore
from tests.support.azurite import Azurite
from tests.support.cosmos import DATABASE, CosmosServer
from tests.support.documents import delete
from tests.support.moto import REGION, Moto
from tests.support.server import DatabaseServer

KINDS = ("memory", "sqlite", "postgres", "mariadb", "mysql", "blob", "table", "s3", "cosmos")
_NUMBERS = itertools.count()
"""Of places: those of a file in one server share a database, each with tables of its own."""


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    kind: str = request.param
    if kind == "memory":
        made = _memory()
    elif kind == "blob":
        made = _blob(request.getfixturevalue("azurite"), request.getfixturevalue("container"))
    elif kind == "table":
        made = _table(request.getfixturevalue("azurite"))
    elif kind == "s3":
        made = _s3(request.getfixturevalue("s3"))
    elif kind == "cosmos":
        made = _cosmos(request.getfixturevalue("cosmos_server"))
    elif kind == "sqlite":
        made = _sql(request.getfixturevalue("sqlite_url"), "poller")
    else:
        made = _sql(request.getfixturevalue("databases")(kind), f"p{next(_NUMBERS)}")
    yield made
    made.close()


def _memory() -> Place:
    shared = MemoryStore()
    return Place(lambda: shared, lambda name: delete(shared, name))


@pytest.fixture(scope="module")
def databases(request: pytest.FixtureRequest) -> Iterator[Callable[[str], str]]:
    """The URL of a server's database by its kind; it is made when it is first asked for."""
    with ExitStack() as ends:

        @cache
        def database(kind: str) -> str:
            server: DatabaseServer = request.getfixturevalue(f"{kind}_server")
            url = server.new_database()
            ends.callback(server.drop_database, url)
            return url

        yield database


def _sql(url: str, prefix: str) -> Place:
    def delete(name: str) -> None:
        engine = create_engine(url)
        with engine.begin() as connection:
            connection.execute(text(f"DELETE FROM {prefix}_documents WHERE name = :name"), {"name": name})
        engine.dispose()

    return Place(lambda: SqlStore(url, prefix=prefix), delete)


def _blob(azurite: Azurite, container: str) -> Place:
    def delete(name: str) -> None:
        with ContainerClient.from_connection_string(azurite.connection_string, container) as client:
            client.delete_blob(name)

    # Three lines fill an append blob here, fifty thousand in production.
    return Place(
        lambda: BlobStore.from_connection_string(azurite.connection_string, container, log_blocks=3),
        delete,
    )


def _table(azurite: Azurite) -> Place:
    from azure.data.tables import TableClient

    from poller.stores import TableStore
    from poller.stores.table.keys import keys_of

    connection, name = azurite.connection_string_with_tables, azurite.table_name()

    def delete(document: str) -> None:
        with TableClient.from_connection_string(connection, name) as client:
            client.delete_entity(*keys_of(document))

    # Azurite's tables take no more than 786,000 bytes in a replacement; the service's take what they took.
    return Place(lambda: TableStore.from_connection_string(connection, name), delete, refuses=True, replaces=700_000)


def _s3(server: Moto) -> Place:
    from poller.stores import S3Store

    bucket, client = server.new_bucket(), server.client()
    return Place(
        lambda: S3Store(bucket, region=REGION, endpoint=server.endpoint),
        lambda name: client.delete_object(Bucket=bucket, Key=name),
        late=timedelta(seconds=1),  # the answer to a write has no Last-Modified, and its Date may be later
    )


def _cosmos(server: CosmosServer) -> Place:
    from poller.stores import CosmosStore
    from poller.stores.cosmos.items import app_of, id_of

    name = server.new_container()
    client = server.database().get_container_client(name)
    return Place(
        lambda: CosmosStore.from_connection_string(server.connection_string, DATABASE, name),
        lambda document: client.delete_item(id_of(document), app_of(document)),
        refuses=True,
    )
