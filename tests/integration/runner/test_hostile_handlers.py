"""Handlers that empty their batch, close the standard streams, or raise what cannot be printed: the loop goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from poller import Batch
from poller.model.redact import LIMIT
from tests.integration.runner.fakes import Worlds, raising
from tests.support.hostile import Hostile
from tests.support.sayings import OfNoClass


@pytest.mark.guarantee(
    "One worker at a time",
    "Whatever a handler raises or closes, its batch counts as started, and the loop continues",
)
def test_what_is_counted_is_what_was_handed_over(worlds: Worlds) -> None:
    """Rows are a tuple: a handler that took them out one by one had "0 rows" reported."""
    world = worlds(rows=5).begun()

    def spoil(batch: Batch) -> None:
        if isinstance(batch.rows, list):
            batch.rows.clear()

    result = world.tick(spoil)
    assert (result.outcome, result.rows, result.batches) == ("delivered", 5, 1)
    assert world.state.checkpoint.metadata == {"row_count": 5}
    assert world.state.checkpoint.cursor is not None
    assert world.state.checkpoint.cursor.tiebreaker == {"id": 5}
    assert isinstance(Batch.of_rows([{"id": 1}]).rows, tuple), "in a handler's own tests too"


class Text(str):
    __slots__ = ()

    def lstrip(self, chars: str | None = None, /) -> str:
        raise ValueError("it stays as it is")


class OfText(Exception):
    def __str__(self) -> str:
        return Text(" no")


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("kind", [Hostile, OfNoClass, OfText])
def test_no_error_spoils_the_handlers_after_it(worlds: Worlds, kind: type[Exception], is_async: bool) -> None:
    """asyncio asks an exception for its `repr` and for its class: it left its handler of Ctrl-C in place, so that every
    later handler of this thread failed, or its loop ran for ever."""
    world = worlds(rows=5).begun()
    error = kind(LookupError())
    done: list[int] = []

    async def fail(batch: Batch) -> None:
        raise error

    async def work(batch: Batch) -> None:
        done.append(len(batch))

    result = world.tick(fail if is_async else raising(error))
    assert result.outcome == "handler_failed"
    assert (result.error or "").startswith(kind.__name__)
    assert world.state.delivery.attempts == 1
    assert world.tick_when_due(work).outcome == "delivered"
    assert done == [5]


def test_an_error_of_five_million_characters_is_one_line(worlds: Worlds) -> None:
    world = worlds(rows=5).begun()
    result = world.tick(raising(ValueError("pwd=x " + "y" * 5_000_000)))
    assert result.outcome == "handler_failed"
    assert (result.error or "").startswith("ValueError: pwd=*** yyy")
    assert len(result.error or "") <= LIMIT + len("ValueError: ")
    assert len(result.trace or "") < 5_000


CLOSING = """
import logging, os, sys
def handle(batch):
    if batch.rows[0]["id"] == 1:
        {how}
    if batch.rows[0]["id"] == 2:
        logging.getLogger("shop").warning("still heard")
    with open("handled", "a") as file:
        file.write(str(batch.rows[0]["id"]))
    if batch.rows[0]["id"] == 3 and not os.path.exists("failed"):
        open("failed", "w").close()
        raise ValueError("shown")
"""
LIBRARY = """
import logging, os, sys
logging.basicConfig()
from handlers import handle
from poller import Poller
from poller.sources import SqlSource
from poller.stores import MemoryStore

if __name__ == "__main__":
    source = SqlSource("sqlite:///shop.db", table="orders", cursor_column="id", cursor_kind="integer+pk",
                       pk_columns=["id"], bound="none")
    poller = Poller("orders", source=source, store=MemoryStore(), app_name="shop", batch_size=1, isolation=sys.argv[1],
                    retry_backoff="1ms")
    outcomes = [poller.tick(handle).outcome for _ in range(2)]
    poller.close()
    print(*outcomes)
    print("the end", file=sys.stderr)
    assert not os.path.sameopenfile(os.open("handled", os.O_RDONLY), 2)
"""
HOW = ["sys.stdout.close(); sys.stderr.close()", "os.close(1); os.close(2)", "sys.stdout.detach(); sys.stderr = None"]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    database = f"import sqlite3; d = sqlite3.connect({str(tmp_path / 'shop.db')!r}); "
    made = "d.execute('CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL)'); "
    rows = "d.executemany('INSERT INTO orders VALUES (?)', [(n,) for n in range(1, 5)]); d.commit()"
    subprocess.run([sys.executable, "-c", database + made + rows], check=True)
    return tmp_path


@pytest.mark.parametrize(("isolation", "how"), [*(("thread", how) for how in HOW), ("process", HOW[0])])
def test_a_handler_that_closes_its_output_ends_no_loop(shop: Path, isolation: str, how: str) -> None:
    (shop / "handlers.py").write_text(CLOSING.format(how=how))
    (shop / "main.py").write_text(LIBRARY)
    ended = subprocess.run(
        [sys.executable, "main.py", isolation], cwd=shop, capture_output=True, text=True, check=False, timeout=60
    )
    assert (shop / "handled").read_text() == "12334", ended.stderr
    assert ended.returncode == 0, ended.stderr
    if isolation == "process" or "sys" in how:
        assert ended.stdout == "handler_failed delivered\n", "what was closed is open again"
        assert "the end" in ended.stderr


TOML = """
app_name = "shop"
state.store = "memory"
[pollers.orders]
handler = "handlers:handle"
batch_size = 1
[pollers.orders.source]
url = "sqlite:///shop.db"
table = "orders"
cursor_column = "id"
cursor_kind = "integer+pk"
pk_columns = ["id"]
bound = "none"
"""


def test_poller_run_goes_on_without_its_output(shop: Path) -> None:
    (shop / "handlers.py").write_text(CLOSING.format(how=HOW[0]) + "\nopen('failed', 'w').close()\n")
    (shop / "poller.toml").write_text(TOML)
    run = [sys.executable, "-m", "poller_cli.main", "run", "--until-idle", "--json"]
    ended = subprocess.run(
        run, cwd=shop, capture_output=True, text=True, check=False, timeout=60, env={**os.environ, "POLLER_CONFIG": ""}
    )
    assert (shop / "handled").read_text() == "1234", ended.stderr
    assert ended.returncode == 0, ended.stderr
    assert [json.loads(line)["event"] for line in ended.stdout.splitlines()].count("batch_committed") == 4
