"""The services themselves: tests that count requests and restart servers rest on these."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import BlobServiceClient
from sqlalchemy import create_engine, inspect, text

from tests.support import flights
from tests.support.azurite import Azurite
from tests.support.services import REPOSITORY, listening, unavailable, wait_until


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


def test_the_years_key_is_unique_and_january_is_part_of_it(flights_year: list[flights.Row]) -> None:
    keys = {flights.key_of(row) for row in flights_year}
    assert len(flights_year) == len(keys) == flights.YEAR_ROWS
    january = flights.january()
    assert len(january) == flights.JANUARY_ROWS
    by_key = {flights.key_of(row): row for row in flights_year}
    assert [row for row in january if by_key[flights.key_of(row)] != row] == []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's death")
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
