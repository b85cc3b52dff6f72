"""The status page in a browser: what a person sees and does there, and what the browser is kept from."""

from __future__ import annotations

from typing import Literal

import pytest
from playwright.sync_api import Browser

from poller.http import HttpServer
from tests.support.browser import DESK, PHONE, FunctionsHost, Watched, address, serve, watched
from tests.support.dashboard import busy_shop, hostile_shop
from tests.support.http import TOKEN

SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


def is_quiet(seen: Watched, server: HttpServer) -> None:
    """No script or style was refused, nothing failed, and nobody else was asked for anything."""
    assert seen.complaints == []
    assert seen.hosts == {f"127.0.0.1:{server.port}"}


def test_a_person_reads_the_list_and_a_poller_and_goes_back(browser: Browser) -> None:
    with serve(busy_shop()) as server, watched(browser, viewport=DESK) as seen:
        page = seen.page
        page.goto(address(server))
        rows = page.get_by_role("rowheader").all_inner_texts()
        assert rows[:5] == ["invoices", "ledger", "payments", "refunds", "shipments"]
        page.get_by_role("link", name="shipments").click()
        page.get_by_role("heading", name="shipments").wait_for()

        assert (page.url, page.title()) == (address(server, "shipments"), "shipments · poller")
        assert page.evaluate("document.activeElement.tagName") == "H1"
        charts = page.get_by_role("img")
        assert charts.count() == 5
        assert all(charts.nth(n).bounding_box()["width"] > 100 for n in range(5))  # type: ignore[index]
        assert page.locator("rect.bar").count() > 50
        page.get_by_text("As a table").first.click()
        assert page.get_by_role("columnheader", name="Rows per second").is_visible()
        page.get_by_role("link", name="All pollers").click()
        page.get_by_role("link", name="invoices").wait_for()
        page.go_back()
        page.get_by_role("heading", name="shipments").wait_for()

        assert page.url == address(server, "shipments")
        assert [one.resource_type for one in seen.requests] == ["document", "fetch", "fetch", "fetch"]
        is_quiet(seen, server)


def test_the_page_renews_itself_and_takes_nothing_from_its_reader(browser: Browser) -> None:
    shop = busy_shop()
    with serve(shop) as server, watched(browser, viewport=DESK) as seen:
        page = seen.page
        page.clock.install()
        page.goto(address(server, "shipments"))
        page.get_by_text("As a table").first.click()
        link = page.get_by_role("link", name="All pollers")
        link.focus()
        page.evaluate("document.getElementById('main').dataset.old = 'yes'")
        shop.clock.passed += 60
        page.clock.run_for(15_500)
        page.locator("#main:not([data-old])").wait_for()

        assert "13:43:17" in page.locator(".at").inner_text()
        assert page.locator("#rows-table").get_attribute("open") is not None
        assert link.evaluate("one => one === document.activeElement")
        server.close()
        page.clock.run_for(15_500)
        page.get_by_text("No answer. Shown is what was known at").wait_for()
        assert page.get_by_role("heading", name="shipments").is_visible()


@pytest.mark.parametrize("name", ["", "orders"], ids=["list", "poller"])
def test_hostile_texts_run_nothing_and_break_nothing(name: str, browser: Browser) -> None:
    with serve(hostile_shop()) as server, watched(browser, viewport=PHONE) as seen:
        seen.page.goto(address(server, name))

        assert seen.page.get_by_text("<script>alert(1)</script>").count() >= 2
        assert "\\u202e" in seen.page.inner_text("main")
        assert seen.page.locator("main script, main img, main style, main iframe").count() == 0
        assert seen.page.evaluate("[...document.querySelectorAll('main *')].every(one => !one.onerror)")
        assert seen.too_wide == 0
        is_quiet(seen, server)


@pytest.mark.guarantee(
    "Hostile and broken input",
    "A key that opens the status page is in no link, no request's address, no storage; one that came in the address "
    "leaves it at once",
)
def test_a_key_opens_the_page_and_is_kept_nowhere(browser: Browser) -> None:
    with serve(busy_shop(), TOKEN) as server, watched(browser, viewport=PHONE) as seen:
        page = seen.page
        assert page.goto(address(server, "shipments")).status == 401  # type: ignore[union-attr]
        key = page.get_by_label("Key", exact=True)
        key.fill("not-the-key")
        key.press("Enter")
        page.get_by_text("This key was not accepted.").wait_for()
        assert key.input_value() == ""
        key.fill(TOKEN)
        page.get_by_role("button", name="Open").click()
        page.get_by_role("heading", name="shipments").wait_for()
        page.get_by_role("link", name="All pollers").click()
        page.get_by_role("link", name="invoices").wait_for()

        kept = page.evaluate("[document.cookie, localStorage.length, sessionStorage.length, history.state]")
        assert kept == ["", 0, 0, None]
        assert TOKEN not in page.content()
        assert [one.url for one in seen.requests if TOKEN in one.url] == []
        assert [one.headers.get("x-functions-key") for one in seen.requests] == [None, "not-the-key", TOKEN, TOKEN]
        assert [one.headers["referer"] for one in seen.requests if one.headers.get("referer")] == []
        page.reload()
        assert page.get_by_label("Key", exact=True).is_visible()


def test_a_key_in_the_address_is_gone_at_once(browser: Browser) -> None:
    shop = busy_shop()
    with FunctionsHost(shop.endpoints(), TOKEN) as host, watched(browser, viewport=DESK) as seen:
        page = seen.page
        page.goto(f"{host.url}?code={TOKEN}", wait_until="commit")
        page.wait_for_url(host.url)
        page.get_by_role("link", name="shipments").click()
        page.get_by_role("heading", name="shipments").wait_for()
        page.go_back()
        page.get_by_role("link", name="invoices").wait_for()

        assert page.url == host.url
        assert TOKEN not in page.content()
        assert host.asked == [
            (f"/api/dashboard?code={TOKEN}", None),
            ("/api/dashboard/shipments", TOKEN),
            ("/api/dashboard", TOKEN),
        ]
        assert seen.complaints == []


@pytest.mark.guarantee(
    "Hostile and broken input",
    "The status page works on a phone, in the dark, with a keyboard, and without scripts where no key is needed; it "
    "asks no other host for anything",
)
def test_it_is_readable_on_a_phone_and_a_desk_in_every_light(browser: Browser) -> None:
    grounds = set()
    with serve(busy_shop()) as server, watched(browser) as seen:
        for name in ("", "shipments", "payments", "nobody"):
            seen.page.goto(address(server, name))
            for viewport in (DESK, PHONE):
                seen.page.set_viewport_size(viewport)
                assert seen.too_wide == 0, (name, viewport)
                for scheme in SCHEMES:
                    seen.page.emulate_media(color_scheme=scheme)
                    low = {one: ratio for one, ratio in seen.contrasts.items() if ratio < 4.5}
                    assert low == {}, (name, viewport, scheme)
                    grounds.add((scheme, seen.page.evaluate("getComputedStyle(document.body).backgroundColor")))

    assert grounds == {("light", "rgb(246, 247, 247)"), ("dark", "rgb(16, 22, 26)")}


def test_without_scripts_links_and_reloads_work(browser: Browser) -> None:
    with serve(busy_shop()) as server, watched(browser, viewport=DESK, java_script_enabled=False) as seen:
        seen.page.goto(address(server))
        seen.page.get_by_role("link", name="shipments").click()
        seen.page.reload()
        seen.page.get_by_role("link", name="All pollers").click()

        assert seen.page.url == address(server)
        assert seen.page.get_by_role("link", name="invoices").is_visible()
