"""The facade: keywords, files, and handlers by name."""

from __future__ import annotations

import sqlite3
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from poller import Batch, ConfigError, Poller, load_app
from poller.ports import StateStore
from poller.sources import SqlSource
from poller.stores import MemoryStore, open_store

CONFIG = """
app_name = "shop"
[state]
store = "sql"
[pollers.orders]
handler = "{handler}"
on_poison = "halt"
max_attempts = 1
retry_backoff = "1ms"
[pollers.orders.source]
url = "sqlite:///orders.db"
table = "orders"
cursor_column = "updated_at"
cursor_time_zone = "UTC"
pk_columns = ["id"]
"""
TOGETHER = """[pollers.broken.source]
url = "sqlite:///nowhere/orders.db"
table = "orders"
cursor_column = "updated_at"
cursor_time_zone = "UTC"
pk_columns = ["id"]
[pollers.orders]"""
"""Beside the poller of the file one whose database does not exist."""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    with closing(sqlite3.connect(tmp_path / "orders.db")) as connection, connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, updated_at TEXT NOT NULL)")
        connection.executemany("INSERT INTO orders VALUES (?, ?)", [(n, f"2026-01-01 00:00:0{n}") for n in range(5)])
    return tmp_path


def configured(folder: Path, handler: str) -> Poller:
    (folder / "poller.toml").write_text(CONFIG.format(handler=handler))
    return Poller.from_config(folder / "poller.toml", "orders", {})


def orders(folder: Path) -> SqlSource:
    return SqlSource(
        f"sqlite:///{folder / 'orders.db'}",
        table="orders",
        cursor_column="updated_at",
        cursor_time_zone="UTC",
        pk_columns=["id"],
    )


def test_rows_reach_a_handler_given_in_python(shop: Path) -> None:
    seen: list[int] = []

    def handle(batch: Batch) -> None:
        seen.extend(row["id"] for row in batch)

    poller = Poller(
        "orders",
        source=orders(shop),
        store=MemoryStore(),
        app_name="shop",
        batch_size=2,
        lease_ttl=timedelta(seconds=60),
    )
    result = poller.tick(handle)
    assert (result.outcome, result.rows, result.batches) == ("delivered", 5, 3)
    assert seen == [0, 1, 2, 3, 4]
    assert poller.tick(handle).outcome == "idle"


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"batch_sise": 5}, "batch_sise"),
        ({"lease_ttl": "soon"}, "lease_ttl"),
        ({"heartbeat_interval": timedelta(seconds=30)}, "heartbeat_interval"),
        ({"name": "Orders"}, "name"),
        ({"app_name": ""}, "app_name"),
    ],
)
def test_a_wrong_keyword_is_named(shop: Path, options: dict[str, object], key: str) -> None:
    arguments = {"name": "orders", "app_name": "shop"} | options
    with pytest.raises(ConfigError) as caught:
        Poller(source=orders(shop), store=MemoryStore(), **arguments)  # type: ignore[arg-type]
    assert caught.value.key == key


def test_the_configured_handler_is_imported_from_beside_the_file(shop: Path) -> None:
    (shop / "handlers.py").write_text("seen = []\ndef on_orders(batch):\n    seen.extend(r['id'] for r in batch)\n")
    assert configured(shop, "handlers:on_orders").tick().rows == 5
    assert sys.modules["handlers"].seen == [0, 1, 2, 3, 4]


def test_two_files_with_a_handlers_module_each_use_their_own(shop: Path) -> None:
    for name in ("a", "b"):
        (shop / name).mkdir()
        (shop / name / "handlers.py").write_text(f"def on_orders(batch): return {name!r}\n")
    got = [configured(shop / name, "handlers:on_orders").handler(None) for name in ("a", "b")]  # type: ignore[arg-type]
    assert got == ["a", "b"]


@pytest.mark.parametrize(
    ("module", "handler", "expected"),
    [
        (None, "nothing_here:f", 'no module "nothing_here"'),
        ("import nothing_installed", "handlers:f", "nothing_installed"),
        ("def on_orders(batch): pass", "handlers:on_order", 'did you mean "on_orders"'),
        ("on_orders = 5", "handlers:on_orders", "not a function"),
        ("x = 1\ny = 1 / 0", "handlers:on_orders", "handlers.py, line 2: ZeroDivisionError"),
        ("def on_orders(batch:\n  pass", "handlers:on_orders", "handlers.py, line 1: SyntaxError"),
        ("import sys; sys.exit(3)", "handlers:on_orders", "SystemExit"),
    ],
)
def test_a_handler_that_cannot_be_imported_is_one_line(
    shop: Path, module: str | None, handler: str, expected: str
) -> None:
    if module is not None:
        (shop / "handlers.py").write_text(module)
    poller = configured(shop, handler)
    with pytest.raises(ConfigError) as caught:
        _ = poller.handler
    assert caught.value.key == "pollers.orders.handler"
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_error_inside_the_module_is_not_quoted(shop: Path) -> None:
    (shop / "handlers.py").write_text("raise RuntimeError('password is hunter2')")
    with pytest.raises(ConfigError) as caught:
        _ = configured(shop, "handlers:f").handler
    assert "hunter2" not in str(caught.value)


def test_an_unknown_poller_is_refused_with_a_suggestion(shop: Path) -> None:
    (shop / "poller.toml").write_text(CONFIG.format(handler="handlers:f"))
    with pytest.raises(ConfigError, match='did you mean "orders"'):
        load_app(shop / "poller.toml", {}).poller("order")


