"""Changes over real sockets: what a page of this server may do, and what comes of it."""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from poller import load_app
from poller.errors import StoreUnavailable
from poller.http import Endpoints
from tests.integration.http.changing import KEY, SECRET, Shop, shop
from tests.support.azurite import Azurite
from tests.support.quarantine import Clock
from tests.support.services import wait_until
from tests.support.telemetry import SPANS, install


@pytest.fixture
def mine(tmp_path: Path) -> Iterator[Shop]:
    with shop(tmp_path) as opened:
        yield opened


@pytest.mark.guarantee(
    "Hostile and broken input",
    "A change over HTTP is the console's, with its refusals, and names its caller in the trail; without a key for "
    "changes there is none",
)
def test_a_page_pauses_and_resumes_and_the_trail_says_who(mine: Shop) -> None:
    paused = mine.change("pause", by=" ana\n ", reason="a migration")

    assert (paused.status, paused.json) == (
        200,
        {
            "change": "pause",
            "name": "orders",
            "changed": True,
            "message": "orders is paused: no new batch starts, and one in hand is finished.",
        },
    )
    assert mine.app.poller("orders").tick().outcome == "paused"
    assert (mine.document()["control"]["by"], mine.document()["control"]["reason"]) == (
        "ana (dashboard, 127.0.0.1)",
        "a migration",
    )
    assert mine.change("pause").json["changed"] is False
    assert mine.change("resume").json["message"] == "orders works again with its next tick."
    assert mine.change("resume").json["changed"] is False
    assert mine.app.poller("orders").tick().ok
    assert [(one["kind"], one["by"]) for one in mine.audit()[1:]] == [
        ("pause", "ana (dashboard, 127.0.0.1)"),
        ("resume", "ana (dashboard, 127.0.0.1)"),
    ]


def test_after_a_change_the_next_page_shows_it(mine: Shop) -> None:
    """Though what was looked up a moment ago would serve for 10 s."""
    (row,) = mine.waiting()
    held = "1 row in quarantine waits for a person."
    assert [held in page for page in mine.pages()] == [True, True]
    assert ["Paused" in page for page in mine.pages()] == [False, False]

    mine.change("pause", reason="a migration")

    for page in mine.pages():
        assert re.search(r"Paused by ana \(dashboard, 127\.0\.0\.1\) \d+ s ago: a migration\.", page)
    mine.change("resume")
    assert ["Paused" in page for page in mine.pages()] == [False, False]
    mine.change("discard", id=row)
    assert [held in page for page in mine.pages()] == [False, False]


def test_after_a_change_that_took_long_the_next_page_shows_it(mine: Shop) -> None:
    """Also if a page was loaded while it was under way."""
    (row,) = mine.waiting()
    go_on = threading.Event()
    mine.handlers.hook = lambda _: go_on.wait(30)
    with patch.object(_changes(mine), "_patience", 0.1):
        assert mine.change("replay", id=row).status == 202
    held = "1 row in quarantine waits for a person."
    assert held in mine.pages()[1]

    go_on.set()
    _changes(mine).settle(30)

    assert held not in mine.pages()[1]


REFUSED: list[dict[str, str | None]] = [
    {"Origin": "https://evil.example"},
    {"Authorization": None},
    {"x-poller-csrf": None},
]


def test_blob_storage_keeps_a_change_as_any_store_does(azurite: Azurite, container: str, tmp_path: Path) -> None:
    with shop(tmp_path, container=container, storage=azurite.connection_string) as mine:
        (row,) = mine.waiting()
        assert mine.change("discard", id=row).json["changed"] is True
        assert mine.change("pause").json["changed"] is True
        since = azurite.mark()
        assert [mine.change("resume", headers=headers).status for headers in REFUSED] == [403] * 3
        assert azurite.requests(since) == [], "whoever is refused costs the store nothing"
        assert mine.document()["control"]["paused"] is True


def test_a_row_is_given_up_once(mine: Shop) -> None:
    (row,) = mine.waiting()

    first, again = mine.change("discard", id=row), mine.change("discard", id=row)

    assert (first.status, first.json["changed"]) == (200, True)
    assert (again.status, again.json["changed"]) == (200, False)
    assert mine.waiting() == []
    record = mine.app.poller("orders").quarantine.show(row).record
    assert record is not None
    assert record.status == "discarded"


