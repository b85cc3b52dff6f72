"""The status page where changes are offered."""

from __future__ import annotations

from poller.http.page.detail_looks import DetailLooks
from poller.http.page.pages import poller_page
from poller.http.sessions import PageSession
from poller.http.shown import shown_health
from tests.support.dashboard import hostile_shop


def test_hostile_ids_of_rows_stay_inside_what_asks_for_changes() -> None:
    shop = hostile_shop()
    session = PageSession("1.token", (("Set-Cookie", "poller_session=x"),))
    known = shown_health(shop.health())

    given = poller_page(known, "orders", DetailLooks(shop.reader, now=shop.clock.monotonic).take("orders"), session)

    body = given.body.decode()
    assert given.headers[-1] == ("Set-Cookie", "poller_session=x")
    assert body.count("data-change=") == 1 + 2 * 2, "a pause or resume, and two for each row"
    assert "<script>alert" not in body
    assert "<img" not in body
    assert 'data-token="1.token"' in body
