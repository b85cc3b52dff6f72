"""The app in examples/functions, as it would be deployed: with its own files and the settings that it says it needs."""

from __future__ import annotations

import json
import logging
import shutil
import tomllib
from pathlib import Path

import psycopg
import pytest

from tests.functions import host
from tests.functions.folder import REPOSITORY, Folder
from tests.support.azurite import Azurite

EXAMPLE = REPOSITORY / "examples" / "functions"


def test_example_delivers_with_the_settings_that_it_lists(
    folder: Folder,
    azurite: Azurite,
    postgres_db: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    plain = postgres_db.replace("+psycopg", "")
    database = plain.replace("postgresql://", "postgresql+psycopg://")
    with psycopg.connect(plain) as connection:
        connection.execute((EXAMPLE.parent / "compose" / "orders.sql").read_bytes())
        connection.execute("ALTER TABLE orders DISABLE TRIGGER USER")
        rows = connection.execute("UPDATE orders SET updated_at = updated_at - interval '1 hour'").rowcount
    for file in EXAMPLE.iterdir():
        if file.is_file():
            shutil.copy(file, folder.path / file.name)
    settings = json.loads((EXAMPLE / "local.settings.json.example").read_text())["Values"]
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AzureWebJobsStorage", azurite.connection_string)
    monkeypatch.setenv("ORDERS_DB_URL", database)
    caplog.set_level(logging.INFO, "orders")

    worker = host.Worker(host.load(folder.path))
    assert list(worker.functions) == ["orders"]
    assert worker.invoke("orders") is None

    delivered = [record for record in caplog.records if record.name == "orders"]
    assert len(delivered) == rows > 0


def test_example_installs_the_wheel_that_is_built_here() -> None:
    version = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["version"]

    assert f"./poller-{version}-py3-none-any.whl[postgres]" in (EXAMPLE / "requirements.txt").read_text().splitlines()


@pytest.mark.parametrize("folder_of_an_app", [REPOSITORY, EXAMPLE], ids=["top level", "example"])
def test_host_files_leave_a_default_tick_its_time(folder_of_an_app: Path) -> None:
    """The default tick_timeout, 4m30s, ends before any plan's host would end the worker; 5 minutes fit every plan."""
    content = json.loads((folder_of_an_app / "host.json").read_text())

    assert content["version"] == "2.0"
    assert content["functionTimeout"] == "00:05:00"
