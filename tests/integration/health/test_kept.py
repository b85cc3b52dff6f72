"""The kept health: who computes, who answers meanwhile, and what becomes of one who died over it."""

from __future__ import annotations

import base64
import json
import socket
import sqlite3
import tracemalloc
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from poller.admin import health_round, kept_document
from poller.admin.health import Health
from poller.admin.health_look import Look, Looked
from poller.admin.health_quick import WHOLE_EVERY
from poller.admin.health_round import Looks
from poller.admin.kept_document import LARGEST_UNPACKED, Claim, KeptDocument, parsed, written
from poller.admin.kept_health import CLAIM, WAIT, KeptHealth
from poller.errors import StoreDenied, StoreError, StoreUnavailable
from poller.model.health_memory import Seen
from poller.model.limits import HELD_EVERYWHERE, LARGEST_BODY
from poller.ports import Found, Written
from poller.sources import SqlSource
from poller.stores import MemoryStore
from tests.integration.health.shop import KEPT, LOOK, Shop, table


@contextmanager
def counted() -> Iterator[list[str]]:
    """The names of the pollers that are looked at meanwhile."""
    looks: list[str] = []

    class Counted(Look):
        def __call__(self) -> Looked:
            looks.append(self.name)
            return super().__call__()

    with patch.object(health_round, "Look", Counted):
        yield looks


def claimed(shop: Shop, **more: Any) -> None:
    """Another process has just begun to compute."""
    at = shop.clock.utcnow().isoformat()
    shop.put({**(shop.document() or {}), "claim": {"id": "another", "at": at}, **more})


