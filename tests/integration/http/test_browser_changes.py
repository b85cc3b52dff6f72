"""Changes in a browser: what a person does on our page, and what another page cannot."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.integration.http.changing import KEY, Shop, shop
from tests.support.browser import Watched, watched
from tests.support.http import TOKEN


def opened(seen: Watched, mine: Shop) -> Page:
    seen.page.goto(f"http://{mine.host}/api/dashboard/orders")
    seen.page.get_by_role("heading", name="orders").wait_for()
    return seen.page


def confirm(page: Page, verb: str, *, name: str = "orders", key: str = KEY, by: str | None = None) -> None:
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Type the name of the poller").fill(name)
    if by is not None:
        dialog.get_by_label("Who you are").fill(by)
    dialog.get_by_label("Key for changes").fill(key)
    dialog.get_by_role("button", name=verb, exact=True).click()


def kept(page: Page) -> object:
    """All that a page could keep a key in."""
    fields = "[...document.querySelectorAll('dialog input')].map((one) => one.value)"
    return page.evaluate(f"[document.cookie, localStorage.length, sessionStorage.length, history.state, {fields}]")


def test_a_thumb_hits_all_that_asks_for_changes(browser: Browser, tmp_path: Path) -> None:
    with shop(tmp_path) as mine, watched(browser, viewport={"width": 360, "height": 740}, has_touch=True) as seen:
        page = opened(seen, mine)
        assert page.get_by_role("button").count() == 3
        assert seen.too_small == []
        page.get_by_role("button", name="Pause …").tap()
        page.get_by_role("dialog").wait_for()

        assert seen.too_small == []


def test_a_person_pauses_and_resumes_and_gives_a_row_up(browser: Browser, tmp_path: Path) -> None:
    with shop(tmp_path) as mine, watched(browser) as seen:
        (row,) = mine.waiting()
        page = opened(seen, mine)
        page.get_by_role("button", name="Pause …").press("Enter")
        assert page.evaluate("document.activeElement.id") == "change-name"
        confirm(page, "Pause", name="refunds", by="ana")
        assert page.get_by_role("alert").inner_text() == "The name that was typed is not the poller's."
        confirm(page, "Pause", key="not-the-key-for-changes")
        page.get_by_text("Changes need their own key.").wait_for()
        assert mine.document()["control"]["paused"] is False
        confirm(page, "Pause")
        page.get_by_role("status").get_by_text("orders is paused").wait_for()
        assert page.evaluate("document.activeElement.id") == "state-change"
        assert mine.document()["control"]["by"] == "ana (dashboard, 127.0.0.1)"

        page.get_by_role("button", name="Resume …").click()
        confirm(page, "Resume")
        page.get_by_role("status").get_by_text("orders works again").wait_for()
        page.get_by_role("button", name=f"Discard the row {row}").click()
        page.keyboard.press("Escape")
        page.get_by_role("button", name=f"Discard the row {row}").click()
        confirm(page, "Discard")
        page.get_by_role("status").get_by_text("was given up").wait_for()
        page.get_by_text("None waits.").wait_for()

        assert mine.waiting() == []
        assert mine.document()["control"]["paused"] is False
        assert kept(page) == ["", 0, 0, None, ["", "", "", ""]]
        assert KEY not in page.content()
        assert [one.url for one in seen.requests if KEY in one.url] == []
        assert {one.url.partition("/api/")[2] for one in seen.requests if one.method == "POST"} == {
            "dashboard/orders/changes"
        }
        harmless = ("403 (Forbidden)", "Password field is not contained in a form")
        assert [one for one in seen.complaints if not any(text in one for text in harmless)] == []


def test_who_goes_back_before_the_answer_still_hears_it(browser: Browser, tmp_path: Path) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def wait(batch: object) -> None:
        begun.set()
        assert go_on.wait(30)

    with shop(tmp_path) as mine, watched(browser) as seen:
        (row,) = mine.waiting()
        mine.handlers.hook = wait
        page = seen.page
        page.goto(f"http://{mine.host}/api/dashboard")
        page.get_by_role("link", name="orders").click()
        page.get_by_role("button", name=f"Replay the row {row}").click()
        confirm(page, "Replay", by="ana")
        assert begun.wait(30)
        page.go_back()
        page.get_by_role("columnheader", name="Waiting").wait_for()
        go_on.set()
        page.get_by_role("status").get_by_text("it waits no longer").wait_for()

        assert mine.waiting() == []


def test_with_a_token_the_page_sends_both_keys_in_headers(browser: Browser, tmp_path: Path) -> None:
    with shop(tmp_path, token=TOKEN) as mine, watched(browser) as seen:
        page = seen.page
        page.goto(f"http://{mine.host}/api/dashboard/orders")
        page.get_by_label("Key", exact=True).fill(TOKEN)
        page.get_by_role("button", name="Open").click()
        page.get_by_role("button", name="Pause …").click()
        confirm(page, "Pause", by="ana")
        page.get_by_role("status").get_by_text("orders is paused").wait_for()

        assert TOKEN not in page.content()
        assert mine.document()["control"]["paused"] is True


def test_a_page_without_a_key_for_changes_says_how_to_offer_them(browser: Browser, tmp_path: Path) -> None:
    with shop(tmp_path, changes_key=None) as mine, watched(browser) as seen:
        page = opened(seen, mine)

        assert page.get_by_role("button").count() == 0
        assert "POLLER_HTTP_CHANGES_KEY" in page.inner_text("main")
        assert seen.page.context.cookies() == []


FOREIGN = """<!doctype html><title>evil</title>
<form id="form" method="post" enctype="text/plain" action="{target}">
<input name='{{"change":"pause","name":"orders","by":"' value='"}}'></form>
<iframe name="inside" src="{page}"></iframe>
<iframe name="nowhere" sandbox="allow-scripts allow-forms" srcdoc="<title>nowhere</title>"></iframe>"""
FORM = """(target) => {
  const form = Object.assign(document.createElement("form"), { method: "post", action: target });
  document.body.append(form);
  form.submit();
}"""
ATTACKS = """async ([target, key, token]) => {
  const body = JSON.stringify({ change: "pause", name: "orders", by: "eve" });
  const told = [];
  for (const type of ["text/plain", "application/json"])
    for (const mode of ["no-cors", "cors"])
      for (const extra of [{}, { authorization: `Bearer ${key}`, "x-poller-csrf": token }])
        try {
          const headers = { "content-type": type, ...extra };
          const answer = await fetch(target, { method: "POST", mode, body, credentials: "include", headers });
          told.push(answer.type);
        } catch { told.push("failed"); }
  navigator.sendBeacon(target, new Blob([body], { type: "text/plain" }));
  return told;
}"""


@contextmanager
def foreign_page(mine: Shop) -> Iterator[str]:
    """On another port of the same machine: the same site for a browser, which sends its cookies there."""
    page = f"http://{mine.host}/api/dashboard/orders"
    text = FOREIGN.format(target=f"{page}/changes", page=page).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://localhost:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.guarantee(
    "Hostile and broken input",
    "In a browser a page of another port changes nothing, and the key for changes is kept nowhere",
)
def test_a_page_of_another_port_changes_nothing_with_all_it_has(browser: Browser, tmp_path: Path) -> None:
    """Not even with the key and a token of the very session: those it cannot know."""
    with shop(tmp_path) as mine, watched(browser) as seen, foreign_page(mine) as evil:
        page = opened(seen, mine)
        token = page.locator("#actions").get_attribute("data-token")
        before = mine.document()
        page.goto(evil)
        target = f"http://{mine.host}/api/dashboard/orders/changes"

        page.wait_for_function("frames.length === 2")
        inside, nowhere = page.frame("inside"), page.frame("nowhere")
        assert inside is not None
        assert nowhere is not None
        nowhere.wait_for_load_state()
        assert inside.locator("#actions, main").count() == 0, "our page is shown in no frame"
        assert any("frame" in one for one in seen.complaints)

        told = page.evaluate(ATTACKS, [target, KEY, token])
        assert nowhere.evaluate("origin") == "null"
        told += nowhere.evaluate(ATTACKS, [target, KEY, token])
        with page.expect_response(target) as answered:
            nowhere.evaluate(FORM, target)
        assert (answered.value.status, answered.value.request.all_headers()["origin"]) == (415, "null")
        page.evaluate("document.getElementById('form').submit()")
        page.get_by_text("application/json").wait_for()

        assert set(told) <= {"opaque", "failed"}
        assert page.url == target, "the form went there"
        assert mine.document() == before
        posts = [one for one in seen.requests if one.method == "POST"]
        assert any("poller_session" in one.all_headers().get("cookie", "") for one in posts), "the cookie was sent"
