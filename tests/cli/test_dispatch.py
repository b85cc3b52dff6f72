"""`poller dispatch`: the dispatcher's round from the console."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from azure.storage.queue import QueueClient

from poller_cli.main import execute
from tests.functions.folder import add_rows
from tests.support.azurite import ACCOUNT, Azurite
from tests.support.schemas import validator
from tests.support.services import free_port

TOML = """
app_name = "shop"

[state]
connection = "Storage"
container = "{container}"

[functions]
mode = "queue"
queue = "q{queue}"

[pollers.orders]
handler = "handlers:on_orders"

[pollers.orders.source]
url = "sqlite:///shop.db"
table = "orders"
cursor_column = "updated_at"
cursor_time_zone = "UTC"
pk_columns = ["id"]
"""


@pytest.fixture
def project(tmp_path: Path, azurite: Azurite, container: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("Storage", azurite.connection_string_with_queues)
    (tmp_path / "poller.toml").write_text(TOML.format(container=container, queue=container.removeprefix("test-")))
    add_rows(f"sqlite:///{tmp_path / 'shop.db'}", 3)
    return tmp_path / "poller.toml"


def messages(azurite: Azurite, container: str) -> list[dict[str, Any]]:
    name = f"q{container.removeprefix('test-')}"
    client = QueueClient.from_connection_string(azurite.connection_string_with_queues, name)
    return [json.loads(base64.b64decode(one.content)) for one in client.receive_messages()]


def test_one_round_sends_a_message_and_says_so(
    project: Path, azurite: Azurite, container: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute(["-c", str(project), "dispatch", "--once"]) == 0
    assert "sent to orders (no document)" in capsys.readouterr().out
    (sent,) = messages(azurite, container)
    assert {name: sent[name] for name in ("v", "app", "poller", "shard")} == {
        "v": 1, "app": "shop", "poller": "orders", "shard": 0
    }  # fmt: skip


def test_a_round_as_json_keeps_to_its_schema(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["-c", str(project), "dispatch", "--once", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    validator("dispatch").validate(said)
    assert [one["poller"] for one in said["sent"]] == ["orders"]


def test_an_account_without_queues_is_named(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("Storage")
    monkeypatch.setenv("Storage__blobServiceUri", "https://shop.blob.core.windows.net")
    assert execute(["-c", str(project), "dispatch", "--once"]) == 2
    assert "Storage__queueServiceUri" in capsys.readouterr().err


@pytest.mark.parametrize("reachable", [True, False], ids=["there", "out of reach"])
def test_check_asks_the_queue_too(
    project: Path,
    azurite: Azurite,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    reachable: bool,
) -> None:
    if not reachable:
        nowhere = f"QueueEndpoint=http://127.0.0.1:{free_port()}/{ACCOUNT};"
        monkeypatch.setenv("Storage", azurite.connection_string + nowhere)
    assert execute(["-c", str(project), "check", "orders", "--json"]) == 1, "there is no host.json"
    said = json.loads(capsys.readouterr().out)["pollers"][0]["findings"]
    found = [one["severity"] for one in said if one["check"] == "functions" and "the queue" in one["message"]]
    assert found == ([] if reachable else ["error"])
