"""docs/recipes/: each page, followed as a reader does, comes to what it says."""

from __future__ import annotations

import inspect
import json
import re
import runpy
import sqlite3
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from poller import Poller
from tests.cli import azure_functions_db
from tests.repo.docs.receivers import Mail, Web, mail, web
from tests.repo.docs.recipe import Recipe, follow, run_sql

OUTBOX = ("The tables", "The writer", "The poller", "Run it", "It empties itself")
ROUTER = "From Debezium's outbox"


@pytest.fixture
def receiver() -> Iterator[Web]:
    with web() as running:
        yield running


@pytest.fixture
def mail_server() -> Iterator[Mail]:
    with mail() as running:
        yield running


def test_an_outbox_sends_what_was_committed(receiver: Web, postgres_db: str, tmp_path: Path) -> None:
    with follow("outbox", tmp_path, *OUTBOX, SHOP_DB_URL=postgres_db, WEBHOOK=receiver.url) as shop:
        shop.sql(postgres_db)
        shop.write()
        receiver.refuse = 1
        place, deliver = shop.take("bash").splitlines()
        shop.type(place)
        shop.type("poller run --once", code=1)
        shop.type("poller resume outbox --yes")
        shop.type(deliver)

        first, again = (json.loads(body)[0] for _, _, body in receiver.requests)
        assert first["id"] == again["id"]
        assert first["data"]["type"] == "OrderPlaced"
        assert first["data"]["payload"] == {"order": 1, "customer": "Ada", "total": 99.5}
        shop.type("python place_order.py Grace 1")
        emptied = shop.type()
        assert emptied.startswith("outbox: 1 row of ")
        assert emptied.endswith("1 row of outbox deleted\n"), "the second one was not sent yet"
        shop.type("poller run --until-idle")
        assert json.loads(receiver.requests[-1][2])[0]["data"]["id"] == 2


def test_of_two_pollers_one_is_paused_and_the_other_goes_on(tmp_path: Path) -> None:
    with follow("fan-out", tmp_path) as shop:
        shop.write()
        lines = shop.left[0].text.splitlines()
        shop.take("bash")
        shop.type(lines[0])
        shop.age("orders")
        first = shop.type("\n".join(lines[1:]))
        assert "warehouse gets order 1" in first
        assert "report of 99.5" in first
        shop.query("INSERT INTO orders (total, updated_at) VALUES (5, '2999-01-01')")
        shop.query("UPDATE orders SET updated_at = strftime('%Y-%m-%d %H:%M:%f', 'now', '-30 seconds') WHERE id = 2")
        assert "report of 5.0" in shop.type("poller run report --until-idle")
        assert "outcome=paused" in shop.type("poller run warehouse --once", code=3)
        assert "warehouse gets order 2" in shop.type("poller resume warehouse --yes\npoller run --until-idle")
        shop.type("poller checkpoint clone warehouse third --yes")


def test_a_replica_is_the_table(tmp_path: Path) -> None:
    def rows(database: str) -> list[tuple[Any, ...]]:
        return shop.query("SELECT id, total, note FROM orders ORDER BY id", database)

    with follow("replica", tmp_path) as shop:
        shop.write()
        shop.type()
        assert rows("warehouse.db") == [(1, 99.5, "first"), (2, 12.5, None), (3, 7.0, "third")]
        shop.sql(f"sqlite:///{tmp_path}/shop.db")
        shop.type()
        assert rows("warehouse.db") == rows("shop.db") == [(1, 99.5, "changed"), (3, 7.0, "third"), (4, 20.0, "new")]
        shop.query("INSERT INTO orders (id, total, note) VALUES (9, 1, 'by hand')", "warehouse.db")
        shop.type()
        assert rows("warehouse.db") == rows("shop.db")


