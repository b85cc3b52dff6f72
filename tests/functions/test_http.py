"""The HTTP endpoints as functions: what the host indexes, and what it gets for a request."""

from __future__ import annotations

import inspect
import json
import threading
import typing
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import azure.functions as func
import pytest

from tests.functions import host
from tests.functions.folder import Folder, add_rows
from tests.support.http import SECURITY, session_of
from tests.support.schemas import validator
from tests.support.services import wait_until

SITE = "shop.azurewebsites.net"
PAGES = {"poller_dashboard", "poller_dashboard_poller"}
NAMES = {"poller_health", "poller_list", "poller_details", "poller_scale", *PAGES}
TOKEN = "a-token-of-32-characters-exactly"
CHANGES = "the-key-for-changes-of-the-shop"


@pytest.fixture
def served(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """An app with endpoints, and one poller over five orders that nobody has delivered yet."""
    for name in ("POLLER_HTTP_TOKEN", "POLLER_HTTP_HOSTS", "POLLER_HTTP_CHANGES_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WEBSITE_HOSTNAME", SITE)
    add_rows(folder.database, 5)
    folder.poller()
    write_app(folder, 'app = create_app("poller.toml", http=True)')
    return folder


def write_app(folder: Folder, line: str, head: str = "from poller.functions import create_app") -> None:
    (folder.path / "function_app.py").write_text(f"{head}\n\n{line}\n")


def ask(worker: host.Worker, name: str, *, url: str = "/api/health", at: str = SITE, **other: Any) -> Any:
    headers = {"host": at, **other.pop("headers", {})}
    return worker.ask(name, f"https://{SITE}{url}", headers=headers, **other)


def test_each_endpoint_is_a_function_beside_the_timers(served: Folder) -> None:
    found = host.functions(served.app())

    assert set(found) == {"orders", *NAMES}
    shown = {name: host.bindings(found[name])[0] for name in NAMES}
    assert {name: (one["route"], one["authLevel"], one["methods"]) for name, one in shown.items()} == {
        "poller_health": ("health", "ANONYMOUS", ["GET", "HEAD"]),
        "poller_list": ("pollers", "FUNCTION", ["GET", "HEAD"]),
        "poller_details": ("pollers/{name}", "FUNCTION", ["GET", "HEAD"]),
        "poller_scale": ("scale/{name}", "FUNCTION", ["GET", "HEAD"]),
        "poller_dashboard": ("dashboard", "FUNCTION", ["GET", "HEAD"]),
        "poller_dashboard_poller": ("dashboard/{name}", "FUNCTION", ["GET", "HEAD"]),
    }


def test_the_worker_can_read_what_an_endpoint_takes_and_gives(served: Folder) -> None:
    """It resolves annotations when it indexes, and runs a coroutine on its loop, not in the pool that ticks use."""
    found = host.functions(served.app())

    for name in NAMES:
        function = found[name].get_user_function()
        assert inspect.iscoroutinefunction(function)
        assert typing.get_type_hints(function) == {"req": func.HttpRequest, "return": func.HttpResponse}


def test_endpoints_stand_beside_the_queues_functions(served: Folder) -> None:
    text = served.write().read_text().replace('app_name = "shop"', 'app_name = "shop"\nfunctions.mode = "queue"')
    (served.path / "poller.toml").write_text(text)

    assert set(host.functions(host.load(served.path))) >= NAMES


def test_an_app_without_endpoints_has_none(folder: Folder) -> None:
    folder.poller()

    assert set(host.functions(folder.app())) == {"orders"}


def test_anybody_hears_the_status_and_nothing_else(served: Folder) -> None:
    worker = served.worker()

    for headers in ({}, {"x-functions-key": "whatever-the-caller-sends"}, {"authorization": "Bearer x"}):
        status, answered, body = ask(worker, "poller_health", headers=headers)
        assert (status, body) == (200, b"")
        assert {name: answered[name] for name in SECURITY} == SECURITY


def test_what_the_host_let_through_sees_details(served: Folder) -> None:
    worker = served.worker()

    _, headers, body = ask(worker, "poller_list", url="/api/pollers?code=the-hosts-key")
    assert headers["content-type"] == "application/json"
    assert [one["name"] for one in json.loads(body)["pollers"]] == ["orders"]
    assert b"the-hosts-key" not in body
    validator("health").validate(json.loads(body))
    _, _, body = ask(worker, "poller_details", url="/api/pollers/orders", route={"name": "orders"})
    assert json.loads(body)["pending"] == 5
    status, _, body = ask(worker, "poller_scale", url="/api/scale/orders", route={"name": "orders"})
    assert (status, json.loads(body)["pending"]) == (200, 5)
    assert json.loads(body)["lag_seconds"] > 0


def test_the_page_is_served_to_what_the_host_let_through(served: Folder) -> None:
    worker = served.worker()

    listed = ask(worker, "poller_dashboard", url="/api/dashboard?code=the-hosts-key")
    one = ask(worker, "poller_dashboard_poller", url="/ops/dashboard/orders", route={"name": "orders"})
    nobody = ask(worker, "poller_dashboard_poller", url="/ops/dashboard/nobody", route={"name": "nobody"})

    assert [answer[0] for answer in (listed, one, nobody)] == [200, 200, 404]
    for _, headers, body in (listed, one, nobody):
        assert headers["content-type"] == "text/html; charset=utf-8"
        assert "connect-src 'self'" in headers["content-security-policy"]
        assert b"the-hosts-key" not in body
    assert b'href="dashboard/orders"' in listed[2], "relative: whatever the host's routePrefix is"
    assert b'href="../dashboard"' in one[2]


def test_health_says_why_to_the_apps_own_token(served: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLLER_HTTP_TOKEN", TOKEN)
    worker = served.worker()

    _, _, body = ask(worker, "poller_health", headers={"x-functions-key": TOKEN})

    assert json.loads(body)["app_name"] == "shop"
    assert ask(worker, "poller_health", headers={"x-functions-key": TOKEN[:-1]})[2] == b""


@pytest.mark.parametrize("url", ["/health", "/ops/health", "/a/b/health"])
def test_a_changed_prefix_of_the_host_works(url: str, served: Folder) -> None:
    assert ask(served.worker(), "poller_health", url=url)[0] == 200


@pytest.mark.parametrize(
    "name", ["nobody", "ORDERS", "", "..", "%6frders", "orders/", "or\u0000ders", "\u00f6", "a" * 9999]
)
def test_a_name_that_is_none_is_404_before_any_look(name: str, served: Folder) -> None:
    worker = served.worker()

    status, _, body = ask(worker, "poller_details", url="/api/pollers/x", route={"name": name})

    assert (status, json.loads(body)) == (404, {"error": "there is nothing here"})
    assert not (served.path / "state.db").exists()


@pytest.mark.parametrize(
    ("at", "hosts", "status"),
    [
        (SITE, "", 200),
        (f"{SITE}:443", "", 200),
        ("localhost:7071", "", 200),
        ("shop.example.com", "", 421),
        ("shop.example.com", "shop.example.com", 200),
        ("evil.example", "shop.example.com", 421),
        ("", "", 421),
        ("localhost", "https://wrong", 200),
    ],
)
def test_the_apps_own_host_is_listed_and_more_by_a_setting(
    at: str, hosts: str, status: int, served: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POLLER_HTTP_HOSTS", hosts)
    worker = served.worker()

    assert ask(worker, "poller_health", at=at)[0] == status
    assert ask(worker, "poller_list", url="/api/pollers", at=at)[0] == status


def test_a_wrong_setting_of_the_endpoints_harms_no_timer(
    served: Folder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("POLLER_HTTP_TOKEN", "short")
    worker = served.worker()

    worker.invoke("orders")

    assert "fewer than 16 characters" in caplog.text
    assert ask(worker, "poller_health", headers={"x-functions-key": "short"})[2] == b""


def test_no_endpoint_takes_the_name_of_a_pollers_function(served: Folder) -> None:
    served.poller("poller-health")
    served.poller("poller_list")

    assert set(host.functions(served.app())) == {
        "orders", "poller_health", "poller_list",
        "poller_health_2", "poller_list_2", "poller_details", "poller_scale", *PAGES,
    }  # fmt: skip


def test_a_poller_that_cannot_be_made_is_unhealthy(served: Folder) -> None:
    served.poller("refunds", "refunds", options="batch_sise = 5")
    worker = served.worker()

    assert ask(worker, "poller_health")[0] == 503
    status, _, body = ask(worker, "poller_details", route={"name": "refunds"})
    shown = json.loads(body)
    assert (status, shown["healthy"], shown["word"]) == (200, False, "misconfigured")
    assert (shown["sentence"], shown["next_step"]) == ("Its configuration cannot be used.", "poller check refunds")
    assert b"batch_sise" not in body, "what stands there is for those who may read it"
    assert [one["name"] for one in json.loads(ask(worker, "poller_list")[2])["pollers"]] == ["refunds", "orders"]
    assert ask(worker, "poller_scale", route={"name": "refunds"})[0] == 503
    assert json.loads(ask(worker, "poller_details", route={"name": "orders"})[2])["healthy"]


def test_where_no_poller_can_be_made_health_is_503(served: Folder) -> None:
    served.state = 'store = "sql"\nurl = "nonsense"'
    worker = served.worker()

    assert ask(worker, "poller_health")[0] == 503
    shown = json.loads(ask(worker, "poller_list")[2])
    validator("health").validate(shown)
    assert [one["word"] for one in shown["pollers"]] == ["misconfigured"]
    assert shown["healthy"] is False


def test_a_blueprint_may_be_registered_on_an_app_of_ones_own(served: Folder) -> None:
    head = "import azure.functions as func\nfrom poller.functions import http_blueprint"
    line = "app = func.FunctionApp(func.AuthLevel.ANONYMOUS)\napp.register_functions(http_blueprint('poller.toml'))"
    write_app(served, line, head)
    worker = served.worker()

    assert set(worker.functions) == NAMES
    assert host.bindings(worker.functions["poller_list"])[0]["authLevel"] == "FUNCTION", "whatever the app's own is"
    assert ask(worker, "poller_health")[0] == 200


def test_a_crowd_of_callers_takes_four_threads_at_most(served: Folder) -> None:
    """Ticks share the worker's own pool, which answers of health must not fill, nor wait for."""
    worker = served.worker()
    before = set(threading.enumerate())

    with ThreadPoolExecutor(50) as callers:
        found = list(callers.map(lambda _: ask(worker, "poller_health")[0], range(100)))

    assert found == [200] * 100
    ours = [one.name for one in set(threading.enumerate()) - before if one.name.startswith("poller-http_")]
    assert 1 <= len(ours) <= 4


def test_changes_are_a_function_only_where_a_key_is_set(served: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLLER_HTTP_CHANGES_KEY", CHANGES)
    found = host.functions(served.app())

    assert set(found) == {"orders", *NAMES, "poller_change", "poller_tick"}
    shown = host.bindings(found["poller_change"])[0]
    assert (shown["route"], shown["authLevel"], shown["methods"]) == ("dashboard/{name}/changes", "FUNCTION", ["POST"])
    shown = host.bindings(found["poller_tick"])[0]
    assert (shown["route"], shown["authLevel"]) == ("pollers/{name}/tick", "ANONYMOUS"), "the host takes keys in ?code="
    for wrong in ("short", TOKEN):
        monkeypatch.setenv("POLLER_HTTP_TOKEN", TOKEN)
        monkeypatch.setenv("POLLER_HTTP_CHANGES_KEY", wrong)
        assert set(host.functions(served.app())) == {"orders", *NAMES}


def test_a_tick_wakes_a_poller_whose_timer_has_died(served: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLLER_HTTP_CHANGES_KEY", CHANGES)
    worker, url, route = served.worker(), "/api/pollers/orders/tick", {"name": "orders"}

    def tick(method: str = "POST", **headers: str) -> tuple[int, Any]:
        status, _, body = ask(worker, "poller_tick", url=url, route=route, method=method, headers=headers)
        return status, json.loads(body)

    key = {"authorization": f"Bearer {CHANGES}"}
    assert (tick()[0], tick("GET")[0], tick(**{"x-functions-key": CHANGES})[0]) == (401, 401, 401)
    assert tick(**key) == (202, {"name": "orders", "state": "running", "last": None})
    wait_until(lambda: tick("GET", **key)[1]["state"] == "resting")
    last = tick("GET", **key)[1]["last"]
    assert (last["outcome"], last["rows"]) == ("delivered", 5)


def test_a_pages_cookie_reaches_the_browser_as_it_is_meant(served: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker reads it, and writes it anew."""
    monkeypatch.setenv("POLLER_HTTP_CHANGES_KEY", CHANGES)
    url, route = "/ops/dashboard/orders", {"name": "orders"}

    status, headers, body = ask(served.worker(), "poller_dashboard_poller", url=url, route=route)

    parts = {part.lower() for part in headers["set-cookie"].split("; ")[1:]}
    assert (status, parts) == (200, {"path=/ops/dashboard", "httponly", "samesite=strict", "secure"})
    session = headers["set-cookie"].partition("=")[2].partition(";")[0]
    assert len(session) == 43
    assert session.encode() not in body, "a script cannot read it"
    assert CHANGES.encode() not in body


def test_a_page_of_another_instance_may_change_and_no_other(served: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The token of a session holds whichever instance served the page; where the caller is is not known here."""
    monkeypatch.setenv("POLLER_HTTP_CHANGES_KEY", CHANGES)
    worker = served.worker()
    worker.invoke("orders")
    url, route = "/api/dashboard/orders", {"name": "orders"}
    _, given, page = ask(served.worker(), "poller_dashboard_poller", url=url, route=route)
    session = session_of(given, page)
    headers = {
        "content-type": "application/json",
        "origin": f"https://{SITE}",
        "cookie": session["Cookie"],
        "x-poller-csrf": session["x-poller-csrf"],
        "authorization": f"Bearer {CHANGES}",
        "x-forwarded-for": "10.0.0.7",
    }
    body = json.dumps({"change": "pause", "name": "orders", "by": "ana"}).encode()

    def change(body: bytes = body, **other: str) -> int:
        url, route = "/api/dashboard/orders/changes", {"name": "orders"}
        asked = {**headers, **other}
        return int(ask(worker, "poller_change", url=url, route=route, method="POST", headers=asked, body=body)[0])

    assert change(origin=f"http://{SITE}") == change(cookie="") == change(authorization="") == 403
    assert (change(body=b" " * 9_000 + body), change(body=b"")) == (413, 400)
    assert served.state_document()["control"]["last_change"]["kind"] == "created"
    assert change() == 200
    assert served.state_document()["control"]["by"] == "ana (dashboard)"


def test_a_large_body_is_refused(served: Folder) -> None:
    assert ask(served.worker(), "poller_health", body=b"x" * 9_000)[0] == 413


def test_an_address_that_is_none_is_a_plain_refusal(served: Folder) -> None:
    status, _, _ = served.worker().ask("poller_health", "https://[broken/api/health", headers={"host": SITE})

    assert status == 400
