"""A tick that a caller asks for over real sockets: who may, how many at once, and how it says what came of it."""

from __future__ import annotations

import json
import sqlite3
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from poller import App, Batch, load_app
from poller.http import HttpServer, serve
from tests.support.http import TOKEN, Received, request, send
from tests.support.services import wait_until
from tests.support.shop_folder import write_shop

KEY = "the-key-for-changes-of-the-shop"
PATH = "/api/pollers/orders/tick"
BEARER = f"Authorization: Bearer {KEY}"
HANDLERS = """
hook = None

def on_orders(batch):
    hook(batch)
"""


@dataclass
class Shop:
    """A shop with one order, whose handler waits for `go_on`."""

    app: App
    server: HttpServer
    folder: Path
    seen: list[list[int]] = field(default_factory=list)
    go_on: threading.Event = field(default_factory=threading.Event)

    def take(self, batch: Batch) -> None:
        self.seen.append([row["id"] for row in batch])
        assert self.go_on.wait(30)

    def ask(self, *lines: str, method: str = "POST", path: str = PATH) -> Received:
        length = ("Content-Length: 0",) if method == "POST" else ()
        received = send(self.server.port, request(path, *length, *lines, method=method), half_close=False)
        assert received is not None
        return received

    def insert(self, number: int) -> None:
        with closing(sqlite3.connect(self.folder / "shop.db")) as shop, shop:
            shop.execute("INSERT INTO orders VALUES (?, ?)", (number, f"2026-01-0{number} 00:00:00.000"))

    def ended(self) -> dict[str, Any]:
        """What came of it, once it rests."""
        wait_until(lambda: self.ask(BEARER, method="GET").json["state"] == "resting")
        last: dict[str, Any] = self.ask(BEARER, method="GET").json["last"]
        return last


@contextmanager
def shop(folder: Path, **options: Any) -> Iterator[Shop]:
    sys.modules.pop("handlers", None)
    write_shop(folder, HANDLERS)
    environ = {"POLLER_HTTP_TOKEN": options.pop("token")} if "token" in options else {}
    with load_app(folder / "poller.toml", {}, observers=[]) as app:
        _ = app.poller("orders").handler
        with serve(app, "0", environ=environ, **{"changes_key": KEY, **options}) as server:
            opened = Shop(app, server, folder)
            vars(sys.modules["handlers"])["hook"] = opened.take
            try:
                yield opened
            finally:
                opened.go_on.set()


@pytest.fixture
def mine(tmp_path: Path) -> Iterator[Shop]:
    with shop(tmp_path) as opened:
        yield opened


def test_a_tick_is_accepted_and_the_next_look_says_its_outcome(mine: Shop) -> None:
    asked = mine.ask(BEARER)

    assert (asked.status, asked.json) == (202, {"name": "orders", "state": "running", "last": None})
    mine.go_on.set()
    last = mine.ended()
    assert (last["outcome"], last["rows"], last["message"]) == ("delivered", 1, "Rows were delivered.")
    assert last["ended_at"].endswith("Z")
    assert mine.seen == [[1]]
    assert mine.ask(BEARER).json["last"] == last, "until the next one has ended"
    assert mine.ended()["outcome"] == "idle"


def test_one_runs_one_waits_and_a_third_is_refused(mine: Shop) -> None:
    assert mine.ask(BEARER).json["state"] == "running"
    wait_until(lambda: mine.seen)
    mine.insert(2)
    assert mine.ask(BEARER).json["state"] == "waiting"

    third = mine.ask(BEARER)

    assert (third.status, third.headers["retry-after"]) == (429, "1")
    assert third.json["error"].startswith("one tick of this poller runs and one waits")
    assert mine.ask(BEARER, method="GET").json["state"] == "waiting"
    mine.go_on.set()
    mine.ended()
    assert mine.seen == [[1], [2]]
    assert mine.ask(BEARER).status == 202
    mine.ended()


def test_more_than_ten_a_minute_are_made(mine: Shop) -> None:
    mine.go_on.set()
    for _ in range(12):
        assert mine.ask(BEARER).status == 202
        mine.ended()


