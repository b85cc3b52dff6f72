"""What each endpoint answers, to whom."""

from __future__ import annotations

import json
from typing import Any

import pytest

from poller.admin import Health
from poller.errors import StoreUnavailable
from poller.http import ROUTES, Answer, Endpoints, Request
from tests.support.cases import each
from tests.support.http import SECURITY, TOKEN, Asked, endpoints, health, poller

HOST = ("host", "localhost:8080")
KEY = ("x-functions-key", TOKEN)
LATE = "7 rows have waited 12 min, and no worker took them."
SICK = poller("orders", "late", "unhealthy", LATE, "start a worker", pending=7, lag_seconds=720.0)


def ask(served: Endpoints, path: str, *headers: tuple[str, str], method: str = "GET", **other: Any) -> Answer:
    return served(Request(method, path, headers=(HOST, *headers), **other))


def said(given: Answer) -> Any:
    return json.loads(given.body)


@pytest.mark.guarantee(
    "Who may see and do what",
    "Health is a status alone for every caller; details and the names of pollers need a key",
)
@pytest.mark.parametrize(("found", "status"), [(health(), 200), (health(SICK), 503)], ids=["well", "sick"])
def test_health_is_a_status_alone_for_anybody(found: Health, status: int) -> None:
    given = ask(endpoints(Asked(lambda: found)), "/api/health")

    assert (given.status, given.body, given.length) == (status, b"", 0)


@pytest.mark.parametrize(("found", "status"), [(health(), 200), (health(SICK), 503)], ids=["well", "sick"])
def test_health_says_why_to_whoever_has_a_key(found: Health, status: int) -> None:
    given = ask(endpoints(Asked(lambda: found)), "/api/health", KEY)

    assert given.status == status
    assert said(given) == found.model_dump(mode="json")


def test_pollers_are_listed_whatever_their_health() -> None:
    given = ask(endpoints(Asked(lambda: health(SICK))), "/api/pollers", KEY)

    assert given.status == 200
    (one,) = said(given)["pollers"]
    assert (one["name"], one["healthy"], one["word"], one["severity"]) == ("orders", False, "late", "unhealthy")
    assert (one["sentence"], one["next_step"]) == (LATE, "start a worker")
    assert [each["name"] for each in one["conditions"]] == ["late"]


def test_one_poller_is_described_alone() -> None:
    given = ask(endpoints(), "/api/pollers/orders", KEY)

    assert (given.status, said(given)["name"], said(given)["pending"]) == (200, "orders", 7)


@pytest.mark.parametrize(
    ("pending", "aside_due", "lag", "shown"),
    [
        (7, 0, 12.5, {"pending": 7, "lag_seconds": 12.5}),
        (0, 0, None, {"pending": 0, "lag_seconds": 0.0}),
        (7, 0, None, {"pending": 7, "lag_seconds": None}),
        (0, 2, 0.0, {"pending": 2, "lag_seconds": 0.0}),
    ],
    ids=["times", "nothing waits", "a number does not say since when", "rows aside are tried again by a worker"],
)
def test_scale_says_how_much_waits(
    pending: int, aside_due: int, lag: float | None, shown: dict[str, float | None]
) -> None:
    """Never a zero where a worker has something to do: a scaler that reads zero stops it."""
    one = poller(pending=pending, aside_due=aside_due, lag_seconds=lag)

    given = ask(endpoints(Asked(lambda: health(one))), "/api/scale/orders", KEY)

    assert (given.status, said(given)) == (200, shown)


@pytest.mark.guarantee(
    "Hostile and broken input",
    'An outage is never answered as "no rows" to a scaler, nor as "well" to a balancer',
)
def test_scale_of_a_database_that_is_away_is_no_zero() -> None:
    """A scaler that reads zero stops the workers."""
    one = poller("orders", "source_away", "unhealthy", "Its database cannot be reached.", pending=None)

    given = ask(endpoints(Asked(lambda: health(one))), "/api/scale/orders", KEY)

    assert (given.status, said(given)) == (503, {"error": "how many rows wait is not known"})


