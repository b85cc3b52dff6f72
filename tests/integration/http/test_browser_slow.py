"""The status page before a server that is slow, or has fallen silent."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, Route

from poller.http import Answer, HttpServer, Request, read_address
from tests.integration.http.changing import KEY, shop
from tests.support.browser import address, watched
from tests.support.dashboard import busy_shop


@dataclass
class Slow:
    """A server that takes requests, and answers those that come while `hold` is set only once `go_on` is."""

    hold: threading.Event = field(default_factory=threading.Event)
    held: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    go_on: threading.Event = field(default_factory=threading.Event)
    url: str = ""


@contextmanager
def slow() -> Iterator[Slow]:
    mine, served = Slow(), busy_shop().endpoints()

    def answer(request: Request) -> Answer:
        if mine.hold.is_set():
            mine.held.release()
            mine.go_on.wait(60)
        return served(request)

    with HttpServer(answer, read_address("0")) as server:
        mine.url = address(server)
        try:
            yield mine
        finally:
            mine.go_on.set()


def test_a_server_that_never_answers_is_said_to_be_silent(browser: Browser) -> None:
    with slow() as server, watched(browser) as seen:
        page = seen.page
        page.clock.install()
        page.goto(server.url)
        server.hold.set()
        page.clock.run_for(15_500)
        assert server.held.acquire(timeout=30)
        page.clock.run_for(14_500)
        page.get_by_role("status").get_by_text("No answer. Shown is what was known at").wait_for()

        assert "UTC" in page.get_by_role("status").inner_text()


def test_a_click_on_a_slow_page_is_not_lost_to_a_renewal(browser: Browser) -> None:
    with slow() as server, watched(browser) as seen:
        page = seen.page
        page.clock.install()
        page.goto(server.url)
        page.clock.run_for(14_000)
        server.hold.set()
        page.get_by_role("link", name="shipments").click()
        assert server.held.acquire(timeout=30)
        page.clock.run_for(2_000)
        server.go_on.set()
        page.get_by_role("heading", name="shipments").wait_for()

        assert page.url == f"{server.url}/shipments"


def test_what_comes_of_a_change_is_said_in_no_other_dialog(browser: Browser, tmp_path: Path) -> None:
    with shop(tmp_path) as mine, watched(browser) as seen:
        page = seen.page
        (row,) = mine.waiting()
        page.goto(f"http://{mine.host}/api/dashboard/orders")
        routes: list[Route] = []
        page.route("**/changes", lambda route: routes.append(route))
        page.get_by_role("button", name="Pause …").click()
        dialog = page.get_by_role("dialog")
        for label, text in (("Type the name", "orders"), ("Who you are", "ana"), ("Key for changes", KEY)):
            dialog.get_by_label(label).fill(text)
        with page.expect_request("**/changes"):
            dialog.get_by_role("button", name="Pause", exact=True).click()
        page.keyboard.press("Escape")
        page.get_by_role("button", name=f"Discard the row {row}").click()
        dialog.get_by_label("Type the name").fill("ord")
        routes[0].continue_()
        page.get_by_role("status").get_by_text("orders is paused").wait_for(state="attached")

        assert dialog.is_visible()
        assert dialog.get_by_label("Type the name").input_value() == "ord"
        assert page.get_by_role("alert").inner_text() == ""


def test_a_change_without_an_answer_is_said_not_to_be_known(browser: Browser, tmp_path: Path) -> None:
    with shop(tmp_path) as mine, watched(browser) as seen:
        page = seen.page
        page.clock.install()
        page.goto(f"http://{mine.host}/api/dashboard/orders")
        page.route("**/changes", lambda _: None)
        page.get_by_role("button", name="Pause …").click()
        dialog = page.get_by_role("dialog")
        for label, text in (("Type the name", "orders"), ("Who you are", "ana"), ("Key for changes", KEY)):
            dialog.get_by_label(label).fill(text)
        dialog.get_by_role("button", name="Pause", exact=True).click()
        page.get_by_text("Under way").wait_for()
        page.clock.run_for(14_500)

        page.get_by_text("No answer. Whether it was changed is not known").wait_for()


def test_a_late_answer_takes_no_dialog_away(browser: Browser, tmp_path: Path) -> None:
    with shop(tmp_path) as mine, watched(browser) as seen:
        page = seen.page
        page.clock.install()
        page.goto(f"http://{mine.host}/api/dashboard/orders")
        routes: list[Route] = []
        page.route("**/api/dashboard/orders", lambda route: routes.append(route))
        with page.expect_request("**/api/dashboard/orders"):
            page.clock.run_for(15_500)
        page.get_by_role("button", name="Pause …").click()
        page.get_by_role("dialog").get_by_label("Who you are").fill("ana")
        with page.expect_response("**/api/dashboard/orders"):
            routes[0].continue_()
        page.evaluate("new Promise((done) => requestIdleCallback(done))")

        assert page.get_by_role("dialog").is_visible()
        assert page.get_by_role("dialog").get_by_label("Who you are").input_value() == "ana"
