"""Sessions and origins: what ties a change to a page that this server served."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from poller.http import ChangesKey, Request
from poller.http.changes import same_origin
from poller.http.keys import new_changes_key
from poller.http.sessions import VALID, PageSession, Sessions
from tests.support.cases import each

NOW = datetime(2026, 4, 7, 1, 23, 45, tzinfo=UTC)
KEY = "the-key-for-changes-of-the-shop"


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


def page(path: str = "/api/dashboard/orders", host: str = "localhost:8080", cookie: str | None = None) -> Request:
    cookies = () if cookie is None else (("cookie", cookie),)
    return Request("GET", path, headers=(("host", host), *cookies))


def cookie_of(session: PageSession) -> str:
    ((name, value),) = session.headers
    assert name == "Set-Cookie"
    return value


def asked(cookie: str, *tokens: str) -> Request:
    headers = (("host", "localhost:8080"), ("cookie", cookie), *(("x-poller-csrf", token) for token in tokens))
    return Request("POST", "/api/dashboard/orders/changes", headers=headers)


def test_a_cookie_is_of_the_page_alone_and_out_of_scripts_reach() -> None:
    sessions = Sessions(ChangesKey(KEY), Clock())

    assert cookie_of(sessions.begin(page())).partition("; ")[2] == "Path=/api/dashboard; HttpOnly; SameSite=Strict"
    for host in ("shop.azurewebsites.net", "10.0.0.7:8080", "localhost.evil.example"):
        assert cookie_of(sessions.begin(page(host=host))).endswith("; HttpOnly; SameSite=Strict; Secure")


@each(
    ("path", "place"),
    [
        ("/api/dashboard", "/api/dashboard"),
        ("/api/dashboard/dashboard", "/api/dashboard"),
        ("/dashboard/orders", "/dashboard"),
        ("/ops/v2/Dashboard/orders", "/ops/v2/Dashboard"),
        ("/api/dashboards", "/api/dashboard"),
        ("/x; Domain=evil.example/dashboard", "/api/dashboard"),
        ("/api/dashboard;Secure", "/api/dashboard"),
    ],
)
def test_a_cookie_follows_the_hosts_route_prefix(path: str, place: str) -> None:
    assert f"; Path={place}; " in cookie_of(Sessions(ChangesKey(KEY), Clock()).begin(page(path)))


def test_a_session_is_kept_so_that_two_tabs_work() -> None:
    sessions = Sessions(ChangesKey(KEY), Clock())
    first = cookie_of(sessions.begin(page())).partition(";")[0]

    again = sessions.begin(page(cookie=f"a=b; {first};c=d"))

    assert cookie_of(again).partition(";")[0] == first
    assert sessions.allow(asked(first, again.token))


@each(
    "cookie",
    ["", "poller_session=", "poller_session=short", "poller_session=" + "x" * 44, "poller_session=" + "\u00e9" * 43,
     "poller_session=" + "x" * 43 + "; poller_session=" + "y" * 43, "xpoller_session=" + "x" * 43],
)  # fmt: skip
def test_what_is_no_session_of_ours_is_replaced(cookie: str) -> None:
    begun = cookie_of(Sessions(ChangesKey(KEY), Clock()).begin(page(cookie=cookie)))

    assert not begun.startswith("poller_session=xx")
    assert len(begun.partition(";")[0]) == len("poller_session=") + 43


def test_another_instance_with_the_same_key_accepts_a_token() -> None:
    begun = Sessions(ChangesKey(KEY), Clock()).begin(page())

    assert Sessions(ChangesKey(KEY), Clock()).allow(asked(cookie_of(begun).partition(";")[0], begun.token))


def test_a_token_is_of_one_session_one_key_and_some_hours() -> None:
    clock = Clock()
    sessions = Sessions(ChangesKey(KEY), clock)
    one, other = sessions.begin(page()), sessions.begin(page())
    cookie, token = cookie_of(one).partition(";")[0], one.token
    until, _, hash_ = token.partition(".")

    assert sessions.allow(asked(cookie, token))
    assert not Sessions(ChangesKey(new_changes_key()), clock).allow(asked(cookie, token))
    assert not sessions.allow(asked(cookie_of(other).partition(";")[0], token))
    assert not sessions.allow(asked(cookie, token, token))
    assert not sessions.allow(asked(f"{cookie}; poller_session={'x' * 43}", token))
    for wrong in (
        "",
        ".",
        hash_,
        f"0{token}",
        f"{int(until) + 1}.{hash_}",
        f" {token}",
        token.upper(),
        token + "0",
        f"-{token}",
    ):
        assert not sessions.allow(asked(cookie, wrong))
    clock.now += VALID - timedelta(seconds=1)
    assert sessions.allow(asked(cookie, token))
    clock.now += timedelta(seconds=1)
    assert not sessions.allow(asked(cookie, token))


def test_nothing_of_a_session_shows_where_it_is_printed() -> None:
    begun = Sessions(ChangesKey(KEY), Clock()).begin(page())

    assert begun.token not in repr(begun)
    assert "poller_session" not in repr(begun)


@each(
    ("origin", "host"),
    [
        ("http://localhost:8080", "localhost:8080"),
        ("http://localhost", "localhost"),
        ("http://localhost", "LOCALHOST:80"),
        ("http://127.0.0.1:7071", "127.0.0.1:7071"),
        ("http://[::1]:8080", "[::1]:8080"),
        ("https://localhost:8443", "localhost:8443"),
        ("https://poller.example.com", "poller.example.com"),
        ("https://poller.example.com", "Poller.example.com:443"),
        ("https://poller.example.com:8443", "poller.example.com:8443"),
    ],
)
def test_our_own_page_is_of_the_same_origin(origin: str, host: str) -> None:
    assert same_origin(origin, host)


@each(
    ("origin", "host"),
    [
        ("null", "localhost:8080"),
        ("", "localhost:8080"),
        ("localhost:8080", "localhost:8080"),
        ("http://localhost:8081", "localhost:8080"),
        ("http://localhost", "localhost:8080"),
        ("http://localhost:80", "localhost:443"),
        ("https://localhost", "localhost:80"),
        ("http://127.0.0.1:8080", "localhost:8080"),
        ("http://[::1]:8080", "127.0.0.1:8080"),
        ("http://localhost:8080/", "localhost:8080"),
        ("http://localhost:8080 http://evil.example", "localhost:8080"),
        ("http://u@localhost:8080", "localhost:8080"),
        ("http://localhost.:8080", "localhost:8080"),
        ("http://localhost:08080x", "localhost:8080"),
        ("ftp://localhost:8080", "localhost:8080"),
        ("chrome-extension://localhost", "localhost"),
        ("https://evil.example", "poller.example.com"),
        ("https://poller.example.com.evil.example", "poller.example.com"),
        ("https://evil.poller.example.com", "poller.example.com"),
        ("http://poller.example.com", "poller.example.com"),
        ("http://10.0.0.7:8080", "10.0.0.7:8080"),
        ("https://\u212aelvin.example", "kelvin.example"),
    ],
)
def test_another_page_is_of_another_origin(origin: str, host: str) -> None:
    """Over http only a page of this machine counts: elsewhere whoever stands on the way could have written it."""
    assert not same_origin(origin, host)
