"""The status page as a plain client gets it: to whom, with which headers, and what it never says."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest

from poller.admin import PollerStatus
from poller.errors import StoreUnavailable
from poller.http import Answer, Endpoints, Request
from poller.http.page.detail_looks import DetailLooks
from poller.http.page.pages import poller_page
from poller.http.sessions import PageSession
from poller.http.shown import shown_health
from tests.support.dashboard import (
    NOW,
    Shop,
    ago,
    at_work,
    busy_shop,
    change,
    document,
    history,
    hostile_shop,
    iso,
    poller,
    waiting,
    waits,
)
from tests.support.foreign import VALUES, paths, with_value
from tests.support.http import SECURITY, TOKEN

HOST = ("host", "localhost:8080")
KEY = ("x-functions-key", TOKEN)
LIST, ONE = "/api/dashboard", "/api/dashboard/shipments"
NONCE = re.compile(r"nonce-[\w-]{24}|nonce=\"[\w-]{24}\"")


def ask(served: Endpoints, path: str = LIST, *headers: tuple[str, str], method: str = "GET", query: str = "") -> Answer:
    return served(Request(method, path, query, headers=(HOST, *headers)))


def text(given: Answer) -> str:
    return given.body.decode()


def bare(given: Answer) -> tuple[Any, ...]:
    """All of an answer but its nonces."""
    return given.status, NONCE.sub("", repr(given.headers)), NONCE.sub("", text(given))


def names(given: Answer) -> list[str]:
    return re.findall(r'href="dashboard/([\w-]+)"', text(given))


# --- who asks


@pytest.mark.parametrize("headers", [[], [("x-functions-key", TOKEN[:-1])], [("cookie", f"key={TOKEN}")]])
def test_without_a_key_every_page_is_the_same_sign_in(headers: list[tuple[str, str]]) -> None:
    shop = busy_shop()
    served = shop.endpoints(TOKEN)
    paths = (LIST, ONE, f"{LIST}/nobody", f"{LIST}/%6frders", f"{LIST}/a/b/c", f"{LIST}/")

    given = [ask(served, path, *headers, query=f"code={TOKEN}&key={TOKEN}") for path in paths]

    assert len({bare(one) for one in given}) == 1
    assert len({one.headers for one in given}) == len(paths), "each with nonces of its own"
    assert given[0].status == 401
    assert dict(given[0].headers)["WWW-Authenticate"] == 'Bearer realm="poller"'
    assert 'id="key"' in text(given[0])
    assert "<form" not in text(given[0])
    assert TOKEN not in text(given[0])
    assert shop.looks == 0


def test_with_a_key_unknown_pages_are_404_before_any_look() -> None:
    shop = busy_shop()
    served = shop.endpoints(TOKEN)

    given = [ask(served, f"{LIST}/{name}", KEY) for name in ("nobody", "%6frders", "a/b", "ORDERS", "a" * 64, "")]

    assert {one.status for one in given} == {404}
    assert 'href="../dashboard"' in text(given[0])
    assert 'href="../../dashboard"' in text(given[2])
    assert 'href="../dashboard"' in text(ask(served, f"{LIST}/dashboard", KEY))
    assert shop.looks == 0


@pytest.mark.parametrize("path", [LIST, ONE])
def test_a_page_is_read_by_get_and_head_alone(path: str) -> None:
    served = busy_shop().endpoints(TOKEN)

    get, head = ask(served, path, KEY), ask(served, path, KEY, method="HEAD")
    refused = [ask(served, path, KEY, method=method) for method in ("POST", "PUT", "DELETE", "BREW")]

    assert (head.status, head.body, head.length) == (200, b"", get.length)
    assert {(one.status, dict(one.headers)["Allow"]) for one in refused} == {(405, "GET, HEAD")}


@pytest.mark.parametrize("path", [LIST, ONE, f"{LIST}/nobody"])
def test_a_page_is_fenced_in_by_its_headers(path: str) -> None:
    first, second = (ask(busy_shop().endpoints(), path) for _ in range(2))
    headers = {name.lower(): value for name, value in first.headers}
    policy = re.fullmatch(
        r"default-src 'none'; style-src 'nonce-([\w-]{24})'; script-src 'nonce-([\w-]{24})'; connect-src 'self'; "
        r"form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
        headers["content-security-policy"],
    )

    assert policy is not None
    assert f'<style nonce="{policy[1]}">' in text(first)
    assert f'<script nonce="{policy[2]}">' in text(first)
    assert first.headers != second.headers
    assert headers["content-type"] == "text/html; charset=utf-8"
    assert {name: headers[name] for name in SECURITY if name != "content-security-policy"} == {
        name: value for name, value in SECURITY.items() if name != "content-security-policy"
    }
    assert "access-control" not in repr(headers).lower()
    assert "set-cookie" not in headers


def test_a_page_ignores_keys_and_other_fields_of_the_address() -> None:
    served = busy_shop().endpoints()

    plain, other = (ask(served, LIST, query=query) for query in ("", "code=secret-code&x=<script>" + "y" * 4000))

    assert bare(plain) == bare(other)


def test_nothing_of_the_page_is_imported_before_one_is_asked_for() -> None:
    code = """