def test_a_read_model_follows_both_tables(tmp_path: Path) -> None:
    def rows() -> list[tuple[Any, ...]]:
        return shop.query("SELECT * FROM order_list ORDER BY id", "lists.db")

    with follow("sql-database", tmp_path, "A read model") as shop:
        shop.write()
        first, then = (shop.take("bash").splitlines() for _ in range(2))
        shop.type("\n".join(first[:2]))
        shop.age("customers", "orders")
        shop.type(first[2])
        assert rows() == [(1, "Ada", 10), (2, "Ada", 20), (3, "Grace", 30)]
        shop.type(then[0])
        shop.query("UPDATE customers SET updated_at = strftime('%Y-%m-%d %H:%M:%f', 'now', '-30 seconds') WHERE id = 1")
        shop.query("UPDATE orders SET updated_at = strftime('%Y-%m-%d %H:%M:%f', 'now', '-20 seconds') WHERE id = 3")
        shop.type(then[1])
        assert rows() == [(1, "Ada King", 10), (2, "Ada King", 20)]


def test_each_paid_order_gets_one_mail(mail_server: Mail, tmp_path: Path) -> None:
    with follow("email-once", tmp_path, SMTP_HOST="127.0.0.1", SMTP_PORT=str(mail_server.port)) as shop:
        shop.write()
        lines = shop.take("bash").splitlines()
        shop.type("\n".join(lines[:2]))
        shop.age("orders")
        shop.options('retry_backoff = "1ms"')
        mail_server.refuse = 1
        assert "all is well" in shop.type("poller check")
        shop.type("poller run --once", code=1)
        shop.type(lines[2])
        shop.query("UPDATE orders SET updated_at = strftime('%Y-%m-%d %H:%M:%f', 'now', '-20 seconds')")
        shop.type("poller run --until-idle\npoller reset-to-beginning mails --yes\npoller run --until-idle")

        assert [(one["To"], one["Message-ID"]) for one in mail_server.mails] == [
            ("ada@example.com", "<order-1@shop.example.com>")
        ]
        mail_server.lose = 1
        shop.query("UPDATE orders SET status = 'paid', updated_at = '2026-01-01 00:00:00.000' WHERE id = 2")
        shop.type("poller reset-to-beginning mails --yes")
        shop.type("poller run --once", code=1)
        twice = [one["Message-ID"] for one in mail_server.mails[1:]]
        assert twice == ["<order-2@shop.example.com>"] * 2, "the one case that the page names"


def test_the_tests_of_a_handler_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with follow("handlers", tmp_path, "Test it") as shop:
        shop.write()
        assert shop.take("bash") == "pytest\n"
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "handlers", raising=False)
        shown = runpy.run_path(str(tmp_path / "test_handlers.py"))
        monkeypatch.delitem(sys.modules, "handlers")
        tests = [value for name, value in shown.items() if name.startswith("test_")]
        assert len(tests) == 6
        for number, test in enumerate(tests):
            folder = tmp_path / str(number)
            folder.mkdir()
            if "orders" in inspect.signature(test).parameters:
                made: Iterator[Poller] = shown["orders"].__wrapped__(folder)
                test(next(made))
                assert next(made, None) is None
            else:
                test()
    assert sqlite3.connect(tmp_path / "4" / "shop.db").execute("SELECT count(*) FROM orders").fetchone() == (2,)


def test_a_watermark_is_gone_on_from_with_an_overlap(tmp_path: Path) -> None:
    with follow("from-another-trigger", tmp_path, "The poller", "A timer with a watermark table") as shop:
        shop.write()
        *_, first = (shop.type(line) for line in shop.take("bash").splitlines())
        again = shop.type()
        assert re.findall(r"^order (\d)", first, re.MULTILINE) == ["2", "3", "4", "5"]
        assert re.findall(r"^order (\d)", again, re.MULTILINE) == ["1", "2", "3", "4", "5"]


def test_an_imported_poller_goes_on_at_the_next_row(tmp_path: Path) -> None:
    with follow("from-another-trigger", tmp_path, "The poller", "azure-functions-db") as shop:
        shop.write()
        (tmp_path / "state-of-orders.json").write_text(azure_functions_db.fixture("text").read_text())
        shop.query("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, updated_at TEXT NOT NULL)")
        for row in azure_functions_db.ROWS:
            shop.query(f"INSERT INTO orders VALUES {row}")
        printed = shop.type()
        assert re.findall(r"^order (\d+)", printed, re.MULTILINE) == [str(n) for n in range(11, 21)]
        assert "new library" in printed


