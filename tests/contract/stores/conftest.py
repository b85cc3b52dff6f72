"""The places that the laws are tried in: this process's memory, four databases, and a real Azurite."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
from azure.storage.blob import ContainerClient
from sqlalchemy import create_engine, text

from poller.ports import StateStore
from poller.stores import BlobStore, MemoryStore, SqlStore
from tests.support.azurite import Azurite
from tests.support.documents import delete

KINDS = ("memory", "sqlite", "postgres", "mariadb", "mysql", "blob", "table")
_DATABASES = {"sqlite": "sqlite_url", "postgres": "postgres_db", "mariadb": "mariadb_db", "mysql": "mysql_db"}


@dataclass
class Place:
    """Somewhere that documents live. `open`: one more store on it, as another process would have."""

    kind: str
    make: Callable[[], StateStore]
    delete: Callable[[str], None]
    opened: list[StateStore] = field(default_factory=list)

    def open(self) -> StateStore:
        store = self.make()
        self.opened.append(store)
        return store


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    kind: str = request.param
    if kind == "memory":
        made = _memory()
    elif kind == "blob":
        made = _blob(request.getfixturevalue("azurite"), request.getfixturevalue("container"))
    elif kind == "table":
        made = _table(request.getfixturevalue("azurite"))
    else:
        made = _sql(kind, request.getfixturevalue(_DATABASES[kind]))
    yield made
    for store in made.opened:
        store.close()


@pytest.fixture
def store(place: Place) -> StateStore:
    return place.open()


def _memory() -> Place:
    shared = MemoryStore()
    return Place("memory", lambda: shared, lambda name: delete(shared, name))


def _sql(kind: str, url: str) -> Place:
    def delete(name: str) -> None:
        engine = create_engine(url)
        with engine.begin() as connection:
            connection.execute(text("DELETE FROM poller_documents WHERE name = :name"), {"name": name})
        engine.dispose()

    return Place(kind, lambda: SqlStore(url), delete)


def _blob(azurite: Azurite, container: str) -> Place:
    def delete(name: str) -> None:
        with ContainerClient.from_connection_string(azurite.connection_string, container) as client:
            client.delete_blob(name)

    # Three lines fill an append blob here, fifty thousand in production.
    return Place(
        "blob",
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

    return Place("table", lambda: TableStore.from_connection_string(connection, name), delete)