def test_it_waits_for_a_tick_of_the_process_itself(mine: Shop) -> None:
    """The one that runs has read its rows already."""
    worker = threading.Thread(target=mine.app.poller("orders").tick)
    worker.start()
    wait_until(lambda: mine.seen)
    mine.insert(2)

    assert mine.ask(BEARER).json["state"] == "running"
    mine.go_on.set()
    worker.join(30)

    assert mine.ended()["outcome"] in ("delivered", "idle")  # the first may have read on
    assert mine.seen == [[1], [2]]


@pytest.mark.parametrize(
    ("lines", "path", "status"),
    [
        ((), PATH, 403),
        (("Authorization: Bearer another-key-of-some-length",), PATH, 403),
        ((f"x-functions-key: {KEY}",), PATH, 403),
        ((), f"{PATH}?code={KEY}", 403),
        ((BEARER, "Authorization: Bearer another-key-of-some-length"), PATH, 400),
        ((BEARER,), "/api/pollers/unknown/tick", 404),
        ((BEARER,), "/api/pollers/Orders/tick", 404),
    ],
    ids=["none", "wrong", "another header", "in the address", "twice", "unknown poller", "not quite the name"],
)
def test_without_the_key_in_its_header_nothing_begins(
    lines: tuple[str, ...], path: str, status: int, mine: Shop
) -> None:
    given = mine.ask(*lines, path=path)

    assert given.status == status
    assert mine.ask(BEARER, method="GET").json == {"name": "orders", "state": "resting", "last": None}
    assert mine.seen == []


def test_beside_a_token_the_key_for_changes_is_enough(tmp_path: Path) -> None:
    with shop(tmp_path, token=TOKEN) as mine:
        assert mine.ask().status == 401
        assert mine.ask(f"Authorization: Bearer {TOKEN}").status == 403, "that one only reads"
        assert mine.ask(f"x-functions-key: {TOKEN}", method="GET").status == 200
        assert mine.ask(BEARER).status == 202
        assert mine.ask(BEARER, path="/api/pollers", method="GET").status == 401, "and opens nothing else"
        mine.go_on.set()
        mine.ended()


def test_without_a_key_for_changes_there_is_no_tick(tmp_path: Path) -> None:
    with shop(tmp_path, changes_key=None) as mine:
        assert mine.ask(BEARER).status == 404
        assert mine.ask(method="GET").status == 404


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_another_method_is_refused(method: str, mine: Shop) -> None:
    given = mine.ask(BEARER, method=method)
    assert (given.status, given.headers["allow"]) == (405, "GET, HEAD, POST")


def test_a_paused_poller_says_so(mine: Shop) -> None:
    mine.go_on.set()
    mine.app.poller("orders").tick()
    mine.app.poller("orders").pause(by="ana")

    assert mine.ask(BEARER).status == 202
    last = mine.ended()

    assert (last["outcome"], last["rows"]) == ("paused", 0)
    assert last["message"] == "orders is paused: it delivers nothing before a resume. Run: poller resume orders"


def test_what_a_database_says_is_not_answered(mine: Shop) -> None:
    with closing(sqlite3.connect(mine.folder / "shop.db")) as opened, opened:
        opened.execute("ALTER TABLE orders RENAME TO secrets")

    mine.ask(BEARER)
    last = mine.ended()

    assert last["outcome"] == "failed"
    assert last["message"] == "The source of orders is not what its configuration says. See: poller check orders"
    assert "secrets" not in json.dumps(last)


def test_a_tick_shows_in_the_health_that_is_asked_next(mine: Shop) -> None:
    """Though what was looked up a moment ago would serve for 10 s."""
    scale = "/api/scale/orders"
    assert mine.ask(path=scale, method="GET").json["pending"] == 1
    mine.go_on.set()
    mine.ask(BEARER)
    mine.ended()
    assert mine.ask(path=scale, method="GET").json["pending"] == 0


def test_a_server_that_ends_finishes_the_batch_in_hand(tmp_path: Path) -> None:
    with shop(tmp_path) as mine:
        mine.ask(BEARER)
        wait_until(lambda: mine.seen)
    with load_app(tmp_path / "poller.toml", {}, observers=[]) as app:
        assert app.poller("orders").tick(lambda batch: None).outcome == "idle", "it was committed"
