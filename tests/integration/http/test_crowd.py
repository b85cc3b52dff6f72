"""Endpoints of an application with a store and a database: what a crowd of callers costs, and when they hear what."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest

from poller import Batch
from poller.admin import Health, PollerStatus
from poller.admin import round as looking
from poller.admin.look import Look, Looked
from poller.http import HttpServer, serve
from tests.integration.health.shop import Shop, table
from tests.support.http import Received, request, send
from tests.support.quarantine import Clock, Cut


@contextmanager
def counted() -> Iterator[list[str]]:
    """The names of the pollers that are looked at meanwhile."""
    looks: list[str] = []

    class Counted(Look):
        def __call__(self) -> Looked[PollerStatus]:
            looks.append(self.name)
            return super().__call__()

    with patch.object(looking, "Look", Counted):
        yield looks


def ask(server: HttpServer, path: str = "/api/health") -> Received:
    given = send(server.port, request(path))
    assert given is not None
    return given


def crowd(*servers: HttpServer) -> set[int]:
    """The answers to a hundred callers at once, in turn at each server."""
    with ThreadPoolExecutor(50) as callers:
        return set(callers.map(lambda n: ask(servers[n % len(servers)]).status, range(100)))


@pytest.mark.guarantee(
    "Hostile and broken input",
    "A hundred callers of a process cost one look at the databases in 10 seconds, and dead workers are 503 within "
    "`max_lag` and 10 seconds",
)
def test_a_hundred_callers_cost_one_look_in_10_seconds(tmp_path: Path) -> None:
    """Of each process: what another found is not believed."""
    shop = Shop(tmp_path)
    with serve(shop.app, "0", environ={}) as server, counted() as looks:
        assert crowd(server) == {200}
        assert looks == ["orders"]
        shop.clock.passed += 9.9
        assert crowd(server) == {200}
        assert looks == ["orders"]
        shop.clock.passed += 0.2
        assert crowd(server) == {200}
        assert looks == ["orders"] * 2


def test_a_hundred_viewers_cost_no_more_looks_and_one_read(tmp_path: Path) -> None:
    """Of the page of one poller: it asks no database that its health did not ask."""
    shop = Shop(tmp_path)
    shop.row(1)
    shop.tick()
    store = Cut(shop.store)
    with patch.object(shop.app, "_store", store), serve(shop.app, "0", environ={}) as server, counted() as looks:
        paths = ["/api/dashboard", "/api/dashboard/orders"]
        assert [ask(server, path).status for path in paths] == [200, 200]
        store.requests.clear()
        with ThreadPoolExecutor(50) as callers:
            found = list(callers.map(lambda n: ask(server, paths[n % 2]), range(100)))

    assert {one.status for one in found} == {200}
    assert looks == ["orders"]
    assert store.requests == [], "clocks stand still, so what was read a moment ago serves"
    assert b"2026-04-07 00:00:00Z" in found[1].body
    assert b"As a table" in found[1].body, "the commit is in the charts"


@pytest.mark.parametrize("ahead", [3600.0, -3600.0])
def test_pages_tell_ages_by_the_stores_clock(ahead: float, tmp_path: Path) -> None:
    shop, wrong = Shop(tmp_path), Clock()
    shop.row(1)
    shop.tick()
    shop.clock.passed += 120
    wrong.passed = ahead
    with serve(shop.another(wrong), "0", environ={}) as server:
        pages = [ask(server, path).body.decode() for path in ("/api/dashboard", "/api/dashboard/orders")]

    for page in pages:
        assert 'as of <time datetime="2026-04-07 00:02:00Z">' in page
        assert ">2 min ago</time>" in page


@pytest.mark.guarantee(
    "Never silently dead",
    "A hundred callers of a process cost one look at the databases; no result is read back from the store, and an "
    "idle look writes nothing",
)
def test_a_crowd_starts_a_thread_for_a_look_and_not_for_a_caller(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    before, most = threading.active_count(), [0]
    look = shop.app.health

    def seen(names: Sequence[str]) -> Health:
        most[0] = max(most[0], sum(one.name == "poller-http-look" for one in threading.enumerate()))
        return look(names)

    with patch.object(shop.app, "health", seen), serve(shop.app, "0", environ={}) as server:
        assert crowd(server) == {200}

    assert most == [1]
    assert threading.active_count() - before <= 4, "those that looked at databases may wait for the next look"


def test_dead_workers_are_503_within_max_lag_and_10_seconds(tmp_path: Path) -> None:
    shop = Shop(tmp_path, table("orders", poller='max_lag = "60s"\nschedule = "* * * * * *"'))
    shop.tick()
    with serve(shop.app, "0", environ={}) as server:
        assert ask(server).status == 200
        shop.clock.passed += 9.9
        shop.row(1)  # and no worker ticks any more
        began = shop.clock.passed
        while ask(server).status == 200:
            shop.clock.passed += 0.5
            assert shop.clock.passed - began <= 60 + 10 + 2, "a second until its tick was due, and half of one here"
        assert shop.clock.passed - began > 60
        (found,) = ask(server, "/api/pollers").json["pollers"]
        assert (found["name"], found["healthy"], found["pending"]) == ("orders", False, 1)
        assert (found["word"], found["sentence"].endswith("max_lag is 60 s.")) == ("late", True)

        shop.tick()
        shop.clock.passed += 10.1

        assert ask(server).status == 200


def test_a_database_that_is_away_is_503_and_no_zero(tmp_path: Path) -> None:
    shop = Shop(tmp_path, table("orders"), table("gone", url="sqlite:///nowhere/secret-place.db"))
    with serve(shop.app, "0", environ={}) as server:
        assert ask(server).status == 503
        given = ask(server, "/api/pollers/gone")
        assert (given.status, given.json["healthy"]) == (200, False)
        assert ask(server, "/api/scale/gone").status == 503
        assert ask(server, "/api/pollers/orders").json["healthy"], "one poller's trouble hides no other"
    assert b"secret-place" not in given.body


def test_no_answer_shows_what_a_row_holds(tmp_path: Path) -> None:
    shop = Shop(tmp_path, table("orders", poller="error_text = false"))
    with closing(sqlite3.connect(tmp_path / "shop.db", isolation_level=None)) as database:
        database.execute("INSERT INTO orders VALUES (1, '2026-01-01 Jane Doe')")
    with serve(shop.app, "0", environ={}) as server:
        given = ask(server, "/api/pollers")

    assert given.json["pollers"][0]["sentence"] == "Its table cannot be read."
    assert b"Jane" not in given.body


def test_a_poller_that_only_failed_says_so_without_the_row(tmp_path: Path) -> None:
    """Its document was created, and nothing was committed; its error's text and the row's key are an operator's."""
    shop = Shop(tmp_path, table("orders", poller="max_attempts = 1"))
    shop.row(7341, age=60)

    def fail(batch: Batch) -> None:
        raise LookupError("Jane Doe has no address")

    shop.tick(fail)
    with serve(shop.app, "0", environ={}) as server:
        page = ask(server, "/api/dashboard/orders").body.decode()
        listed = ask(server, "/api/dashboard").body.decode()
        paths = ["health", "pollers", "pollers/orders", "scale/orders"]
        answers = [ask(server, f"/api/{path}").body.decode() for path in paths]

    assert "<p>Failing, 1 call failed; next try in " in page
    assert "<p>Its last error: LookupError.</p>" in page
    assert "<dt>Last commit</dt><dd>none yet</dd>" in page
    (status,) = shop.app.status().pollers
    assert "Jane Doe" in (status.conditions[0].detail or "")
    assert "7341" in (status.conditions[0].do or "")
    for answer in [page, listed, *answers]:
        assert [private for private in ("Jane", "7341") if private in answer] == []
    assert [field for field in ('"detail"', '"do"') for answer in answers if field in answer] == []


def test_refused_changes_cost_the_store_nothing(tmp_path: Path) -> None:
    """Any page of another origin can send them: what was read a moment ago serves on."""
    shop = Shop(tmp_path)
    shop.row(1)
    shop.tick()
    store = Cut(shop.store)
    with patch.object(shop.app, "_store", store), serve(shop.app, "0", environ={}, changes_key="k" * 32) as server:
        page, changes = "/api/dashboard/orders", "/api/dashboard/orders/changes"
        assert ask(server, page).status == 200
        store.requests.clear()
        for _ in range(3):
            refused = send(server.port, request(changes, "Content-Length: 0", method="POST"))
            assert refused is not None
            assert refused.status == 415
            assert ask(server, page).status == 200

    assert store.requests == []
