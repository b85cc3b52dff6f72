"""docs/relays.md: what it shows does what it says, and its tables know every relay."""

from __future__ import annotations

import base64
import io
import json
import re
import sqlite3
import tomllib
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
from azure.storage.blob import ContainerClient
from azure.storage.queue import QueueClient

from poller import load_app, relays
from poller.config import load_config
from tests.repo.docs.blocks import ROOT, blocks
from tests.support.amqp_broker import Broker
from tests.support.azurite import Azurite

PAGE = "docs/relays.md"


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    with closing(sqlite3.connect("shop.db")) as db, db:
        db.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, updated_at TEXT NOT NULL)")
        db.execute("INSERT INTO orders VALUES (7, '2026-01-01 00:00:00.000')")
    return tmp_path


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_the_configuration_and_the_program_print_one_line(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (shop / "poller.toml").write_text(blocks(PAGE, "toml")[0].text)
    with load_app(shop / "poller.toml", {}) as app:
        assert app.pollers["orders"].tick().outcome == "delivered"
    by_file = lines(capsys)
    assert [line["row"]["id"] for line in by_file] == [7]

    (shop / "state.db").unlink()
    exec(blocks(PAGE, "python")[0].text, {})
    assert lines(capsys) == by_file


def block_of(name: str) -> str:
    """The file that the section of a relay shows."""
    (found,) = [one.text for one in blocks(PAGE, "toml") if f'poller.relays:{name}"' in one.text]
    return found


def deliver(shop: Path, text: str, connection: str) -> None:
    (shop / "poller.toml").write_text(text)
    with load_app(shop / "poller.toml", {"AzureWebJobsStorage": connection}) as app:
        assert app.pollers["orders"].tick().outcome == "delivered"


def test_the_page_lands_a_file_of_parquet(shop: Path, azurite: Azurite, container: str) -> None:
    text = block_of("blob").replace('"lake"', f'"{container}"')
    here = re.sub("account_url = .*", 'connection_env = "AzureWebJobsStorage"', text)
    deliver(shop, here, azurite.connection_string)
    with ContainerClient.from_connection_string(azurite.connection_string, container) as lake:
        (name,) = lake.list_blob_names(name_starts_with="orders/dt=2026-01-01/")
        table = parquet.read_table(io.BytesIO(lake.download_blob(name).readall()))
    assert table.column("id").to_pylist() == [7]


def test_the_page_sends_a_message(shop: Path, azurite: Azurite, container: str) -> None:
    text = block_of("queue").replace('queue = "orders"', f'queue = "{container}"')
    connection = azurite.connection_string_with_queues
    deliver(shop, text, connection)
    with QueueClient.from_connection_string(connection, container) as queue:
        (message,) = queue.receive_messages()
    assert json.loads(base64.b64decode(message.content))["row"]["id"] == 7


def test_each_relay_is_configured_as_shown(tmp_path: Path) -> None:
    whole, *others = [block.text for block in blocks(PAGE, "toml")]
    source = whole[whole.index("[pollers.orders.source]") :]
    for number, part in enumerate(one for one in others if "app_name" not in one):
        file = tmp_path / f"{number}.toml"
        file.write_text(f'app_name = "shop"\n{part}{source}')
        config = load_config(file, dict.fromkeys(re.findall("%([A-Z_]+)%", part), "https://shop.example"))
        assert config.pollers["orders"].relay is not None


@pytest.mark.parametrize("name", ["event_hubs", "service_bus"])
def test_the_page_sends_over_amqp(shop: Path, name: str) -> None:
    with closing(sqlite3.connect("shop.db")) as db, db:
        db.execute("ALTER TABLE orders ADD COLUMN customer_id INTEGER")
    text = re.sub("namespace = .*", 'connection_env = "AzureWebJobsStorage"', block_of(name))
    with Broker() as broker:
        deliver(shop, text, broker.connection_string)
    assert [json.loads(one.body)["id"] for one in broker.sent] == [7]


def held() -> list[str]:
    """The rows of the table that compares the relays."""
    part = (ROOT / PAGE).read_text().partition("\n## What holds for each\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| `.*$", part, re.MULTILINE)


def test_the_page_has_a_row_and_a_section_for_every_relay() -> None:
    page = (ROOT / PAGE).read_text()
    rows = [row.split("`")[1] for row in held()]
    settings = [name.removesuffix("Settings") for name in relays.__all__ if name.endswith("Settings")]
    there = sorted(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower() for name in settings)
    assert sorted(rows) == there
    assert sorted(re.findall(r"^## `(\w+)`$", page, re.MULTILINE)) == there


def test_each_extra_of_a_relay_is_the_packages() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = [one for row in held() for one in re.findall(r"`([\w-]+)`", row.split("|")[7])]
    assert {"event-hubs", "service-bus"} < {*named} <= declared.keys()