import sys
import poller, poller_cli.main
from poller.http import serve
from poller.http.serving import endpoints_of
print(*(name for name in sys.modules if name.startswith(("jinja2", "poller.http.page."))))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["poller.http.page.detail_looks"]


# --- the list


def test_the_list_has_the_worst_first_then_names_and_says_why() -> None:
    given = ask(busy_shop().endpoints())

    assert given.status == 200
    assert names(given)[:6] == ["invoices", "ledger", "payments", "refunds", "shipments", "customers"]
    assert "8,214 rows have waited 40 min, and no worker took them." in text(given)
    assert "Next: poller check ledger" in text(given)


def test_the_list_counts_pollers_by_their_severity() -> None:
    given = ask(busy_shop().endpoints())

    counted = re.findall(r"<strong>(\d+)</strong> ([a-z ]+)</a></li>", text(given))
    assert counted == [("2", "unhealthy"), ("3", "warning"), ("6", "well")]


def test_a_poller_that_never_committed_has_none_yet() -> None:
    """The creation of its document is no commit, and no reset is."""
    shop = Shop(
        lambda: [
            poller("created", committed_at=None, created_at=ago(60)),
            poller("moved", committed_at=None, moved_at=ago(60), moved_by="reset-to-cursor by ana"),
            poller("away", store="away"),
        ]
    )
    shop.put("created", document("created"))
    row = re.findall(r'data-head="Last commit">(.*?)</td>', text(ask(shop.endpoints())))
    page = text(ask(shop.endpoints(), f"{LIST}/created"))

    assert row == ["–", "none yet", "none yet"], "the worst first: of the one whose store is away nothing is known"
    assert "<dt>Last commit</dt><dd>none yet</dd>" in page


@pytest.mark.parametrize("path", [LIST, ONE])
def test_what_is_not_known_is_503_and_names_no_place(path: str) -> None:
    def outage() -> list[PollerStatus]:
        raise StoreUnavailable("https://shopstate.blob.core.windows.net: no answer, AccountKey=c2VjcmV0")

    shop = busy_shop()
    served = shop.endpoints()
    shop.found = outage

    given = ask(served, path)

    assert given.status == 503
    assert "The health is not known: StoreUnavailable." in text(given)
    assert "windows" not in text(given)


# --- one poller


@pytest.mark.guarantee(
    "Hostile and broken input",
    "The status page shows no row, key, cursor, address, text of an error or setting but `environment`, and what "
    "other programs wrote into the store runs nothing in it",
)
def test_a_pollers_page_says_what_the_store_knows() -> None:
    shown = text(ask(busy_shop().endpoints(), ONE))

    for said in [
        "A worker is at work",
        "shop/worker-7f3a91",
        "transaction 48211 of reporting",
        "Held back.",
        "tokens 41 to 49",
        "AddressUnknown",
        "requests.exceptions.ReadTimeout",
        "quarantine replay",
        "address corrected",
        "in 75 s",
        "Rows per second over five hours, in slots of five minutes. Last 31, largest 48.",
    ]:
        assert said in shown, said
    assert "Jane" not in shown, "neither a row nor the text of an error"
    assert "2026-04-07T01:00" not in shown, "no cursor"


