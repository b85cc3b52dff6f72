"""What relays send to: a database of each kind, an HTTP server, a queue, a container."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine

from poller.relays import Relay, relay
from tests.integration.relays.endpoint import Endpoint
from tests.integration.relays.into import Made, url_of
from tests.integration.relays.lake import Lake
from tests.integration.relays.queues import Queue
from tests.support.azurite import Azurite
from tests.support.server import DatabaseServer


@pytest.fixture(scope="module", params=["sqlite", "postgres", "mariadb"])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    if request.param == "sqlite":
        made = create_engine(f"sqlite:///{tmp_path_factory.mktemp('target')}/target.db")
        yield made
        made.dispose()
        return
    server: DatabaseServer = request.getfixturevalue(f"{request.param}_server")
    url = server.new_database()
    made = create_engine(url)
    yield made
    made.dispose()
    server.drop_database(url)


@pytest.fixture
def made(target: Engine) -> Iterator[Made]:
    """Makes relays into the file's `target`, and closes them."""
    relays: list[Relay[Any]] = []

    def make(**settings: Any) -> Relay[Any]:
        relays.append(relay("sql", **{"url": url_of(target), "table": "copy", "key_columns": ["id"], **settings}))
        return relays[-1]

    yield make
    for one in relays:
        one.close()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint().serving() as serving:
        yield serving


@pytest.fixture
def lake(azurite: Azurite, container: str) -> Iterator[Lake]:
    made = Lake(azurite, container)
    yield made
    made.client.close()


@pytest.fixture
def queue(azurite: Azurite) -> Iterator[Queue]:
    made = Queue(azurite)
    yield made
    made.client.close()
