"""What looks remember from one process to the next, and what a store that others write can do to it: nothing much."""

from __future__ import annotations

import json
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from poller.admin.memory import LARGEST, LookMemory
from poller.admin.quick import WHOLE_EVERY
from poller.admin.round import AppHealth, Looks
from poller.errors import StoreDenied, StoreError, StoreUnavailable
from poller.model.memory import PollerMemory
from poller.ports import Found, Written
from poller.sources import SqlSource
from poller.stores import MemoryStore
from tests.integration.health.shop import KEPT, LOOK, Shop, table
from tests.support.quarantine import Clock

NUMBERS = (
    table("orders", source='cursor_kind = "integer+pk"')
    .replace('cursor_time_zone = "UTC"\n', "")
    .replace('cursor_column = "updated_at"', 'cursor_column = "id"')
)


def numbered(folder: Path, store: MemoryStore | None = None, clock: Clock | None = None) -> Shop:
    """Its poller delivered row 1 a day ago, and row 2 waits."""
    shop = Shop(folder, NUMBERS, store=store, clock=clock)
    shop.row(1)
    assert shop.tick() == "delivered"
    shop.clock.passed += 86_400
    shop.row(2)
    return shop


def halted(folder: Path) -> Shop:
    shop = Shop(folder, table("orders", poller='on_poison = "halt"\nmax_attempts = 1\nretry_backoff = "1ms"'))
    shop.row(1)

    def fail(_: object) -> None:
        raise ValueError

    while shop.tick(fail) != "halted":
        shop.clock.sleep(1)
    return shop


def test_a_later_process_finds_numbers_that_no_worker_delivers(tmp_path: Path) -> None:
    shop = numbered(tmp_path)
    (said,) = shop.ask().pollers
    assert (said.word, said.severity) == ("late", "warning"), "they may have come just now"
    shop.clock.passed += 380
    (said,) = shop.ask(shop.another()).pollers
    assert (said.word, said.severity) == ("late", "unhealthy")
    shop.tick()
    shop.clock.passed += 120
    assert shop.ask(shop.another()).healthy
    shop.clock.passed += LOOK
    assert shop.document() == {"version": 2, "seen": {}}, "nothing waits any more"


