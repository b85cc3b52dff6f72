"""docs/recipes/, to each target: the rows arrive there as the page says."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import runpy
import sys
import uuid
from datetime import datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import azure.functions as func
import pytest
from azure.functions.servicebus import ServiceBusMessage
from azure.storage.queue import QueueClient

from poller.config import load_config
from tests.repo.docs.receivers import web
from tests.repo.docs.recipe import Recipe, follow, page, parts
from tests.support.amqp_broker import Broker
from tests.support.azurite import Azurite
from tests.support.entra import Issuer

SETTINGS = {
    "SHOP_DB_URL": "postgresql+psycopg://poller_source@127.0.0.1/shop",
    "MYSQL_URL": "mysql+pymysql://poller_source@127.0.0.1/shop",
    "SQL_SERVER_URL": "mssql+pyodbc://poller_source@server/shop?driver=ODBC+Driver+18+for+SQL+Server",
}

SHARED = "The table and the source"


def orders(shop: Recipe, *totals: float) -> None:
    """A table of old orders."""
    shop.query("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, total REAL, updated_at TEXT NOT NULL)")
    for number, total in enumerate(totals, 1):
        shop.query(f"INSERT INTO orders VALUES ({number}, {total}, '2026-01-01 00:00:0{number}.000')")


def test_rows_are_lines_of_a_file(tmp_path: Path) -> None:
    with follow("files", tmp_path, "The table and the source", "A pipe or a log") as shop:
        shop.write()
        shop.type()
        shop.type()
    lines = [json.loads(line) for line in (tmp_path / "orders.jsonl").read_text().splitlines()]
    assert [line["row"]["total"] for line in lines] == [99.5, 12.5, 7.0]
    assert {len(line["id"]) for line in lines} == {64}


class Producer:
    """As much of Kafka's client as the page uses. `confirm`: whether the broker answers."""

    sent: ClassVar[list[dict[str, Any]]] = []
    confirm = True

    def __init__(self, _settings: dict[str, Any]) -> None: ...

    def produce(self, topic: str, *, on_delivery: Any, **message: Any) -> None:
        self.sent.append({"topic": topic, **message})
        on_delivery(None, self)

    def flush(self, _seconds: float) -> int:
        return 0 if self.confirm else 1


class Redis:
    """As much of Redis' client as the page uses. `up`: whether the server answers."""

    kept: ClassVar[dict[str, str]] = {}
    up = True

    @classmethod
    def from_url(cls, _url: str, **_options: Any) -> Redis:
        return cls()

    def mset(self, values: dict[str, str]) -> None:
        if not self.up:
            raise ConnectionError("no route")
        self.kept.update(values)


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> None:
    modules: dict[str, dict[str, Any]] = {
        "confluent_kafka": {"Producer": Producer},
        "redis": {"Redis": Redis},
        "redis.exceptions": {"ConnectionError": ConnectionError, "TimeoutError": TimeoutError},
    }
    for name, content in modules.items():
        module = ModuleType(name)
        module.__dict__.update(content)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(Producer, "sent", [])
    monkeypatch.setattr(Redis, "kept", {})


@pytest.mark.usefixtures("clients")
def test_ten_lines_reach_kafka_and_redis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with follow("own-target", tmp_path, KAFKA="kafka:9092", REDIS_URL="redis://redis") as shop:
        shop.write()
        orders(shop, 5, 7)
        monkeypatch.setattr(Producer, "confirm", False)
        monkeypatch.setattr(Redis, "up", False)
        printed = shop.type("poller run --once", code=1)
        assert "Kafka does not confirm" in printed
        assert "Redis is down: ConnectionError" in printed
        monkeypatch.setattr(Producer, "confirm", True)
        monkeypatch.setattr(Redis, "up", True)
        shop.type("poller resume kafka --yes\npoller resume redis --yes\npoller run --until-idle")

    sent = [(one["topic"], one["key"], json.loads(one["value"])["total"]) for one in Producer.sent]
    assert sent == [("orders", "1", 5.0), ("orders", "2", 7.0)] * 2
    assert len({one["headers"]["id"] for one in Producer.sent}) == 2, "the same ids come again"
    assert {key: json.loads(order)["total"] for key, order in Redis.kept.items()} == {"order:1": 5.0, "order:2": 7.0}


