"""Targets: one database of each server for all tests of a file, emptied before each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import Engine, inspect

from tests.integration.sinks.target import METADATA, target
from tests.support.server import DatabaseServer


@pytest.fixture(scope="module")
def databases(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Engine]]:
    """Engines by the server's name, made when they are first asked for."""
    with ExitStack() as ends:

        class Made(dict[str, Engine]):
            def __missing__(self, server: str) -> Engine:
                if server == "sqlite":
                    folder: Path = tmp_path_factory.mktemp("sinks")
                    url = f"sqlite:///{folder / 'target.sqlite3'}"
                else:
                    running: DatabaseServer = request.getfixturevalue(f"{server}_server")
                    url = running.new_database()
                    ends.callback(running.drop_database, url)
                self[server] = ends.enter_context(target(url))
                return self[server]

        yield Made()


def emptied(engine: Engine) -> Engine:
    """As new."""
    engine.dispose()
    with engine.begin() as connection:
        for name in inspect(connection).get_table_names():
            connection.exec_driver_sql(f"DROP TABLE {name}")
        METADATA.create_all(connection)
    return engine


@pytest.fixture(params=["sqlite", "postgres", "mariadb", "mysql"])
def shop(request: pytest.FixtureRequest, databases: dict[str, Engine]) -> Engine:
    return emptied(databases[request.param])


@pytest.fixture
def postgres_shop(databases: dict[str, Engine]) -> Engine:
    return emptied(databases["postgres"])


@pytest.fixture
def mariadb_shop(databases: dict[str, Engine]) -> Engine:
    return emptied(databases["mariadb"])


@pytest.fixture
def sqlite_shop(databases: dict[str, Engine]) -> Engine:
    return emptied(databases["sqlite"])