@pytest.mark.parametrize("path", ["/api/pollers", "/api/pollers/orders", "/api/scale/orders", "/api/health"])
def test_an_outage_of_the_store_is_503_and_names_no_place(path: str) -> None:
    def outage() -> Health:
        raise StoreUnavailable("https://shopstate.blob.core.windows.net/db-state: no answer, AccountKey=c2VjcmV0")

    given = ask(endpoints(Asked(outage)), path, KEY)

    assert (given.status, said(given)) == (503, {"error": "the health is not known: StoreUnavailable"})


def test_an_outage_is_503_for_anybody() -> None:
    def outage() -> Health:
        raise StoreUnavailable("no answer")

    given = ask(endpoints(Asked(outage)), "/api/health")

    assert (given.status, given.body) == (503, b"")


def test_a_poller_that_an_older_worker_did_not_know_is_no_404() -> None:
    given = ask(endpoints(names=["orders", "new"]), "/api/pollers/new", KEY)

    assert (given.status, said(given)) == (503, {"error": "nothing is known of this poller yet"})


# --- who asks


@each(
    "headers",
    [
        [("x-functions-key", TOKEN)],
        [("X-Functions-Key", TOKEN)],
        [("authorization", f"Bearer {TOKEN}")],
        [("authorization", f"bearer {TOKEN}")],
        [("x-functions-key", "another-key-of-somebody-else"), ("authorization", f"Bearer {TOKEN}")],
        [("x-functions-key", TOKEN), ("authorization", "Bearer of-somebody-else-before-us")],
    ],
)
def test_a_key_opens_the_details(headers: list[tuple[str, str]]) -> None:
    assert ask(endpoints(), "/api/pollers", *headers).status == 200


WRONG_KEYS: list[list[tuple[str, str]]] = [
    [],
    [("x-functions-key", "")],
    [("x-functions-key", TOKEN[:-1])],
    [("x-functions-key", TOKEN + "x")],
    [("x-functions-key", TOKEN.upper())],
    [("x-functions-key", f"{TOKEN},{TOKEN}")],
    [("x-functions-key", "\udcff\u00e9")],
    [("authorization", TOKEN)],
    [("authorization", f"Basic {TOKEN}")],
    [("authorization", f"Bearer{TOKEN}")],
    [("authorization", "Bearer ")],
    [("cookie", f"key={TOKEN}")],
    [("x-api-key", TOKEN)],
]


@each("headers", WRONG_KEYS)
def test_without_a_key_all_that_is_not_anonymous_looks_alike(headers: list[tuple[str, str]]) -> None:
    asked = Asked()
    served = endpoints(asked)
    paths = ["/api/pollers", "/api/pollers/orders", "/api/pollers/nobody", "/api/scale/orders", "/", "/api/%6frders"]

    given = [ask(served, path, *headers, method=method) for path in paths for method in ("GET", "POST", "BREW")]

    assert len(set(given)) == 1
    assert (given[0].status, said(given[0])) == (401, {"error": "a key is needed"})
    assert dict(given[0].headers)["WWW-Authenticate"].startswith("Bearer")
    assert asked.times == 0


def test_a_key_in_the_address_opens_nothing_and_is_gone_at_once() -> None:
    code = Request("GET", "/api/pollers", f"a=1&code={TOKEN}&b=2&CODE=x&%63ode=y", (HOST,))

    assert code.query == "a=1&b=2"
    assert endpoints()(code).status == 401


def test_no_key_shows_where_a_request_is_printed() -> None:
    shown = repr(Request("GET", "/api/pollers", f"q={TOKEN}", (HOST, KEY)))

    assert TOKEN not in shown