@pytest.mark.parametrize("paused", [False, True])
def test_a_halt_says_nothing_of_the_row_and_its_error(paused: bool) -> None:
    """Its reason in the trail names the row by its key, and quotes the handler's error."""
    reason = "row orders/id=777/2026-11-23_13:49:46 failed 5 times: ValueError: Jane Doe has no address"
    failed: dict[str, Any] = {"error_type": "ValueError", "error_text": "Jane Doe has no address", "row": "id=777"}
    shop = Shop(lambda: [poller("orders", halted=True, paused=paused, by="poller", **failed)])
    control = {"halted": True, "paused": paused, "by": "poller", "reason": reason}
    error = {"type": "ValueError", "message": "Jane Doe has no address"}
    shop.put("orders", document("orders", control=control, delivery={"attempts": 5, "last_error": error}))
    shop.audit("orders", change("halt", 3, "poller", reason), change("lease_lost", 2, "shop/w1", reason))

    shown = text(ask(shop.endpoints(), f"{LIST}/orders"))

    assert "id=777" not in shown
    assert "Jane" not in shown
    assert "Halted: a row failed too often." in shown
    assert "Its last error: ValueError." in shown


def test_a_pollers_page_says_all_that_is_so_and_no_detail() -> None:
    """`detail` and `do` of a condition are an operator's: no answer over HTTP has them."""
    private: dict[str, Any] = {
        "error_text": "Jane Doe has no address",
        "row": "id=777",
        "row_key": ("id=777",),
        "trouble": "at db7",
    }
    facts: dict[str, Any] = {"failures": 3, "attempts": 3, "error_type": "AddressUnknown", **private}
    also: dict[str, Any] = {
        "null_cursors": 2,
        "quarantined": 1,
        "two_apps": "Another: C:/jobs/poller.toml",
        **at_work(5),
    }
    shop = Shop(lambda: [poller("orders", **waits(3, 90.0), **facts, **also)])
    error = {"type": "AddressUnknown", "message": "Jane Doe has no address"}
    shop.put("orders", document("orders", delivery={"attempts": 3, "last_error": error}))
    served = shop.endpoints()

    page = text(ask(served, f"{LIST}/orders"))
    answers = [text(ask(served, f"/api/{path}")) for path in ("health", "pollers", "pollers/orders")]

    (status,) = shop.found()
    assert [one.name for one in status.conditions] == ["failing", "quarantined", "unread", "two_apps", "working"]
    assert [one.sentence for one in status.conditions if f"<p>{one.sentence}</p>" not in page] == []
    assert "<p>Its last error: AddressUnknown.</p>" in page
    assert {one.detail is None for one in status.conditions} == {True, False}
    assert any("--pk id=777" in (one.do or "") for one in status.conditions)
    for answer in [page, text(ask(served)), *answers]:
        assert [private for private in ("Jane", "777", "db7", "C:/jobs") if private in answer] == []
    assert [field for field in ('"detail"', '"do"') for answer in answers if field in answer] == []


def test_beside_nothing_to_do_a_page_says_what_is_so() -> None:
    shop = Shop(lambda: [poller("orders", aside=2, moved_at=ago(30), moved_by="reset-to-cursor by ana")])

    shown = text(ask(shop.endpoints(), f"{LIST}/orders"))

    assert "<p>2 rows set aside, tried again automatically.</p>" in shown
    assert "<p>Its checkpoint was moved 30 s ago (reset-to-cursor by ana); nothing was committed since.</p>" in shown


def test_gaps_are_gaps_and_a_cursor_without_time_has_no_lag() -> None:
    shop = Shop(lambda: [poller("orders")])
    entries = history(gaps=[*range(10, 58)])
    for entry in entries:
        entry["lag_seconds"] = None
    shop.put("orders", document("orders", history=entries))

    shown = text(ask(shop.endpoints(), f"{LIST}/orders"))

    assert "Lag at commit over five hours, in slots of five minutes. Nothing is known." in shown
    assert shown.count('<rect class="bar"') == 12 + 2, "of each slot with rows, and of each run of an owner"
    assert shown.count('<path class="line"') == 1
    assert '<path class="dots"' not in shown


@pytest.mark.parametrize(
    ("document_of", "says"),
    [
        (None, "Nothing was committed in the last five hours."),
        (b"not JSON", "Its state document cannot be read."),
        (document("other"), "Its state document cannot be read."),
        (document("orders", history=[{**history()[0], "at": "9999-12-31T23:59:59Z"}]), "Nothing was committed"),
        (document("orders", control={"halted": True, "by": "poller"}), "poller resume orders"),
        (document("orders", lease={"owner_id": "w", "fencing_token": 2**53}), "9,007,199,254,740,992"),
    ],
    ids=["no document", "no JSON", "another's", "from the future", "halted", "a large token"],
)
def test_whatever_stands_in_the_store_a_page_is_shown(document_of: Any, says: str) -> None:
    shop = Shop(lambda: [poller("orders")])
    if document_of is not None:
        shop.put("orders", document_of)

    given = ask(shop.endpoints(), f"{LIST}/orders")

    assert given.status == 200
    assert says in text(given)


