"""What a page says of what it does not know, and of what has changed since the last look."""

from __future__ import annotations

import re
from typing import Any

import pytest

from poller.errors import StoreUnavailable
from poller.http import Request, looks
from poller.http.page import detail_looks
from poller.http.page.rendering import FOLDER
from tests.support.dashboard import NOW, Shop, change, document, history, iso, poller

_UNREADABLE: dict[str, Any] = {
    "healthy": False,
    "exists": None,
    "last_commit": None,
    "lag_seconds": None,
    "pending": None,
    "paused": None,
    "halted": None,
    "aside": None,
    "quarantined": None,
    "reason": "Its state document cannot be read, or is missing.",
    "error": "Its state document cannot be read, or is missing.",
}
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


def test_an_unreadable_document_never_looks_like_nothing_to_do() -> None:
    said = words(shop_of(_UNREADABLE, b"not JSON"))

    for wrong in ("None waits", "Nothing waits", "Nothing was committed", "never", "Late no", "Rows that failed 0"):
        assert wrong not in said, wrong
    assert "Whether any waits is not known" in said
    assert "never" not in words(shop_of(_UNREADABLE, b"not JSON"), "/api/dashboard")


def test_a_database_that_is_away_never_looks_like_no_rows() -> None:
    away = {"healthy": False, "error": "no answer", "reason": "no answer", "pending": None, "lag_seconds": None}
    said = words(shop_of(away, document("orders")))

    assert "Nothing waits" not in said
    assert "Late no" not in said


def test_the_script_waits_for_longer_than_the_server_may_take() -> None:
    script = (FOLDER / "page.js").read_text()
    every, patience = (int(found) / 1000 for found in re.findall(r"const (?:EVERY|PATIENCE) = (\d+);", script))

    assert looks.PATIENCE + detail_looks.PATIENCE < patience < every


@pytest.mark.parametrize("was", ["halted", "paused"])
def test_after_a_resume_the_page_says_neither_halt_nor_pause(was: str) -> None:
    facts = {
        "halted": {"healthy": False, "halted": True, "reason": "It is halted: a row failed too often."},
        "paused": {"paused": True, "waiting_for": "a person: it was paused by ana"},
    }[was]
    said = words(shop_of(facts, document("orders")))

    assert "orders resumed as of" in said
    assert "It was resumed since" in said
    assert "is halted" not in said
    assert "was paused" not in said
    assert "poller pause orders" in said, "what may be done now"


def test_a_pause_is_shown_as_one_where_the_store_is_away() -> None:
    shop = Shop(lambda: [poller("orders", paused=True, waiting_for="a person: it was paused by ana")])
    shop.store.read = lambda *_, **__: (_ for _ in ()).throw(StoreUnavailable("away"))  # type: ignore[method-assign]

    assert "poller resume orders" in words(shop)


def test_no_text_of_the_store_shows_a_secret() -> None:
    text = f"AccountKey={SECRET}"
    lease = {"owner_id": text, "fencing_token": 3, "heartbeat_at": iso(NOW)}
    control = {"paused": True, "by": text, "reason": text}
    error = {"type": text, "message": "no"}
    owned = [{**entry, "owner": text} for entry in history()]
    delivery = {"attempts": 2, "last_error": error}
    shop = shop_of({}, document("orders", lease=lease, control=control, delivery=delivery, history=owned))
    shop.audit("orders", change("pause", 3, text, text), change(text, 2, text))

    assert SECRET not in words(shop)


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

    assert re.findall(r'<a data-page href="([^"]*)"', given.body.decode()) == ["dashboard/orders"]
    assert "../../../admin/purge" in words(shop, "/api/dashboard")
