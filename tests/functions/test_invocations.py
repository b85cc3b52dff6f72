"""What an invocation of a timer function comes to where all is well: real tables, real state, the host's own call."""

from __future__ import annotations

import json
import logging
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

import pytest

from poller import Batch, Poller
from tests.functions import host
from tests.functions.folder import Folder, add_rows
from tests.support.azurite import Azurite


def test_delivered_returns_none_and_so_does_idle(shop: Folder) -> None:
    worker = shop.worker()

    assert worker.invoke("orders") is None
    assert shop.handlers.seen == [1, 2, 3, 4, 5]
    assert worker.invoke("orders") is None
    assert shop.handlers.seen == [1, 2, 3, 4, 5]


def test_a_relay_needs_no_module_of_handlers(shop: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    shop.pollers = [one.replace("handlers:on_orders", "poller.relays:stdout") for one in shop.pollers]

    assert shop.worker().invoke("orders") is None
    assert [json.loads(line)["id"] for line in capsys.readouterr().out.splitlines()] == [1, 2, 3, 4, 5]


def test_next_instance_goes_on_where_the_last_one_stopped(shop: Folder) -> None:
    shop.worker().invoke("orders")
    add_rows(shop.database, 1)

    shop.worker().invoke("orders")

    assert shop.handlers.seen == [1, 2, 3, 4, 5, 6]


def test_past_due_timer_ticks_like_any_other_and_says_so(shop: Folder, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "poller")

    shop.worker().invoke("orders", past_due=True)

    assert shop.handlers.seen == [1, 2, 3, 4, 5]
    assert "orders: this tick is past due" in caplog.text


def test_second_instance_finds_the_lease_held_and_returns_none(shop: Folder, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "poller")
    first, second = shop.worker(), shop.worker()
    inside, go_on = threading.Event(), threading.Event()

    def wait(batch: Batch) -> None:
        inside.set()
        assert go_on.wait(30)

    shop.handlers.hook = wait
    with ThreadPoolExecutor() as pool:
        running = pool.submit(first.invoke, "orders")
        assert inside.wait(30)
        assert second.invoke("orders") is None
        assert shop.handlers.seen == []
        go_on.set()
        running.result(30)

    assert "outcome=held_elsewhere" in caplog.text
    assert shop.handlers.seen == [1, 2, 3, 4, 5]


def test_same_timer_twice_in_one_worker_runs_one_handler(shop: Folder, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "poller")
    worker = shop.worker()
    inside, go_on = threading.Event(), threading.Event()

    def wait(batch: Batch) -> None:
        inside.set()
        assert go_on.wait(30)

    shop.handlers.hook = wait
    with ThreadPoolExecutor() as pool:
        running = pool.submit(worker.invoke, "orders")
        assert inside.wait(30)
        caplog.clear()
        assert worker.invoke("orders") is None
        (said,) = caplog.records
        go_on.set()
        running.result(30)

    assert (said.levelname, said.name) == ("INFO", "poller.orders")
    assert "tick outcome=held_elsewhere" in said.getMessage()
    assert "still runs in this process" in said.getMessage()
    assert shop.handlers.seen == [1, 2, 3, 4, 5]


def test_two_timers_of_one_app_run_side_by_side(shop: Folder) -> None:
    """Each handler waits for the other: both must be inside at once, on two threads of the worker's pool."""
    add_rows(shop.database, 3, table="refunds")
    shop.poller("refunds", "refunds")
    worker = shop.worker()
    both = threading.Barrier(2, timeout=30)
    shop.handlers.hook = lambda batch: both.wait() if batch.cursor_from is None else None

    with ThreadPoolExecutor() as pool:
        results = [pool.submit(worker.invoke, name) for name in ("orders", "refunds")]
        assert [result.result(60) for result in results] == [None, None]

    assert sorted(shop.handlers.seen) == [1, 1, 2, 2, 3, 3, 4, 5]


def test_paused_poller_returns_none_and_pages_nobody(shop: Folder, caplog: pytest.LogCaptureFixture) -> None:
    worker = shop.worker()
    worker.invoke("orders")
    add_rows(shop.database, 1)
    shop.change_state(control={"paused": True, "by": "an operator", "reason": "stock-taking"})
    caplog.set_level(logging.INFO, "poller")
    caplog.clear()

    assert worker.invoke("orders") is None

    assert shop.handlers.seen == [1, 2, 3, 4, 5]
    assert "outcome=paused" in caplog.text
    assert "stock-taking" in caplog.text
    assert {record.levelno for record in caplog.records} == {logging.INFO}


def test_heartbeats_log_lines_belong_to_the_invocation(shop: Folder, caplog: pytest.LogCaptureFixture) -> None:
    """The worker distinguishes invocations by a context variable, also in lines that come from another thread."""
    invocation: ContextVar[str] = ContextVar("invocation")
    logged: list[tuple[str, str | None]] = []
    renewed = threading.Event()

    class Worker(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            logged.append((record.getMessage(), invocation.get(None)))
            if "lease_renewed" in record.getMessage():
                renewed.set()

    caplog.set_level(logging.DEBUG, "poller")
    logging.getLogger("poller").addHandler(handler := Worker())
    shop.defaults = 'lease_ttl = "3s"\nheartbeat_interval = "100ms"'
    worker = shop.worker()
    shop.handlers.hook = lambda batch: renewed.wait(30)
    try:
        invocation.set("e7a5")
        worker.invoke("orders")
    finally:
        logging.getLogger("poller").removeHandler(handler)

    assert any("lease_renewed" in message for message, _ in logged)
    assert {belongs_to for _, belongs_to in logged} == {"e7a5"}


# --- handlers of every kind -------------------------------------------------------------------------------------------


def test_async_handler_runs_to_its_end(shop: Folder) -> None:
    (shop.path / "handlers.py").write_text(
        "import asyncio\n"
        "seen = []\n"
        "async def on_orders(batch):\n"
        "    await asyncio.sleep(0)\n"
        "    seen.extend(row['id'] for row in batch)\n"
    )

    assert shop.worker().invoke("orders") is None

    assert shop.handlers.seen == [1, 2, 3, 4, 5]


def test_handler_that_returns_something_still_gives_the_host_none(shop: Folder) -> None:
    """The worker fails an invocation that returns a value for which there is no binding."""
    (shop.path / "handlers.py").write_text("def on_orders(batch):\n    return len(batch)\n")

    assert shop.worker().invoke("orders") is None


def test_decorated_function_is_the_handler_and_stays_callable(shop: Folder) -> None:
    shop.write()
    (shop.path / "function_app.py").write_text(
        "import azure.functions as func\n"
        "from poller import Batch, Poller\n"
        "from poller.functions import on_timer\n"
        "app = func.FunctionApp()\n"
        f"orders = Poller.from_config({str(shop.path / 'poller.toml')!r}, 'orders')\n"
        "seen = []\n"
        "@on_timer(app, orders, schedule='%ORDERS_SCHEDULE%')\n"
        "def ship(batch: Batch) -> None:\n"
        "    seen.extend(row['id'] for row in batch)\n"
    )
    worker = host.Worker(host.load(shop.path))
    module: Any = sys.modules["function_app"]

    assert worker.invoke("ship") is None

    assert module.seen == [1, 2, 3, 4, 5]
    module.ship([{"id": 99}])
    assert module.seen[-1] == 99
    assert isinstance(module.orders, Poller)


def test_rows_in_postgresql_and_state_in_blobs(
    folder: Folder, azurite: Azurite, container: str, postgres_db: str
) -> None:
    add_rows(postgres_db, 5)
    folder.state = f'store = "blob"\ncontainer = "{container}"'
    folder.poller(url=postgres_db.replace("postgresql://", "postgresql+psycopg://"))
    with pytest.MonkeyPatch.context() as settings:
        settings.setenv("AzureWebJobsStorage", azurite.connection_string)
        worker = folder.worker()

        assert worker.invoke("orders") is None
        assert folder.handlers.seen == [1, 2, 3, 4, 5]
        assert worker.invoke("orders") is None

    assert folder.handlers.seen == [1, 2, 3, 4, 5]