def test_a_row_is_replayed_to_the_configured_handler(mine: Shop) -> None:
    (row,) = mine.waiting()

    given = mine.change("replay", id=row)

    assert (given.status, given.json["message"]) == (200, f"The handler took the row {row}: it waits no longer.")
    assert mine.waiting() == []
    assert mine.audit()[-1]["by"] == "ana (dashboard, 127.0.0.1)"
    assert mine.change("replay", id=row).status == 422


def test_a_handler_that_fails_on_a_replay_is_409_and_quotes_no_row(mine: Shop) -> None:
    (row,) = mine.waiting()

    def fail(batch: object) -> None:
        raise ValueError(SECRET)

    mine.handlers.hook = fail
    given = mine.change("replay", id=row)

    assert given.status == 409
    assert "The handler failed" in given.json["error"]
    assert SECRET.encode() not in given.body
    assert mine.waiting() == [row]


def test_a_newer_version_in_the_table_is_409_without_its_cursor(mine: Shop) -> None:
    (row,) = mine.waiting()
    with closing(sqlite3.connect(mine.folder / "shop.db")) as db, db:
        db.execute("UPDATE orders SET updated_at = '2026-02-02 02:02:02.000'")

    given = mine.change("replay", id=row)

    assert given.status == 409
    assert "The table has a newer version of it" in given.json["error"]
    assert b"2026-02-02" not in given.body


def test_a_replay_that_takes_long_is_202_and_the_only_change(mine: Shop) -> None:
    (row,) = mine.waiting()
    begun, go_on = threading.Event(), threading.Event()

    def wait(batch: object) -> None:
        begun.set()
        assert go_on.wait(30)

    mine.handlers.hook = wait
    with ThreadPoolExecutor(1) as caller, patch.object(_changes(mine), "_patience", 0.1):
        given = caller.submit(mine.change, "replay", id=row).result(30)
    assert (given.status, given.json["changed"]) == (202, None)
    assert begun.wait(30)
    assert "under way" in mine.change("pause").json["error"]
    go_on.set()
    wait_until(lambda: mine.waiting() == [])
    wait_until(lambda: mine.change("pause").status == 200)


def test_the_end_waits_for_a_change_and_begins_no_other(tmp_path: Path) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def wait(batch: object) -> None:
        begun.set()
        assert go_on.wait(30)

    with shop(tmp_path) as mine:
        (row,) = mine.waiting()
        mine.handlers.hook = wait
        changes = _changes(mine)
        with ThreadPoolExecutor(2) as callers:
            asked = callers.submit(mine.change, "replay", id=row)
            assert begun.wait(30)
            ending = callers.submit(changes.settle, 30.0)
            wait_until(lambda: changes._ending)
            assert mine.change("pause").status == 503
            assert not ending.done()
            go_on.set()
            ending.result(30)
            assert asked.result(30).status == 200
        assert mine.waiting() == []


def test_a_batch_in_this_process_holds_the_lease_against_a_replay(mine: Shop) -> None:
    (row,) = mine.waiting()

    assert mine.page

    with mine.app.poller("orders").alone():
        given = mine.change("replay", id=row)

    assert (given.status, mine.waiting()) == (409, [row])
    assert "holds the lease" in given.json["error"]


@pytest.mark.parametrize("change", ["replay", "discard"])
def test_a_worker_elsewhere_holds_the_lease_against_a_change(change: str, mine: Shop) -> None:
    """Its owner is not named: that is for operators."""
    (row,) = mine.waiting()
    went, stay = threading.Event(), threading.Event()

    def wait(batch: object) -> None:
        went.set()
        assert stay.wait(30)

    with closing(sqlite3.connect(mine.folder / "shop.db")) as db, db:
        db.execute("INSERT INTO orders VALUES (2, '2026-01-01 00:00:01.000')")
    with load_app(mine.folder / "poller.toml", {}, observers=[]) as other, ThreadPoolExecutor(1) as worker:
        ticking = worker.submit(other.poller("orders").tick, wait)
        assert went.wait(30)
        given = mine.change(change, id=row)
        owner = mine.document()["lease"]["owner_id"]
        stay.set()
        ticking.result(30)

    assert (given.status, mine.waiting()) == (409, [row])
    assert "A worker holds the lease of orders for up to" in given.json["error"]
    assert owner.encode() not in given.body


def test_a_store_that_is_away_is_503_and_names_no_place(mine: Shop) -> None:
    def away(*_: object, **__: object) -> object:
        raise StoreUnavailable("https://shopstate.blob.core.windows.net/db-state: no answer")

    assert mine.page
    with patch.object(type(mine.app.store), "read", away):
        given = mine.change("pause")

    assert given.status == 503
    assert given.json["error"].startswith("The state store did not answer.")
    assert b"shopstate" not in given.body


