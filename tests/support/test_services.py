"""The services themselves: tests that count requests and restart servers rest on these."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import BlobServiceClient
from sqlalchemy import create_engine, inspect, text

from tests.support import flights, mariadb, mysql, services
from tests.support.azurite import Azurite
from tests.support.mariadb import MariaDbServer
from tests.support.services import REPOSITORY, OptionalService, Unavailable, listening, unavailable, wait_until


def client(azurite: Azurite) -> BlobServiceClient:
    return BlobServiceClient.from_connection_string(azurite.connection_string, retry_total=0)


def test_azurite_counts_each_request_once_with_its_status(azurite: Azurite, container: str) -> None:
    with client(azurite) as service:
        start = azurite.mark()
        service.create_container(container)
        blob = service.get_blob_client(container, "state/app/name.json")
        tag = blob.upload_blob(b"one")["etag"]
        blob.download_blob().readall()
        with pytest.raises(HttpResponseError):
            blob.upload_blob(b"two", overwrite=True, etag=f"{tag}-other", match_condition=MatchConditions.IfNotModified)
        middle = azurite.mark()
        blob.download_blob().readall()
        path = f"/{container}/state/app/name.json"
        seen = [(r.method, r.path, r.status) for r in azurite.requests(start) if container in r.path]
        assert seen == [
            ("PUT", f"/{container}", 201),
            ("PUT", path, 201),
            ("GET", path, 206),
            ("PUT", path, 412),
            ("GET", path, 206),
        ]
        assert [r.method for r in azurite.requests(middle) if container in r.path] == ["GET"]


def test_azurite_keeps_its_blobs_over_a_restart() -> None:
    with Azurite.start() as own, client(own) as service:
        service.create_container("kept")
        service.get_blob_client("kept", "blob").upload_blob(b"content")
        own.restart()
        assert service.get_blob_client("kept", "blob").download_blob().readall() == b"content"


def test_each_fresh_database_is_empty_and_takes_a_table(any_db: str) -> None:
    engine = create_engine(any_db)
    try:
        assert inspect(engine).get_table_names() == []
        rows = flights.january()[:100]
        table = flights.create_table(engine)
        flights.load(engine, table, rows)
        with engine.connect() as connection:
            first = connection.execute(table.select().order_by(*(table.c[name] for name in flights.KEY))).first()
            assert connection.execute(text("SELECT count(*) FROM flights")).scalar_one() == 100
        assert first is not None
        assert first.carrier == rows[0]["carrier"]
    finally:
        engine.dispose()


@pytest.mark.soak
def test_the_years_key_is_unique_and_january_is_part_of_it(flights_year: list[flights.Row]) -> None:
    keys = {flights.key_of(row) for row in flights_year}
    assert len(flights_year) == len(keys) == flights.YEAR_ROWS
    january = flights.january()
    assert len(january) == flights.JANUARY_ROWS
    by_key = {flights.key_of(row): row for row in flights_year}
    assert [row for row in january if by_key[flights.key_of(row)] != row] == []


def test_a_port_is_given_once_and_not_where_somebody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = [services.free_port() for _ in range(3)]
    for reservation in services._reserved[-3:]:
        reservation.close()
    monkeypatch.setattr(services, "_candidates", lambda: wanted)
    code = (
        "import sys; from tests.support import services; services._candidates = lambda: [int(sys.argv[1])];"
        "print(services.free_port(), flush=True); input()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(wanted[0])],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert other.stdout is not None
    assert int(other.stdout.readline()) == wanted[0]
    with socket.create_server(("127.0.0.1", wanted[1])):
        assert services.free_port() == wanted[2]
    monkeypatch.setattr(services, "_candidates", lambda: [wanted[0], wanted[2]])
    with pytest.raises(Unavailable, match="no free port"):
        services.free_port()
    other.communicate("\n")


@pytest.mark.parametrize("ci", ["", "true"])
def test_a_missing_server_fails_in_ci_except_mysql(monkeypatch: pytest.MonkeyPatch, ci: str) -> None:
    monkeypatch.setenv("CI", ci)
    with pytest.raises(pytest.fail.Exception if ci else pytest.skip.Exception, match="none here"):
        unavailable(Unavailable("none here"))
    with pytest.raises(pytest.skip.Exception, match="none here"):
        unavailable(OptionalService("none here"))


@pytest.mark.parametrize(
    ("version", "is_mysql"),
    [
        ("/usr/sbin/mysqld  Ver 9.7.4 for Linux on x86_64 (MySQL Community Server - GPL)", True),
        ("mysqld  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)", False),
    ],
)
def test_a_mysqld_is_recognised_by_its_version(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, is_mysql: bool
) -> None:
    program = tmp_path / "mysqld"
    program.write_text(f"#!/bin/sh\necho '{version}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv("POLLER_TEST_MYSQLD", raising=False)
    assert mysql.binary() == (program if is_mysql else None)
    monkeypatch.setenv("POLLER_TEST_MYSQLD", str(program))
    if is_mysql:
        assert mysql.binary() == program
    else:
        with pytest.raises(Unavailable, match="no MySQL server"):
            mysql.binary()


def test_a_url_serves_the_tests_of_the_kind_of_server_that_answers(
    monkeypatch: pytest.MonkeyPatch, mariadb_server: MariaDbServer
) -> None:
    monkeypatch.delenv("POLLER_TEST_MARIADB_URL", raising=False)
    monkeypatch.setenv("POLLER_TEST_MYSQL_URL", mariadb_server.url)
    assert mariadb.obtain().port == mariadb_server.port
    monkeypatch.setattr(mysql.MySqlServer, "start", classmethod(lambda cls: cls.at("mysql://started")))
    assert mysql.obtain().url == "mysql+pymysql://started"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux notifies a child of its parent's death")
def test_servers_die_with_a_killed_test_process(tmp_path: Path) -> None:
    code = (
        "from tests.support.azurite import Azurite; from tests.support.postgres import PostgresServer;"
        "a, p = Azurite.start(), PostgresServer.start(); print(a.port, p.port, flush=True); input()"
    )
    tests = subprocess.Popen(
        [sys.executable, "-c", code], cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert tests.stdout is not None
    line = tests.stdout.readline()
    os.kill(tests.pid, signal.SIGKILL)
    tests.communicate()
    if not line:
        unavailable("the servers did not come up here: other tests say why")
    for port in map(int, line.split()):
        wait_until(lambda port=port: not listening(port), f"nobody listens on {port} any more")  # type: ignore[misc]