@pytest.fixture
def with_queues(azurite: Azurite) -> str:
    return azurite.connection_string_with_queues


def functions(folder: Path) -> Any:
    """The one function of the page's `function_app.py`, as its host calls it."""
    (one,) = runpy.run_path(str(folder / "function_app.py"))["app"].get_functions()
    return one.get_user_function()


def test_messages_trigger_a_function_that_counts_once(with_queues: str, tmp_path: Path) -> None:
    name = f"orders-{uuid.uuid4().hex[:8]}"
    with (
        follow("queues", tmp_path, SHARED, "Storage Queue", "Run it", AzureWebJobsStorage=with_queues) as shop,
        QueueClient.from_connection_string(with_queues, name) as queue,
    ):
        shop.write()
        shop.replace("poller.toml", 'queue = "orders"', f'queue = "{name}"')
        make, *rest = shop.take("bash").splitlines()
        shop.type(make)
        shop.age("orders")
        shop.type("\n".join(rest))
        shop.type("poller reset-to-beginning orders --yes\npoller run --until-idle")
        messages = [base64.b64decode(message.content) for message in queue.receive_messages()]
        queue.delete_queue()
        with contextlib.chdir(tmp_path):
            for body in messages:
                functions(tmp_path)(func.QueueMessage(body=body))
        assert len(messages) == 6, "a reset sends all of them again"
        assert shop.query("SELECT total FROM seen ORDER BY rowid", "reader.db") == [(99.5,), (12.5,), (3.0,)]


def test_files_hold_each_row_once(azurite: Azurite, container: str, tmp_path: Path) -> None:
    settings = {"AzureWebJobsStorage": azurite.connection_string, "LAKE": container}
    with follow("files", tmp_path, "The table and the source", "Blob Storage", **settings) as shop:
        shop.write()
        shop.replace("poller.toml", 'container = "lake"', f'container = "{container}"')
        shop.type()
        printed = shop.type()
    assert printed.endswith("dt=2026-04-07 [1]\ndt=2026-04-08 [2, 3]\n")


def test_an_endpoint_refuses_one_event_without_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(headers: dict[str, str], body: bytes) -> bytes:
        with contextlib.chdir(tmp_path):
            found = functions(tmp_path)(func.HttpRequest("POST", "/api/orders", headers=headers, body=body))
        return bytes(found.get_body())

    with web(answer) as receiver, follow("http", tmp_path, WEBHOOK=f"{receiver.url}/api/orders") as shop:
        shop.write()
        make, deliver, look = shop.take("bash").splitlines()
        shop.type(make)
        shop.age("orders")
        assert "a negative total" in shop.type(deliver, code=1)
        assert "id=2" in shop.type(look)
        assert shop.query("SELECT total FROM seen ORDER BY rowid", "receiver.db") == [(99.5,), (12.5,)]
        assert len(receiver.requests[0][1]["idempotency-key"]) >= 32
        own_relays = shop.take("toml"), shop.take("toml")
    _signed_and_plain(tmp_path, *own_relays, monkeypatch)