def test_what_a_source_refuses_is_named_with_its_place_in_the_file(shop: Path) -> None:
    text = CONFIG.format(handler="handlers:f") + 'filter = "1 = 1; DROP TABLE orders"\n'
    (shop / "poller.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_app(shop / "poller.toml", {}).poller("orders")
    assert caught.value.key == "pollers.orders.source.filter"
    assert "poller.toml: pollers.orders.source.filter" in str(caught.value)


def test_all_pollers_of_a_file_are_looked_at_with_their_backfills(shop: Path) -> None:
    (shop / "handlers.py").write_text("def handle(batch): raise ValueError\n")
    (shop / "poller.toml").write_text(CONFIG.format(handler="handlers:handle").replace("[pollers.orders]", TOGETHER))
    with load_app(shop / "poller.toml", {}, observers=[]) as app:
        orders = app.poller("orders")
        orders.tick(lambda batch: None)
        orders.backfill("2026-01-01 00:00:00", "2026-01-01 00:00:03", name="again")

        survey = app.status()
        assert [(one.name, one.pending) for one in survey.pollers] == [("broken", None), ("orders", 0)]
        assert [(one.name, one.poller, one.pending) for one in survey.backfills or []] == [("again", "orders", 3)]
        assert [one.name for one in app.status(["orders", "orders"]).pollers] == ["orders"]
        with pytest.raises(ConfigError, match="ordres"):
            app.status(["ordres"])


def test_a_text_is_one_name_and_what_is_none_is_refused(shop: Path) -> None:
    (shop / "poller.toml").write_text(CONFIG.format(handler="handlers:handle"))
    with load_app(shop / "poller.toml", {}, observers=[]) as app:
        assert [one.name for one in app.status("orders").pollers] == ["orders"]
        assert [one.name for one in app.check("orders")] == ["orders"]
        with pytest.raises(ConfigError, match="there is no poller 'ordres'"):
            app.check("ordres")
        name: Any
        for name in (5, None, ["orders"], b"orders", "\0", "../orders"):
            for look in (
                app.poller,
                app.one,
                app.named,
                lambda name: app.status([name]),
                lambda name: app.check([name]),
            ):
                with pytest.raises(ConfigError, match="there is no poller"):
                    look(name)


def test_a_backfill_is_looked_at_through_a_connection_of_its_own(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its poller may be at work in another thread, and the connection of that serves one."""
    (shop / "poller.toml").write_text(CONFIG.format(handler="handlers:handle"))
    closed: list[str] = []
    with load_app(shop / "poller.toml", {}, observers=[]) as app:
        orders = app.poller("orders")
        orders.tick(lambda batch: None)
        failing: Any = {"handler": lambda batch: 1 / 0}
        orders.backfill("2026-01-01 00:00:00", "2026-01-01 00:00:03", name="again", **failing)
        again = app.one("again")
        monkeypatch.setattr(orders.source, "close", lambda: closed.append("orders"))
        assert len(again.peek().rows) == 3
        again.close()
        assert closed == []
    assert closed == ["orders"]


def test_a_poller_that_cannot_be_made_is_a_finding(shop: Path) -> None:
    text = CONFIG.format(handler="handlers:handle").replace("sqlite:///orders.db", "nosuch://db/shop")
    (shop / "poller.toml").write_text(text)
    with load_app(shop / "poller.toml", {}, observers=[]) as app:
        (checked,) = app.check()
    (finding,) = checked.findings
    assert (finding.check, finding.severity) == ("configuration", "error")
    assert checked.refused is not None
    assert finding.message == checked.refused.message


def test_concurrency_alone_is_enough_in_a_file_and_a_backfill(shop: Path) -> None:
    """What follows from another key does not count as written."""
    (shop / "poller.toml").write_text(CONFIG.format(handler="x:y").replace("max_att", "concurrency = 2\nmax_att"))
    with closing(Poller.from_config(shop / "poller.toml", "orders", {})) as poller:
        beside = poller.beside("again", orders(shop))
        options = poller.options, beside.options
        assert [(one.concurrency, one.grouped, one.max_attempts) for one in options] == [(2, True, 1)] * 2
        beside.close()


def test_threads_that_ask_at_once_get_one_poller_and_one_store(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests for health come while ticks begin."""
    (shop / "poller.toml").write_text(CONFIG.format(handler="handlers:on_orders"))
    made, opened, go_on = list[object](), list[object](), threading.Event()
    make = Poller.of

    def slowly(*arguments: Any, **keywords: Any) -> Poller:
        made.append(arguments)
        assert go_on.wait(30)
        return make(*arguments, **keywords)

    def counted(*arguments: Any, **keywords: Any) -> StateStore:
        opened.append(arguments)
        return open_store(*arguments, **keywords)

    monkeypatch.setattr(Poller, "of", slowly)
    monkeypatch.setattr("poller.app.open_store", counted)
    with load_app(shop / "poller.toml", {}) as app, ThreadPoolExecutor(8) as threads:
        asked = [threads.submit(lambda: app.poller("orders")) for _ in range(8)]
        threading.Timer(0.1, go_on.set).start()
        assert len({id(one.result()) for one in asked}) == 1

    assert (len(made), len(opened)) == (1, 1)