def test_without_a_token_all_is_open_or_all_is_closed() -> None:
    assert ask(endpoints(token=None), "/api/pollers").status == 200
    assert ask(endpoints(token=None, closed=True), "/api/pollers").status == 401
    assert ask(endpoints(token=None, closed=True), "/api/pollers", ("x-functions-key", "")).status == 401


# --- where it is asked


@each(
    "host",
    [
        "localhost", "LOCALHOST:80", "127.0.0.1", "127.8.9.1:8080", "[::1]:8080", "[0:0:0:0:0:0:0:1]",
        "[::ffff:127.0.0.1]", "poller.example.com", "Poller.Example.com:443",
    ],
)  # fmt: skip
def test_loopback_and_listed_hosts_are_answered(host: str) -> None:
    given = endpoints()(Request("GET", "/api/health", headers=(("host", host),)))

    assert given.status == 200


FOREIGN_HOSTS = [
    "", "evil.example", "poller.example.com.evil.example", "evil.poller.example.com", "localhost.evil.example",
    "localhost.", "127.0.0.1.nip.io", "127.1", "2130706433", "0.0.0.0", "0x7f.1", "10.0.0.7", "[::]", "[fe80::1]",
    "::1", "localhost:", "localhost:80:80", "localhost:http", "localhost@evil.example", "localhost/", "local host",
    "localhost,evil.example", "localhost\x00", "loc\u0430lhost", "[::1", "x" * 300, "*", "localhost:999999",
]  # fmt: skip


@pytest.mark.guarantee(
    "Who may see and do what",
    "A foreign web page gets nothing from the endpoints, whatever its name leads to",
)
@each("host", FOREIGN_HOSTS)
@each("key", [[], [KEY]])
def test_another_host_is_refused_whoever_asks(host: str, key: list[tuple[str, str]]) -> None:
    """A page whose name leads to this machine can send what it likes, and read what it gets."""
    asked = Asked()

    given = endpoints(asked, token=None)(Request("GET", "/api/health", headers=(("host", host), *key)))

    assert (given.status, said(given)) == (421, {"error": "this server does not answer to that Host"})
    assert asked.times == 0


# --- what is asked

STRANGE_PATHS = [
    "/", "", "//", "/api", "/api/", "/api/health/", "//api/health", "/api//health", "/api/./health",
    "/api/pollers/", "/api/pollers/..", "/api/pollers/%2e%2e", "/api/pollers/../health", "/api/pollers/%2e%2e%2fhealth",
    "/api/pollers/orders/", "/api/pollers/orders/x", "/api/pollers//orders", "/api/pollers/ORDERS", "/API/pollers",
    "/api/pollers/orders%00", "/api/pollers/orders\x00", "/api/pollers/orders\n", "/api/pollers/%6f%72ders",
    "/api/pollers/-orders", "/api/pollers/ord\u0435rs", "/api/pollers/%ff", "/api/pollers/" + "a" * 64,
    "/api/pollers/nobody", "/api/scale", "/api/scale/", "/api/scale/nobody", "/api/scale/orders;x=1",
    "/api/pollers/orders/pause", "/api/health.json", "/api/health%20", "http://localhost/api/health",
    "*", "/favicon.ico", "/api/pollers/state%2fshop%2forders.json", "/api/pollers/{name}", "/api/pollers/orders%0d%0a",
]  # fmt: skip


@each("path", STRANGE_PATHS)
def test_a_path_that_is_none_is_404_before_any_look(path: str) -> None:
    asked = Asked()

    given = ask(endpoints(asked), path, KEY)

    assert (given.status, said(given)) == (404, {"error": "there is nothing here"})
    assert asked.times == 0


def test_a_path_of_ten_kilobytes_is_refused() -> None:
    assert ask(endpoints(), "/api/pollers/" + "a" * 10_000, KEY).status == 414


def test_a_request_with_a_large_body_is_refused() -> None:
    assert ask(endpoints(), "/api/health", KEY, body_length=8193).status == 413