def test_it_is_computed_when_it_is_older_than_15_seconds(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    with counted() as looks:
        first = shop.ask()
        shop.clock.passed += 14
        assert shop.ask() == first
        shop.clock.passed += 1
        assert shop.ask().computed_at > first.computed_at
    assert len(looks) == 2


def test_nothing_is_written_where_nobody_asks(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.row(1)
    shop.tick()
    shop.app.status()
    shop.app.check()
    assert shop.document() is None


def test_the_others_answer_with_the_last_one(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    last = shop.ask()
    shop.clock.passed += LOOK
    claimed(shop)
    with counted() as looks:
        assert shop.ask() == last
    assert looks == []


def test_one_who_died_over_it_is_replaced(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    last = shop.ask()
    shop.clock.passed += LOOK
    claimed(shop)
    shop.clock.passed += CLAIM + 1
    assert shop.ask().computed_at > last.computed_at
    document = shop.document()
    assert document is not None
    assert "claim" not in document


def test_without_a_last_one_they_wait_for_a_limited_time(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    claimed(shop)
    before = shop.clock.passed
    found = shop.ask()
    assert shop.clock.passed - before == pytest.approx(WAIT, abs=1)
    assert not found.healthy
    assert [one.name for one in found.pollers] == ["orders"]
    shop.clock.passed += CLAIM
    assert shop.ask().healthy


def test_an_old_one_does_not_serve_for_ever(tmp_path: Path) -> None:
    """It says that all was well an hour ago."""
    shop = Shop(tmp_path)
    assert shop.ask().healthy
    shop.clock.passed += 3600
    claimed(shop)
    assert not shop.ask().healthy


def packed(body: bytes) -> bytes:
    return json.dumps({"packed": base64.b64encode(zlib.compress(body)).decode()}).encode()


FOREIGN = {
    "empty": b"",
    "null": b"null",
    "cut": b"{",
    "newer": b'{"version": 2}',
    "shape": b'{"seen": 5}',
    "deep": b"[" * 5000,
    "large": b" " * LARGEST_BODY + b"{}",
    "no packing": b'{"packed": "%%%"}',
    "no compression": b'{"packed": "AAAA"}',
    "packed null": packed(b"null"),
    "packed nothing": packed(b""),
    "packed bomb": packed(b" " * (LARGEST_UNPACKED + 1)),
    "packed values": packed(b'{"version": 1, "seen": {}, "x": [' + b"[]," * 5_000_000 + b"1]}"),
    "half": packed(b"{}" * 500)[:60] + b'"}',
}


@pytest.mark.parametrize("body", [pytest.param(body, id=name) for name, body in FOREIGN.items()])
def test_what_is_not_ours_is_replaced(tmp_path: Path, body: bytes) -> None:
    shop = Shop(tmp_path)
    shop.store.write(KEPT, body, if_tag=None)
    assert shop.ask().healthy
    document = shop.document()
    assert document is not None
    assert document["version"] == 1


def test_a_small_packed_document_takes_little_memory(tmp_path: Path) -> None:
    """Who may write the container may put one there, and anyone may ask for the health."""
    shop = Shop(tmp_path)
    body = FOREIGN["packed values"]
    assert len(body) < 30_000
    shop.store.write(KEPT, body, if_tag=None)
    shop.ask(shop.another())
    shop.store.write(KEPT, body, if_tag=shop.store.read(KEPT).tag)  # type: ignore[union-attr]
    tracemalloc.start()
    try:
        assert shop.ask(shop.another()).healthy
        assert tracemalloc.get_traced_memory()[1] < 100_000_000
    finally:
        tracemalloc.stop()


def test_one_of_the_future_is_computed_anew(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.clock.passed += 86_400
    shop.ask()
    shop.clock.passed -= 86_400
    with counted() as looks:
        shop.ask(shop.another())
    assert looks == ["orders"]


def test_a_look_at_some_keeps_what_is_known_of_others(tmp_path: Path) -> None:
    shop = Shop(tmp_path, table("orders"), table("late").replace('table = "late"', 'table = "orders"'))
    shop.row(1)
    shop.app.health()
    shop.clock.passed += 400
    (said,) = shop.app.health("late").pollers
    assert (said.name, said.healthy) == ("late", False)
    assert {one.name for one in shop.ask().pollers} == {"orders", "late"}


def test_names_that_are_no_longer_configured_are_forgotten(tmp_path: Path) -> None:
    shop = Shop(tmp_path, table("orders"), table("late").replace('table = "late"', 'table = "orders"'))
    shop.ask()
    shop.write(table("orders"))
    shop.clock.passed += LOOK
    assert [one.name for one in shop.ask(shop.another()).pollers] == ["orders"]
    document = shop.document()
    assert document is not None
    assert list(document["seen"]) == ["orders"]


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


def test_where_nothing_waits_one_statement_shows_that(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.row(1)
    shop.tick()
    now = [0.0]
    health = KeptHealth(shop.app, Looks(monotonic=lambda: now[0]))
    with whole_looks() as opened:
        for _ in range(4):
            (said,) = health.compute(["orders"]).pollers
            assert (said.healthy, said.pending, said.lag_seconds) == (True, 0, 0.0)
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
    health = KeptHealth(shop.app)
    assert health.compute(["orders"]).healthy
    with closing(sqlite3.connect(tmp_path / "shop.db")) as db:
        db.execute("DROP TABLE orders")
    for _ in range(2):
        (said,) = health.compute(["orders"]).pollers
        assert said.reason == "Its table cannot be read."


class ReadOnly(MemoryStore):
    """A store in which nothing of health is written; a real one asks a cloud who that is, or has an outage."""

    refusal: type[StoreError] = StoreDenied

    def write(self, name: str, body: bytes, **options: Any) -> Written:
        if name == KEPT:
            raise self.refusal("403, or 503", document=name)
        return super().write(name, body, **options)


@pytest.mark.parametrize("kind", [None, ReadOnly], ids=["kept", "not kept"])
def test_a_look_that_takes_long_is_made_more_rarely(tmp_path: Path, kind: type[MemoryStore] | None) -> None:
    """Looking must not become what a process does."""
    shop = Shop(tmp_path, store=None if kind is None else kind())

    class Slow(Look):
        def __call__(self) -> Looked:
            shop.clock.passed += 20
            return super().__call__()

    with patch.object(health_round, "Look", Slow):
        first = shop.ask()
    shop.clock.passed += 50
    assert shop.ask() == first
    shop.clock.passed += 11
    assert shop.ask().computed_at > first.computed_at


@pytest.mark.parametrize("refusal", [StoreDenied, StoreUnavailable])
def test_who_may_only_read_computes_once_for_his_process(tmp_path: Path, refusal: type[StoreError]) -> None:
    store = ReadOnly()
    store.refusal = refusal
    shop = Shop(tmp_path, store=store)
    with counted() as looks:
        assert shop.ask().healthy
        assert shop.ask().healthy
        assert shop.app.health().healthy
    assert len(looks) == 2


def test_a_database_that_hangs_delays_no_other(tmp_path: Path) -> None:
    """It takes connections, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as hung:
        url = f"postgresql+psycopg://ada@127.0.0.1:{hung.getsockname()[1]}/shop"
        names = [f"hangs-{n}" for n in range(4)]
        shop = Shop(tmp_path, table("orders"), *(table(name, url=url) for name in names))
        shop.row(1)
        shop.tick()
        health = KeptHealth(shop.app, Looks(timeout=0.3))
        for _ in range(2):
            found = {one.name: one for one in health.compute(["orders", *names]).pollers}
            assert found["orders"].healthy
            for name in names:
                assert found[name].reason == "Its database cannot be reached, or did not answer in time."
                assert found[name].exists is False, "its document was read"


def test_another_who_takes_long_is_no_alarm(tmp_path: Path) -> None:
    """The last look took a minute, so the next one may: the last result serves until it must be over."""
    shop = Shop(tmp_path)
    last = shop.ask()
    shop.put({**(shop.document() or {}), "took_seconds": 60.0})
    shop.clock.passed += 241
    claimed(shop)
    for _ in range(11):
        shop.clock.passed += 10
        assert shop.ask(shop.another()) == last
    shop.clock.passed += 20
    assert shop.ask(shop.another()).computed_at > last.computed_at, "whoever had it is dead"


def test_a_planted_duration_serves_no_old_result_for_long(tmp_path: Path) -> None:
    """Whoever can write the container may say that a look took ten minutes."""
    shop = Shop(tmp_path)
    last = shop.ask()
    shop.put({**(shop.document() or {}), "took_seconds": 600.0})
    shop.clock.passed += 241
    assert shop.ask(shop.another()).computed_at > last.computed_at
    shop.put({**(shop.document() or {}), "took_seconds": 600.0})
    shop.clock.passed += 241
    claimed(shop)
    last = shop.ask(shop.another())
    shop.clock.passed += 121
    assert shop.ask(shop.another()).computed_at > last.computed_at, "the claim too counts for no longer"


def test_what_only_some_stores_would_hold_is_packed(tmp_path: Path) -> None:
    """Of an entity in Table Storage there is room for less than 1 MiB."""
    shop = Shop(tmp_path)
    found = shop.ask()
    (one,) = found.pollers
    document = parsed(json.dumps(shop.document()).encode())
    long = one.model_copy(update={"reason": "x" * (HELD_EVERYWHERE - 200)})
    body, _ = written(document.model_copy(update={"health": found.model_copy(update={"pollers": [long]})}))
    assert len(body) <= HELD_EVERYWHERE
    assert b"packed" in body


@pytest.mark.parametrize("extra", [0, 5000], ids=["few", "thousands"])
def test_thousands_of_pollers_are_kept(tmp_path: Path, extra: int) -> None:
    """As text they have more than the 1 MiB that a document may have."""
    shop = Shop(tmp_path)
    found = shop.ask()
    (one,) = found.pollers
    text = {"error": "Its database cannot be reached, or did not answer in time.", "reason": "The same."}
    many = [one.model_copy(update={"name": f"orders-{n}", **text}) for n in range(extra)]
    document = parsed(json.dumps(shop.document()).encode())
    health = found.model_copy(update={"pollers": [one, *many]})
    seen = {poller.name: document.seen["orders"] for poller in health.pollers}
    body, _ = written(document.model_copy(update={"health": health, "seen": seen}))
    assert len(body) <= LARGEST_BODY
    before = shop.store.read(KEPT)
    assert isinstance(before, Found)
    shop.store.write(KEPT, body, if_tag=before.tag)
    with counted() as looks:
        assert shop.ask(shop.another()) == health
    assert looks == []


def test_a_result_that_is_too_large_is_kept_without_the_best(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else each caller would have it computed again: an anonymous GET would keep the databases at work."""
    monkeypatch.setattr(kept_document, "HELD_EVERYWHERE", 800)
    bad = [f"bad-{n}" for n in range(20)]
    good = [f"good-{n}" for n in range(20)]
    tables = [table(name).replace(f'table = "{name}"', 'table = "orders"') for name in good]
    shop = Shop(tmp_path, *map(table, bad), *tables)
    with counted() as looks:
        whole = shop.ask()
        assert len(looks) == len(whole.pollers) == 40
        asked = [shop.ask(shop.another()) for _ in range(3)]
        assert len(looks) == 40
    found = asked[-1]
    assert not found.healthy
    listed = len(found.pollers)
    assert 0 < listed < 40
    assert [one.name for one in found.pollers] == [one.name for one in whole.pollers][:listed], "the worst ones"
    (warning,) = found.warnings
    unhealthy = max(0, len(bad) - listed)
    assert warning.condition == "unlisted"
    assert f"{listed} worst pollers: {40 - listed} more" in warning.sentence
    assert f"{unhealthy} are unhealthy" in warning.sentence
    shop.clock.passed += LOOK
    with counted() as looks:
        assert len(shop.ask(shop.another()).pollers) == 40, "who looks knows all of them"
    assert len(looks) == 40


def test_of_any_number_of_pollers_as_many_are_kept_as_can_be_read(tmp_path: Path) -> None:
    """A document may have only so many values, too."""
    number, shop = 20_000, Shop(tmp_path)
    found = shop.ask()
    (one,) = found.pollers
    many = [one.model_copy(update={"name": f"orders-{n}", "healthy": n > 10, "reason": f"{n}"}) for n in range(number)]
    health = found.model_copy(update={"pollers": many})
    document = parsed(json.dumps(shop.document()).encode())
    seen = {poller.name: document.seen["orders"] for poller in many}
    body, _ = written(document.model_copy(update={"health": health, "seen": seen}))
    assert len(body) <= HELD_EVERYWHERE
    kept = parsed(body)
    assert kept.health is not None
    assert kept.health.pollers == many[: len(kept.health.pollers)]
    assert len(kept.health.pollers) + kept.unlisted == number
    assert len(kept.seen) == number


def test_what_another_program_made_too_large_is_replaced() -> None:
    at, long = datetime.now(UTC), "x" * LARGEST_UNPACKED
    seen = {"orders": Seen(clear_at=at)}
    planted = [KeptDocument(claim=Claim(id=long, at=at), seen=seen)]
    planted.append(KeptDocument(health=Health(app_name=long, healthy=True, computed_at=at), seen=seen))
    for document in planted:
        assert written(document)[1] == KeptDocument()
