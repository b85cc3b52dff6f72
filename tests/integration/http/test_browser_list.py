"""The list in a browser: searching, turning pages, and what a thumb can reach."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser

from tests.support.browser import DESK, PHONE, FunctionsHost, Watched, address, serve, watched
from tests.support.dashboard import Shop, busy_shop, poller
from tests.support.http import TOKEN


def many() -> Shop:
    shop = busy_shop()
    busy = shop.found
    shop.found = lambda: [*busy(), *(poller(f"p{n:04}") for n in range(450))]
    shop.environment = "production"
    return shop


def search(seen: Watched, text: str, found: str) -> None:
    field = seen.page.get_by_label("Search by name")
    field.fill(text)
    field.press("Enter")
    seen.page.get_by_text(found).wait_for()


def listed(seen: Watched) -> list[str]:
    return seen.page.get_by_role("rowheader").all_inner_texts()


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without"])
def test_a_person_searches_narrows_and_turns_pages(scripts: bool, browser: Browser) -> None:
    with serve(many()) as server, watched(browser, viewport=DESK, java_script_enabled=scripts) as seen:
        page = seen.page
        page.goto(address(server))
        page.get_by_role("link", name="Next").first.click()
        page.get_by_text("201 to 400 of 461").first.wait_for()
        assert page.url == f"{address(server)}?page=2"
        search(seen, "in", "1 to 2 of 2, with “in” in the name.")
        assert listed(seen) == ["invoices", "inventory"]
        page.get_by_role("link", name="well", exact=False).first.click()
        page.get_by_text("1 to 1 of 1, well").wait_for()
        assert (listed(seen), page.url) == (["inventory"], f"{address(server)}?q=in&severity=well")
        page.reload()
        assert listed(seen) == ["inventory"]
        page.go_back()
        page.get_by_role("link", name="invoices").wait_for()
        page.get_by_role("link", name="Show all 461").click()
        page.get_by_text("1 to 200 of 461").first.wait_for()

        assert page.url == address(server)
        assert seen.complaints == []
        assert seen.hosts == {f"127.0.0.1:{server.port}"}


def test_the_list_renews_itself_as_it_was_asked_for(browser: Browser) -> None:
    shop = busy_shop()
    with serve(shop) as server, watched(browser, viewport=DESK) as seen:
        page = seen.page
        page.clock.install()
        page.goto(f"{address(server)}?q=in&severity=well")
        page.get_by_label("Search by name").focus()
        page.evaluate("document.getElementById('main').dataset.old = 'yes'")
        page.clock.run_for(15_500)
        page.locator("#main:not([data-old])").wait_for()
        assert listed(seen) == ["inventory"]
        assert page.evaluate("document.activeElement.id") == "q"

        asked = len(seen.requests)
        page.get_by_label("Search by name").fill("half a na")
        page.clock.run_for(31_000)
        assert page.get_by_label("Search by name").input_value() == "half a na"
        assert len(seen.requests) == asked, "who is typing is left alone"


def test_a_key_opens_a_part_of_the_list_and_stays_out_of_it(browser: Browser) -> None:
    with serve(busy_shop(), TOKEN) as server, watched(browser, viewport=PHONE) as seen:
        seen.page.goto(f"{address(server)}?q=in")
        seen.page.get_by_label("Key", exact=True).fill(TOKEN)
        seen.page.get_by_role("button", name="Open").click()
        seen.page.get_by_text("1 to 2 of 2, with “in”").wait_for()
        search(seen, "led", "1 to 1 of 1, with “led”")

        assert seen.page.url == f"{address(server)}?q=led"
        assert [one.url for one in seen.requests if TOKEN in one.url] == []


def test_a_key_in_the_address_goes_and_the_search_stays(browser: Browser) -> None:
    with FunctionsHost(busy_shop().endpoints(), TOKEN) as host, watched(browser, viewport=DESK) as seen:
        seen.page.goto(f"{host.url}?q=in&code={TOKEN}&clientId=x", wait_until="commit")
        seen.page.wait_for_url(f"{host.url}?q=in")
        search(seen, "led", "1 to 1 of 1, with “led”")

        assert host.asked[1:] == [("/api/dashboard?q=led", TOKEN)]
        assert TOKEN not in seen.page.content()


@pytest.mark.parametrize("path", ["", "?page=2", "?q=in&severity=well", "?page=0", "/shipments", "/nobody"])
def test_a_thumb_hits_every_link_button_and_field(path: str, browser: Browser) -> None:
    with serve(many()) as server, watched(browser, viewport=PHONE, has_touch=True) as seen:
        seen.page.goto(f"{address(server)}{path}")

        assert seen.too_small == []
        assert seen.too_wide == 0


def test_a_thumb_hits_what_the_sign_in_has(browser: Browser) -> None:
    """It is the same one for every page."""
    with serve(busy_shop(), TOKEN) as server, watched(browser, viewport=PHONE, has_touch=True) as seen:
        seen.page.goto(address(server))

        assert seen.page.get_by_role("button").count() == 1
        assert seen.too_small == []