def test_an_idle_look_writes_nothing(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.row(1, age=2000)
    shop.tick()
    for _ in range(3):
        shop.clock.passed += 400
        assert shop.ask().healthy
    shop.row(2, age=1000)
    shop.clock.passed += 400
    assert not shop.ask().healthy, "a time says itself since when it waits"
    assert shop.document() is None


def old(text: str) -> dict[str, Any]:
    return {"seen": {"orders": {"waiting_since": text, "clear_at": text, "above_since": text, "unborn_since": text}}}


FOREIGN: dict[str, bytes] = {
    "empty": b"",
    "null": b"null",
    "cut": b"{",
    "newer": b'{"version": 3, "seen": {}}',
    "a result": json.dumps(
        {"version": 1, "health": {"app_name": "shop", "healthy": True, "computed_at": "2100-01-01T00:00:00Z"}}
    ).encode(),
    "shape": b'{"seen": 5}',
    "deep": b"[" * 5000,
    "large": b" " * 70_000 + b'{"version": 2, "seen": {}}',
    "future": json.dumps(old("9000-01-01T00:00:00Z")).encode(),
    "past": json.dumps(old("0001-01-01T00:00:00Z")).encode(),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_what_others_put_there_hides_no_trouble(tmp_path: Path, name: str) -> None:
    shop = halted(tmp_path)
    shop.store.write(KEPT, FOREIGN[name], if_tag=None)
    for app in (shop.app, shop.another()):
        (said,) = shop.ask(app).pollers
        assert (said.word, said.severity) == ("halted", "unhealthy")


@pytest.mark.parametrize("name", FOREIGN)
def test_what_others_put_there_makes_no_working_one_late(tmp_path: Path, name: str) -> None:
    shop = Shop(tmp_path, NUMBERS)
    shop.row(1)
    assert shop.tick() == "delivered"
    shop.row(2)
    shop.store.write(KEPT, FOREIGN[name], if_tag=None)
    assert shop.ask().healthy
    assert shop.tick() == "delivered"


@pytest.mark.parametrize("moment", ["clear_at", "waiting_since", "above_since", "unborn_since"])
def test_a_forged_moment_hides_no_row_that_is_late(tmp_path: Path, moment: str) -> None:
    """Not even one of a moment ago: a time says itself since when it waits."""
    shop = Shop(tmp_path)
    shop.row(1, age=2000)
    assert shop.tick() == "delivered"
    shop.row(2, age=1000)
    shop.clock.passed += 2000
    at = f"{shop.clock.utcnow() - timedelta(seconds=5):%Y-%m-%dT%H:%M:%SZ}"
    shop.put({"version": 2, "seen": {"orders": {moment: at}}})
    (said,) = shop.ask(shop.another()).pollers
    assert (said.word, said.severity) == ("late", "unhealthy")


def test_a_look_at_some_keeps_what_is_known_of_others(tmp_path: Path) -> None:
    second = NUMBERS.replace("[pollers.orders", "[pollers.second")
    shop = Shop(tmp_path, NUMBERS, second)
    shop.row(1)
    for name in ("orders", "second"):
        shop.app.pollers[name].tick(lambda _: None)
    shop.clock.passed += 86_400
    shop.row(2)
    shop.ask()
    document = shop.document()
    assert document is not None
    assert list(document["seen"]) == ["orders", "second"]
    shop.clock.passed += 400
    (said,) = shop.another().health("second").pollers
    assert (said.name, said.healthy) == ("second", False)
    shop.write(NUMBERS)
    shop.ask(shop.another())
    document = shop.document()
    assert document is not None
    assert list(document["seen"]) == ["orders"], "one that is no longer configured is forgotten"


class ReadOnly(MemoryStore):
    """A store in which nothing of health is written; a real one asks a cloud who that is, or has an outage."""

    refusal: type[StoreError] = StoreDenied

    def write(self, name: str, body: bytes, **options: Any) -> Written:
        if name == KEPT:
            raise self.refusal("403, or 503", document=name)
        return super().write(name, body, **options)


@pytest.mark.parametrize("refusal", [StoreDenied, StoreUnavailable])
def test_without_the_right_to_write_a_process_remembers(tmp_path: Path, refusal: type[StoreError]) -> None:
    clock = Clock()
    store = ReadOnly(clock)
    store.refusal = refusal
    shop = numbered(tmp_path, store, clock)
    assert shop.ask().healthy
    shop.clock.passed += 380
    assert not shop.ask().healthy
    assert shop.ask(shop.another()).healthy, "another one looks for the first time"


@contextmanager
def whole_looks() -> Iterator[list[object]]:
    """Sources that are opened meanwhile to look at a table as a whole."""
    opened: list[object] = []
    another = SqlSource.another

    def noted(self: SqlSource) -> SqlSource:
        opened.append(self)
        return another(self)

    with patch.object(SqlSource, "another", noted):
        yield opened


def test_if_nothing_waits_one_statement_shows_that(tmp_path: Path) -> None:
    shop = Shop(tmp_path, table("orders", source='on_null_cursor = "skip"'))
    with closing(sqlite3.connect(tmp_path / "shop.db")) as db, db:
        db.execute("DROP TABLE orders")
        db.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, updated_at TEXT)")
        db.execute("INSERT INTO orders VALUES (100, NULL)")
    shop.row(1)
    shop.tick()
    now = [0.0]
    health = AppHealth(shop.app, Looks(monotonic=lambda: now[0]))
    with whole_looks() as opened:
        for _ in range(4):
            (said,) = health.compute(["orders"]).pollers
            assert (said.word, said.pending, said.lag_seconds) == ("unread", 0, 0.0)
        assert len(opened) == 1
        shop.row(2)
        (said,) = health.compute(["orders"]).pollers
        assert (said.pending, len(opened)) == (1, 2)
        shop.tick()
        now[0] += WHOLE_EVERY
        health.compute(["orders"])
        assert len(opened) == 3


def test_no_quick_look_takes_trouble_for_nothing(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.row(1)
    shop.tick()
    health = AppHealth(shop.app)
    assert health.compute(["orders"]).healthy
    with closing(sqlite3.connect(tmp_path / "shop.db")) as db:
        db.execute("DROP TABLE orders")
    for _ in range(2):
        (said,) = health.compute(["orders"]).pollers
        assert said.word == "source_unreadable"


def test_a_database_that_hangs_delays_no_other(tmp_path: Path) -> None:
    """It takes connections, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as hung:
        url = f"postgresql+psycopg://ada@127.0.0.1:{hung.getsockname()[1]}/shop"
        names = [f"hangs-{n}" for n in range(4)]
        shop = Shop(tmp_path, table("orders"), *(table(name, url=url) for name in names))
        shop.row(1)
        shop.tick()
        health = AppHealth(shop.app, Looks(timeout=2.0))
        for _ in range(2):
            found = {one.name: one for one in health.compute(["orders", *names]).pollers}
            assert found["orders"].healthy
            for name in names:
                assert found[name].word == "source_away"
                assert found[name].exists is False, "its document was read"


def test_what_is_kept_has_a_limit() -> None:
    """Two thousand pollers that never ran: as many are kept as a document may hold."""
    store, at = MemoryStore(), datetime(2026, 4, 7, 12, 0, 0, 123456, tzinfo=UTC)
    seen = {f"p{n:04d}": PollerMemory(unborn_since=at) for n in range(2000)}
    LookMemory(store, "shop").note(seen, seen, seen)
    found = store.read(KEPT)
    assert isinstance(found, Found)
    assert LARGEST / 2 < len(found.body) <= LARGEST
    assert len(LookMemory(store, "shop").read()) > 500