@pytest.mark.parametrize(
    "headers",
    [
        [("host", "evil.example")],
        [("x-functions-key", TOKEN), ("x-functions-key", TOKEN)],
        [("authorization", "Bearer x"), ("Authorization", f"Bearer {TOKEN}")],
    ],
    ids=["host", "key", "authorization"],
)
def test_a_header_that_decides_comes_once(headers: list[tuple[str, str]]) -> None:
    assert ask(endpoints(), "/api/health", *headers).status == 400


def test_without_a_host_nothing_is_answered() -> None:
    assert endpoints()(Request("GET", "/api/health", headers=(KEY,))).status == 400


@each("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "BREW", "get"])
@each("path", ["/api/health", "/api/pollers", "/api/pollers/orders", "/api/scale/orders"])
def test_other_methods_are_405_and_change_nothing(method: str, path: str) -> None:
    asked = Asked()

    given = ask(endpoints(asked), path, KEY, method=method)

    assert (given.status, dict(given.headers)["Allow"]) == (405, "GET, HEAD")
    assert asked.times == 0


@pytest.mark.parametrize(
    "path", ["/api/health", "/api/pollers", "/api/pollers/orders", "/api/scale/orders", "/nothing"]
)
def test_head_is_get_without_its_body(path: str) -> None:
    get, head = (ask(endpoints(), path, KEY, method=method) for method in ("GET", "HEAD"))

    assert head.body == b""
    assert (head.status, head.headers, head.length) == (get.status, get.headers, len(get.body))


# --- what every answer has


@each("path", ["/api/health", "/api/pollers", "/nothing", "/api/pollers/" + "a" * 10_000])
@each("method", ["GET", "POST", "OPTIONS"])
def test_every_answer_keeps_pages_and_caches_out(path: str, method: str) -> None:
    origin = ("origin", "https://evil.example")

    headers = {name.lower(): value for name, value in ask(endpoints(), path, KEY, origin, method=method).headers}

    assert {name: headers[name] for name in SECURITY} == SECURITY
    assert not [name for name in headers if name.startswith("access-control")]


def test_what_a_document_says_is_cut_escaped_and_redacted() -> None:
    hostile = poller(
        sentence="password=hunter2 \x1b[2J\u202eevil\u2028next\x7f",
        next_step="postgresql://u:hunter2@db/shop " + "x" * 5_000,
        owner_id="password=hunter2",
    )

    body = ask(endpoints(Asked(lambda: health(hostile))), "/api/pollers", KEY).body

    assert b"hunter2" not in body
    assert all(0x20 <= byte < 0x7F for byte in body)
    assert len(body) < 5_000
    assert "\x1b" in json.loads(body)["pollers"][0]["sentence"], "a program gets the text as it is"


def test_a_fault_of_ours_is_500_without_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Request):
        def values(self, name: str) -> list[str]:
            raise RuntimeError("boom")

    given = endpoints()(Broken("GET", "/api/health"))

    assert (given.status, said(given)) == (500, {"error": "this is a fault in poller; its log says more"})
    assert "RuntimeError" in caplog.text


def test_no_route_leaves_its_templates_names_open_to_an_endpoint() -> None:
    """A poller may be called `health`, or `scale`: what stands below `pollers/` and `scale/` is a name and no more."""
    assert [route.template for route in ROUTES] == [
        "health", "pollers", "pollers/{name}", "pollers/{name}/tick", "scale/{name}", "dashboard", "dashboard/{name}",
        "dashboard/{name}/changes",
    ]  # fmt: skip
    named = [poller(name, pending=1) for name in ("health", "pollers", "scale")]
    served = endpoints(Asked(lambda: health(*named)), names=["health", "pollers", "scale"])
    assert {said(ask(served, f"/api/pollers/{one.name}", KEY))["name"] for one in named} == {
        "health", "pollers", "scale",
    }  # fmt: skip