def test_a_fault_of_ours_is_500_and_ends_nothing(mine: Shop, caplog: pytest.LogCaptureFixture) -> None:
    with patch("poller.http.changes.make", side_effect=SystemExit("boom")):
        given = mine.change("pause")

    assert (given.status, given.json) == (500, {"error": "this is a fault in poller; its log says more"})
    assert "SystemExit: boom" in caplog.text
    assert mine.change("pause").status == 200


def test_ten_changes_a_minute_and_then_a_time_to_wait(tmp_path: Path) -> None:
    clock = Clock()
    with shop(tmp_path, runtime=clock) as mine:
        for number in range(10):
            clock.passed += 1
            assert mine.change("resume" if number % 2 else "pause").status == 200
        before = mine.document()
        refused = mine.change("pause")
        assert (refused.status, refused.headers["retry-after"]) == (429, "51")
        assert mine.document() == before
        clock.passed += 51
        assert mine.change("pause").status == 200
        assert mine.change("pause").status == 429


def test_many_at_once_make_each_change_once(mine: Shop) -> None:
    (row,) = mine.waiting()
    assert mine.page

    with ThreadPoolExecutor(8) as callers:
        found = list(callers.map(lambda _: mine.change("discard", id=row), range(8)))

    assert {one.status for one in found} <= {200, 409}
    assert sum(1 for one in found if one.status == 200 and one.json["changed"]) == 1
    assert [one["kind"] for one in mine.audit()].count("quarantine discard") == 1


def test_who_asks_is_one_line_and_keeps_the_address_it_came_from(mine: Shop) -> None:
    """Neither a long name nor a header can claim another address."""
    faked = "root (dashboard, 10.0.0.7)\r\nFAKE\x1b[2J\u202e" + "x" * 900

    assert mine.change("pause", by=faked, headers={"X-Forwarded-For": "10.0.0.7"}).status == 200

    by = mine.document()["control"]["by"]
    assert by.startswith(r"root (dashboard, 10.0.0.7) FAKE\x1b[2J\u202exxx")
    assert by.endswith("x (dashboard, 127.0.0.1)")
    assert len(by) < 300


@pytest.mark.guarantee("Hostile and broken input", "A change has a name that people can see")
@pytest.mark.parametrize("by", ["", " \n", "\u200b", "\u2060\ufeff \u00ad", "\u3164", "\u2800\u115f"])
def test_an_invisible_name_is_refused(mine: Shop, by: str) -> None:
    before = mine.document()
    refused = mine.change("pause", by=by)
    assert refused.status == 422
    assert "who asks" in refused.json["error"]
    assert mine.document() == before


def test_a_change_that_is_refused_is_logged_so(mine: Shop, caplog: pytest.LogCaptureFixture) -> None:
    (row,) = mine.waiting()
    mine.change("pause", reason="x" * 1_000)
    before = mine.document()
    assert mine.change("pause", reason="x" * 1_001).status == 422, "longer than the page's field"
    assert mine.change("replay", id=row).status == 409
    assert mine.document() == before
    (said,) = [one.message for one in caplog.records if "was refused" in one.message]
    assert said.startswith("orders: replay asked for by ana (dashboard, 127.0.0.1) was refused: orders is paused")


def test_no_key_and_no_row_is_in_a_log_or_span(mine: Shop, caplog: pytest.LogCaptureFixture) -> None:
    install()
    SPANS.clear()
    (row,) = mine.waiting()
    with caplog.at_level("DEBUG"):
        headers = mine.opened()
        mine.change("pause", headers=dict(headers))
        mine.change("resume", headers=dict(headers))
        assert mine.change("replay", id=row, headers=dict(headers)).status == 200
        mine.change("pause", headers={"Authorization": "Bearer of-nobody-who-may-change"})

    spans = "".join(span.to_json() for span in SPANS.get_finished_spans())
    assert "poller.handle" in spans, "the replay has a span"
    assert '"poller.name": "orders"' in spans
    for secret in (KEY, "of-nobody-who", headers["x-poller-csrf"], headers["Cookie"].partition("=")[2]):
        assert secret not in caplog.text + spans
    assert SECRET not in spans


def _changes(mine: Shop) -> Any:
    endpoints = mine.server._answer
    assert isinstance(endpoints, Endpoints)
    assert endpoints.changes is not None
    return endpoints.changes
