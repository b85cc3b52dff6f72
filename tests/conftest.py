"""Fixtures for every test; `tests.support` says what each one is."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.support import flights, mariadb, postgres
from tests.support.azurite import Azurite
from tests.support.services import Unavailable, unavailable

# Where the tests are started in the background of a shell, SIGINT is ignored, and so it would be in every process that
# they start: those that show what Ctrl-C does could not.
signal.signal(signal.SIGINT, signal.default_int_handler)


class _Server(Protocol):
    def new_database(self) -> str: ...

    def drop_database(self, url: str) -> None: ...


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, None, None]:
    """A fixture's server that cannot be had skips the test, or fails it in CI."""
    try:
        yield
    except Unavailable as missing:
        unavailable(str(missing))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, None, None]:
    """The same for a server that a test starts itself."""
    try:
        yield
    except Unavailable as missing:
        unavailable(str(missing))


@contextlib.contextmanager
def _fresh_database(server: _Server) -> Iterator[str]:
    url = server.new_database()
    try:
        yield url
    finally:
        server.drop_database(url)


@pytest.fixture(scope="session")
def azurite() -> Iterator[Azurite]:
    with Azurite.start() as running:
        yield running


@pytest.fixture
def container(azurite: Azurite) -> str:
    return azurite.container_name()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[postgres.PostgresServer]:
    with postgres.obtain() as running:
        yield running


@pytest.fixture(scope="session")
def postgres_url(postgres_server: postgres.PostgresServer) -> str:
    return postgres_server.url


@pytest.fixture
def postgres_db(postgres_server: postgres.PostgresServer) -> Iterator[str]:
    with _fresh_database(postgres_server) as url:
        yield url


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[mariadb.MariaDbServer]:
    with mariadb.obtain() as running:
        yield running


@pytest.fixture(scope="session")
def mariadb_url(mariadb_server: mariadb.MariaDbServer) -> str:
    return mariadb_server.url


@pytest.fixture
def mariadb_db(mariadb_server: mariadb.MariaDbServer) -> Iterator[str]:
    with _fresh_database(mariadb_server) as url:
        yield url


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'test.sqlite3'}"


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
def any_db(request: pytest.FixtureRequest) -> str:
    fixture = {"sqlite": "sqlite_url", "postgres": "postgres_db", "mariadb": "mariadb_db"}[request.param]
    url: str = request.getfixturevalue(fixture)
    return url


@pytest.fixture(scope="session")
def flights_year() -> list[dict[str, Any]]:
    return flights.year()
