"""What a page says of what it does not know, and of what has changed since the last look."""

from __future__ import annotations

import re
from typing import Any

import pytest

from poller.errors import StoreUnavailable
from poller.http import Request, looks
from poller.http.page import detail_looks
from poller.http.page.pages import FOLDER
from tests.support.dashboard import NOW, Shop, at_work, change, document, history, iso, poller

SECRET = "c2VjcmV0c2VjcmV0c2VjcmV0"


def words(shop: Shop, path: str = "/api/dashboard/orders") -> str:
    """What a person reads."""
    given = shop.endpoints()(Request("GET", path, headers=(("host", "localhost"),)))
    body = re.sub(r"<(script|style) nonce.*?</\1>", "", given.body.decode(), flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", body).split())


def shop_of(facts: dict[str, Any], body: Any) -> Shop:
    shop = Shop(lambda: [poller("orders", **facts)])
    shop.put("orders", body)
    return shop


@pytest.mark.guarantee(
    "Hostile and broken input",
    'The status page never shows an outage as "no rows" or as well: what is not known is said not to be',
)
def test_an_unreadable_document_never_looks_like_nothing_to_do() -> None:
    unreadable = shop_of({"document": "unreadable", "trouble": "at byte 7"}, b"not JSON")
    said = words(unreadable)

    for wrong in ("None waits", "Nothing waits", "Nothing was committed", "none yet", "Rows that failed 0"):
        assert wrong not in said, wrong
    assert "Whether any waits is not known" in said
    assert said.count("Its state document cannot be read.") == 1
    assert "none yet" not in words(unreadable, "/api/dashboard")


def test_a_database_that_is_away_never_looks_like_no_rows() -> None:
    said = words(shop_of({"source": "away", "trouble": "no answer"}, document("orders")))

    assert "Its database cannot be reached." in said
    assert "Nothing waits" not in said
    assert "It is not known: the look was not complete." in said


def test_the_script_waits_for_longer_than_the_server_may_take() -> None:
    script = (FOLDER / "page.js").read_text()
    every, patience = (int(found) / 1000 for found in re.findall(r"const (?:EVERY|PATIENCE) = (\d+);", script))

    assert looks.PATIENCE + detail_looks.PATIENCE < patience < every


def test_what_may_be_done_now_is_what_the_document_says() -> None:
    """The health may be some seconds old; another may have paused or resumed the poller since."""
    paused = {"paused": True, "by": "ana", "reason": "a migration"}

    assert "poller pause orders" in words(shop_of({"paused": True, "by": "ana"}, document("orders")))
    assert "poller resume orders" in words(shop_of({}, document("orders", control=paused)))


def test_a_pause_is_shown_as_one_if_the_store_is_away() -> None:
    shop = Shop(lambda: [poller("orders", paused=True, by="ana")])
    shop.store.read = lambda *_, **__: (_ for _ in ()).throw(StoreUnavailable("away"))  # type: ignore[method-assign]

    said = words(shop)

    assert "Paused by ana." in said
    assert "poller resume orders" in said


def test_no_text_of_the_store_shows_a_secret() -> None:
    text = f"AccountKey={SECRET}"
    lease = {"owner_id": text, "fencing_token": 3, "heartbeat_at": iso(NOW)}
    control = {"paused": True, "by": text, "reason": text}
    error = {"type": text, "message": "no"}
    owned = [{**entry, "owner": text} for entry in history()]
    delivery = {"attempts": 2, "last_error": error}
    facts = {"paused": True, "by": text, "why": text, **at_work(5, text)}
    shop = shop_of(facts, document("orders", lease=lease, control=control, delivery=delivery, history=owned))
    shop.audit("orders", change("pause", 3, text, text), change(text, 2, text))

    assert SECRET not in words(shop) + words(shop, "/api/dashboard")


def test_texts_of_the_trail_are_cut_at_300_characters() -> None:
    shop = shop_of({}, document("orders"))
    shop.audit("orders", change("k" * 5000, 3, "b" * 5000))
    said = words(shop)

    assert ("k" * 300 in said, "b" * 300 in said) == (False, False)
    assert ("k" * 299 in said, "b" * 299 in said) == (True, True)


def test_a_name_out_of_the_store_leads_nowhere_else() -> None:
    names = ["../../../admin/purge", "../../..//evil.example", "orders/../x", "orders"]
    shop = Shop(lambda: [poller(name) for name in names])
    given = shop.endpoints()(Request("GET", "/api/dashboard", headers=(("host", "localhost"),)))

    assert re.findall(r'<a data-page href="(dashboard/[^"]*)"', given.body.decode()) == ["dashboard/orders"]
    assert "../../../admin/purge" in words(shop, "/api/dashboard")