def test_a_poller_that_rests_delivers_no_rows_per_second() -> None:
    shop = Shop(lambda: [poller("orders")])
    shop.put("orders", document("orders", history=history(gaps=[58, 59])))

    shown = text(ask(shop.endpoints(), f"{LIST}/orders"))

    assert "Rows per second over five hours, in slots of five minutes. Last 0, largest 48." in shown


def test_a_store_that_is_away_leaves_the_health() -> None:
    shop = busy_shop()
    served = shop.endpoints()
    shop.store.read = lambda *_, **__: (_ for _ in ()).throw(StoreUnavailable("away"))  # type: ignore[method-assign]

    shown = text(ask(served, ONE))

    assert "The state store has not answered" in shown
    assert "4.2 s" in shown


@pytest.mark.parametrize("path", [LIST, f"{LIST}/orders"])
def test_hostile_texts_are_shown_as_texts(path: str) -> None:
    given = ask(hostile_shop().endpoints(), path)
    body = re.sub(r"<(script|style) nonce.*?</\1>", "", text(given), flags=re.DOTALL)

    assert given.status == 200
    assert body.count("&lt;script&gt;alert(1)") >= (3 if path == LIST else 12)
    assert re.findall(r"<script|<img|onerror=(?!alert\(2\)&gt;)|</style", body) == []
    assert [character for character in body if not character.isprintable() and character != "\n"] == []
    assert "{{7*7}}" in body
    assert "Jane" not in body


def test_hostile_ids_of_rows_stay_inside_what_asks_for_changes() -> None:
    shop = hostile_shop()
    session = PageSession("1.token", (("Set-Cookie", "poller_session=x"),))
    known = shown_health(shop.health())

    given = poller_page(known, "orders", DetailLooks(shop.reader, now=shop.clock.monotonic).take("orders"), session)

    body = text(given)
    assert given.headers[-1] == ("Set-Cookie", "poller_session=x")
    assert body.count("data-change=") == 1 + 2 * 2, "a pause or resume, and two for each row"
    assert "<script>alert" not in body
    assert "<img" not in body
    assert 'data-token="1.token"' in body


def test_long_texts_are_cut() -> None:
    sick = poller("orders", paused=True, by="b", why="r" * 100_000, **at_work(5, "o" * 100_000))
    shown = text(ask(Shop(lambda: [sick]).endpoints()))

    assert "o" * 299 + "…" in shown
    assert "o" * 300 not in shown
    assert "r" * 299 + "…" in shown
    assert "r" * 300 not in shown


def test_nobody_who_looks_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A key, a name and an address end up nowhere but in the answer."""
    served = hostile_shop().endpoints(TOKEN)
    with caplog.at_level("DEBUG"):
        for path in (LIST, f"{LIST}/orders", f"{LIST}/nobody"):
            for headers in ([], [KEY], [("x-functions-key", "wrong-key-of-somebody")]):
                ask(served, path, *headers, query=f"code={TOKEN}")

    assert caplog.records == []


@pytest.mark.soak
def test_no_value_in_any_field_of_a_document_breaks_its_page(caplog: pytest.LogCaptureFixture) -> None:
    lease = {"owner_id": "w", "fencing_token": 3, "acquired_at": iso(NOW), "heartbeat_at": iso(NOW), "ttl_seconds": 60}
    error = {"type": "ValueError", "message": "no"}
    whole = document(
        "orders",
        lease=lease,
        history=history()[-2:],
        control={"paused": True, "by": "ana", "reason": "why", "at": iso(NOW)},
        delivery={"attempts": 2, "last_error": error},
        quarantine=[waiting(1)],
        aside=[waiting(2)],
    )
    for path in paths(whole):
        for value in VALUES:
            shop = Shop(lambda: [poller("orders")])
            shop.put("orders", with_value(whole, path, value))
            given = ask(shop.endpoints(), f"{LIST}/orders")
            assert given.status == 200, (path, value)
            assert all(character.isprintable() or character == "\n" for character in text(given)), (path, value)
    assert caplog.records == []