def _signed_and_plain(folder: Path, signed: str, plain: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What arrives of the same rows with the page's other two relays."""
    secret, issuer = f"whsec_{base64.b64encode(b'k' * 32).decode()}", Issuer(monkeypatch)
    monkeypatch.setattr("poller.entra._made", {})
    text = (folder / "poller.toml").read_text()
    with web() as receiver:
        environ = {"WEBHOOK": receiver.url, "SHOP_WEBHOOK_SECRET": secret}
        for relay in (signed, plain):
            changed = re.sub(r"\[pollers\.orders\.relay\]\n.*?\n\n", f"{relay}\n", text, flags=re.DOTALL)
            (folder / "poller.toml").write_text(changed)
            shop = Recipe("http", folder, **environ)
            shop.type("poller reset-to-beginning orders --yes\npoller run --until-idle")
    take = runpy.run_path(str(folder / "receiver.py"))["events"]
    (_, headers, body), *singles = receiver.requests
    events = take(headers, body, secret)
    assert (events[0]["subject"], events[0]["data"]) == ("1", {"id": 1, "total": 99.5})
    assert all(datetime.fromisoformat(one["time"]).utcoffset() == timedelta(0) for one in events)
    assert issuer.scopes == ["api://orders/.default"]
    assert json.loads(singles[0][2]) == {"order_id": 1, "amount": 99.5}
    assert {one[1]["authorization"] for one in singles} == {f"Bearer {issuer.token}"}


def test_a_copy_has_each_row_and_no_older_one(tmp_path: Path) -> None:
    with follow("sql-database", tmp_path, "The files", "Run it") as shop:
        shop.write()
        *make, check, deliver = shop.take("bash").splitlines()
        shop.type("\n".join(make))
        shop.age("orders")
        assert "all is well" in shop.type(check)
        shop.type(deliver)
        shop.query("UPDATE sales SET changed_at = '2999-01-01', total = 1 WHERE order_id = 2", "warehouse.db")
        shop.type("poller reset-to-beginning sales --yes\npoller run --until-idle")
        assert shop.query("SELECT order_id, total FROM sales", "warehouse.db") == [(1, 99.5), (2, 1.0)]


@pytest.mark.parametrize("name", ["Service Bus", "Event Hubs"])
def test_rows_reach_a_broker_by_microsofts_clients(name: str, tmp_path: Path) -> None:
    with (
        Broker() as broker,
        follow("queues", tmp_path, SHARED, name, "Run it", BROKER=broker.connection_string) as shop,
    ):
        assert "--name orders" in shop.take("sh")
        shop.write()
        shop.replace("poller.toml", 'namespace = "shop.servicebus.windows.net"', 'connection_env = "BROKER"')
        make, *rest = shop.take("bash").splitlines()
        shop.type(make)
        shop.age("orders")
        shop.type("\n".join(rest))
        sent = [(one.session_id or one.envelope["x-opt-partition-key"], json.loads(one.body)) for one in broker.sent]
    assert sorted((key, row["id"]) for key, row in sent) == [("7", 1), ("7", 3), ("8", 2)]
    if name == "Service Bus":
        facts: dict[str, Any] = {"message_id": "a", "application_properties": {}, "user_properties": {}}
        functions(tmp_path)(ServiceBusMessage(body=broker.sent[0].body, **facts))


def test_every_database_goes_with_every_target(tmp_path: Path) -> None:
    databases = [
        one.text.partition("\n")[2]
        for name in ("PostgreSQL", "MariaDB and MySQL", "SQL Server and Azure SQL", "SQLite")
        for one in parts(page("databases"), name)
        if one.language == "toml"
    ]
    relays = [
        "\n".join(one.text for one in parts(page(name), *sections) if one.language == "toml")
        for name, *sections in (
            ("files", SHARED, "Blob Storage"),
            ("files", SHARED, "A pipe or a log"),
            ("queues", SHARED, "Storage Queue"),
            ("queues", SHARED, "Service Bus"),
            ("queues", SHARED, "Event Hubs"),
            ("http", "The files"),
            ("sql-database", "The files"),
        )
    ]
    assert len(databases) == 4
    for database in databases:
        for relay in relays:
            text, found = re.subn(r"(\[pollers\.\w+\.source\]\n)(?:\w.*\n)+", rf"\1{database}", relay)
            assert found == 1
            (tmp_path / "poller.toml").write_text(text)
            (one,) = load_config(tmp_path / "poller.toml", SETTINGS).pollers.values()
            assert one.handler is not None
            assert one.source.cursor_column in database
