"""Fixtures for every test; `tests.support` says what each one is."""

from __future__ import annotations

import contextlib
import importlib
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import cosmos, flights, mariadb, moto, mysql, postgres
from tests.support.azurite import Azurite
from tests.support.mysql_family import MySqlFamilyServer
from tests.support.server import DatabaseServer
from tests.support.services import Unavailable, keep_files_in_memory, unavailable

# Where the tests are started in the background of a shell, SIGINT is ignored, and so it would be in every process that
# they start: those that show what Ctrl-C does could not.
signal.signal(signal.SIGINT, signal.default_int_handler)

HERE = Path(__file__).parent
PROVE_TIMEOUT = 1800
"""Seconds."""
keep_files_in_memory()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="write the screens of tests/console instead of comparing")


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """What pytest makes of the tests' sources is kept, also where the environment forbids it for all else. Each worker
    begins with other modules than the others do, and so finds most of what they made."""
    forbidden, sys.dont_write_bytecode = sys.dont_write_bytecode, False
    try:
        worker = getattr(session.config, "workerinput", None)
        if worker is not None and session.config.args_source is pytest.Config.ArgsSource.TESTPATHS:
            first = int(worker["workerid"].removeprefix("gw"))
            for path in sorted(HERE.rglob("test_*.py"))[first :: worker["workercount"]]:
                with contextlib.suppress(Exception, pytest.skip.Exception):  # the collection says what is wrong
                    importlib.import_module(".".join(path.relative_to(HERE.parent).with_suffix("").parts))
        return (yield)
    finally:
        sys.dont_write_bytecode = forbidden


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long anyway has longer on a busy machine, where it would only be cut off."""
    for item in items:
        if item.get_closest_marker("prove") is not None and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(PROVE_TIMEOUT))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, None, None]:
    """A fixture's server that is not available skips the test, or fails it in CI."""
    try:
        yield
    except Unavailable as missing:
        unavailable(missing)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, None, None]:
    """The same for a server that a test starts itself."""
    try:
        yield
    except Unavailable as missing:
        unavailable(missing)


@contextlib.contextmanager
def _fresh_database(server: DatabaseServer) -> Iterator[str]:
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
def cosmos_server() -> Iterator[cosmos.CosmosServer]:
    with cosmos.start() as running:
        yield running


@pytest.fixture(scope="session")
def s3_server() -> Iterator[moto.Moto]:
    with moto.start() as running:
        yield running


@pytest.fixture
def s3(s3_server: moto.Moto, monkeypatch: pytest.MonkeyPatch) -> moto.Moto:
    """The server, with credentials in the environment as boto3 finds them."""
    for name, value in moto.ENVIRON.items():
        monkeypatch.setenv(name, value)
    return s3_server


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


@pytest.fixture(scope="session")
def mysql_server() -> Iterator[mysql.MySqlServer]:
    with mysql.obtain() as running:
        yield running


@pytest.fixture
def mysql_db(mysql_server: mysql.MySqlServer) -> Iterator[str]:
    with _fresh_database(mysql_server) as url:
        yield url


@pytest.fixture(params=["mariadb", "mysql"])
def family_server(request: pytest.FixtureRequest) -> MySqlFamilyServer:
    server: MySqlFamilyServer = request.getfixturevalue(f"{request.param}_server")
    return server


@pytest.fixture
def family_db(family_server: MySqlFamilyServer) -> Iterator[str]:
    with _fresh_database(family_server) as url:
        yield url


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'test.sqlite3'}"


@pytest.fixture(params=["sqlite", "postgres", "mariadb", "mysql"])
def any_db(request: pytest.FixtureRequest) -> str:
    url: str = request.getfixturevalue("sqlite_url" if request.param == "sqlite" else f"{request.param}_db")
    return url


@pytest.fixture(scope="session")
def flights_year() -> list[dict[str, Any]]:
    return flights.year()