def test_debeziums_outbox_is_routed_in_order(receiver: Web, postgres_db: str, tmp_path: Path) -> None:
    def insert(*events: tuple[str, str, str]) -> None:
        for aggregate, number, kind in events:
            values = f"'{uuid.uuid4()}', '{aggregate}', '{number}', '{kind}', '{{\"n\": 1}}'"
            run_sql(
                postgres_db, f"INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES ({values})"
            )

    with follow("outbox", tmp_path, ROUTER, SHOP_DB_URL=postgres_db, WEBHOOK=receiver.url) as shop:
        shop.write()
        shop.sql(postgres_db)
        insert(("order", "1", "OrderCreated"))
        shop.sql(postgres_db)
        shop.options('retry_backoff = "1ms"', 'retry_backoff_max = "1ms"')
        shop.type()
        assert receiver.requests == [], "Debezium has sent what was there"
        insert(("order", "1", "OrderPaid"), ("order", "1", "OrderSent"), ("customer", "7", "CustomerMoved"))
        receiver.refuse = 1
        assert "the webhook answers 503" in shop.type("poller run --once", code=1)
        shop.type("poller resume outbox --yes")
        receiver.requests.clear()
        receiver.refuse, receiver.refusal = 1, 422
        shop.type("poller run --once", code=1)
        for _ in range(3):
            shop.type("poller run --once")

        got = [(path, json.loads(body)["eventType"]) for path, _, body in receiver.requests]
        assert got[:2] == [("/outbox.event.order", "OrderPaid"), ("/outbox.event.customer", "CustomerMoved")]
        assert got[2:] == [("/outbox.event.order", "OrderPaid"), ("/outbox.event.order", "OrderSent")]
        assert receiver.requests[0][1]["id"] == receiver.requests[2][1]["id"]


@pytest.mark.soak
@pytest.mark.parametrize(
    ("server", "kind", "touch"),
    [("postgres_db", "timestamptz", ""), ("mariadb_db", "timestamp(6)", "ON UPDATE CURRENT_TIMESTAMP(6)")],
    ids=["postgres", "mariadb"],
)
def test_a_read_models_query_is_one_for_servers_too(
    server: str, kind: str, touch: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    database, stamp = request.getfixturevalue(server), f"{kind} NOT NULL DEFAULT CURRENT_TIMESTAMP(6) {touch}"
    run_sql(
        database,
        f"CREATE TABLE customers (id int PRIMARY KEY, name varchar(20) NOT NULL, updated_at {stamp});\n"
        "CREATE TABLE orders (id int PRIMARY KEY, customer_id int NOT NULL, total int NOT NULL, deleted_at date,"
        f" updated_at {stamp});\n"
        "INSERT INTO customers VALUES (1, 'Ada', '2026-01-01 00:00:00'), (2, 'Grace', '2026-01-02 00:00:00');\n"
        "INSERT INTO orders VALUES (1, 1, 10, NULL, '2026-01-01 00:00:01'), (2, 2, 20, NULL, '2026-01-01 00:00:02');\n",
    )
    shop = Recipe("sql-database", tmp_path, "A read model", SHOP=database)
    shop.write("poller.toml", "handlers.py", "lists.sql")
    shop.replace("poller.toml", "max(o.", "greatest(o.")
    shop.replace("poller.toml", '"sqlite:///shop.db"', '"%SHOP%"')
    shop.replace("poller.toml", 'cursor_time_zone = "UTC"\n', "")
    shop.type("sqlite3 lists.db < lists.sql\npoller run --until-idle")
    run_sql(database, "UPDATE customers SET name = 'Ada King', updated_at = '2026-01-03 00:00:00' WHERE id = 1")
    printed = shop.type("poller run --until-idle\npoller check")
    assert shop.query("SELECT * FROM order_list", "lists.db") == [(1, "Ada King", 10), (2, "Grace", 20)]
    assert not re.search(r"^ +error", printed, re.MULTILINE)
