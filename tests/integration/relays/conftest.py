"""A database of each kind, as the target of relays."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, create_engine

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
