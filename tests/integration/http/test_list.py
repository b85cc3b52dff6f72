"""The list of pollers over HTTP: searched, by severity, in pages, whatever the query holds."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from poller.admin import PollerStatus
from poller.http import HttpServer, read_address
from poller.http import serve as serve_app
from tests.integration.health.shop import Shop as RealShop
from tests.support.dashboard import Shop, ago, busy_shop, poller, waits
from tests.support.http import Received, request, send


@contextmanager
def serve(shop: Shop) -> Iterator[HttpServer]:
    with HttpServer(shop.endpoints(kept=10.0), read_address("0")) as server:
        yield server


def ask(server: HttpServer, query: str = "", name: str = "") -> Received:
    given = send(server.port, request(f"/api/dashboard{name and '/'}{name}{query and '?'}{query}"))
    assert given is not None
    return given


def names(given: Received) -> list[str]:
    return re.findall(r'href="dashboard/([\w-]+)"', given.body.decode())


def links(given: Received) -> list[str]:
    """Of the parts of the list, as a browser reads them."""
    return [html.unescape(one) for one in re.findall(r'rel="(?:prev|next)" href="([^"]*)"', given.body.decode())]


def many(pollers: int, *, sick: int = 0) -> Shop:
    late = [poller(f"p{n:04}", **waits(1, 3600.0), committed_at=ago(3600)) for n in range(pollers - sick, pollers)]
    return Shop(lambda: [*(poller(f"p{n:04}") for n in range(pollers - sick)), *late])


def test_200_pollers_are_one_page_and_201_are_two() -> None:
    with serve(many(200)) as server:
        assert (len(names(ask(server))), links(ask(server))) == (200, [])
    with serve(many(201)) as server:
        first, second = ask(server), ask(server, "page=2")

    assert (len(names(first)), links(first)) == (200, ["dashboard?page=2"] * 2)
    assert (names(second), links(second)) == (["p0200"], ["dashboard"] * 2)
    assert b"1 to 200 of 201" in first.body
    assert b"201 to 201 of 201" in second.body


@pytest.mark.guarantee(
    "Hostile and broken input",
    "Every poller is on one page of the list, the worst first, whatever their number; a query that cannot be meant "
    "is refused before any look, and is nowhere shown but as text",
)
def test_450_pollers_are_each_on_one_page_the_worst_first() -> None:
    shop = many(450, sick=3)
    with serve(shop) as server:
        pages = [ask(server, f"page={page}") for page in (1, 2, 3)]

    listed = [name for page in pages for name in names(page)]
    assert [len(names(page)) for page in pages] == [200, 200, 50]
    assert listed == ["p0447", "p0448", "p0449", *(f"p{n:04}" for n in range(447))]
    assert links(pages[1]) == ["dashboard", "dashboard?page=3"] * 2
    assert b"201 to 400 of 450" in pages[1].body
    assert shop.looks == 1, "pages share the look"


def test_a_page_behind_the_last_is_the_last() -> None:
    """Its link was right when it was shown: pollers may have got well since."""
    with serve(many(450)) as server:
        given = ask(server, "page=999999999")

    assert (given.status, len(names(given))) == (200, 50)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("q=INV", ["invoices", "inventory"]),
        ("q=+pay+", ["payments"]),
        ("q=", 11),
        ("q=e&severity=unhealthy", ["invoices", "ledger"]),
        ("severity=warning", ["payments", "refunds", "shipments"]),
        ("severity=well", 6),
        ("q=nobody", []),
        ("q=a.*", []),
        ("q=%C3%BC", []),
        ("severity=&page=&q=", 11),
        ("x=<script>&clientId=default&q=led", ["ledger"]),
    ],
)
def test_the_list_is_searched_by_name_and_severity(query: str, found: list[str] | int) -> None:
    with serve(busy_shop()) as server:
        given = ask(server, query)

    assert given.status == 200
    assert (len(names(given)) if isinstance(found, int) else names(given)) == found
    assert (b"No poller matches." in given.body) is (found == [])


def test_a_search_reaches_all_pages_and_links_keep_it() -> None:
    with serve(many(450, sick=250)) as server:
        first = ask(server, "q=P0&severity=unhealthy")
        last = ask(server, links(first)[0].partition("?")[2])

    assert links(first) == ["dashboard?q=P0&severity=unhealthy&page=2"] * 2
    assert names(last) == [f"p{n:04}" for n in range(400, 450)]
    assert b"201 to 250 of 250" in last.body
    counts = re.findall(r'href="([^"]*)"( aria-current="true")?><strong>([\d,]+)</strong>', first.body.decode())
    assert [(html.unescape(link), bool(chosen), count) for link, chosen, count in counts] == [
        ("dashboard?q=P0", True, "250"),
        ("dashboard?q=P0&severity=warning", False, "0"),
        ("dashboard?q=P0&severity=well", False, "200"),
    ]


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("severity=bad", "A severity is one of well, warning, unhealthy."),
        ("severity=Unhealthy", "A severity is one of"),
        ("page=0", "A page is a number from 1 on."),
        ("page=-1", "A page is a number"),
        ("page=1e3", "A page is a number"),
        ("page=%D9%A3", "A page is a number"),
        ("page=" + "9" * 5000, "The address is too long."),
        ("page=" + "9" * 50, "A page is a number"),
        ("q=" + "a" * 64, "No poller has a name of more than 63 characters."),
        ("q=a&q=b", "A part of the address is given twice."),
        ("page=1&page=", "A part of the address is given twice."),
        ("q=%FF", "The address is malformed."),
    ],
)
def test_a_bad_query_is_400_before_any_look(query: str, why: str) -> None:
    shop = busy_shop()
    with serve(shop) as server:
        given = ask(server, query)

    assert given.status == 400
    assert why in given.body.decode()
    assert b'href="dashboard"' in given.body
    assert shop.looks == 0


@pytest.mark.parametrize(
    "text",
    [
        '"><script>alert(1)</script>',
        "</title><img src=x onerror=alert(2)>",
        "\u202e\u2028\x1b[2J\0",
        "{{7*7}}",
        "😀" * 63,
    ],
)
def test_a_hostile_search_is_shown_as_text(text: str) -> None:
    with serve(busy_shop()) as server:
        given = ask(server, f"q={quote(text)}&severity=well")
    body = re.sub(r"<(script|style) nonce.*?</\1>", "", given.body.decode(), flags=re.DOTALL)

    assert given.status == 200
    assert re.findall(r"<script|<img", body) == []
    value = re.findall(r'name="q" type="search" value="([^"]*)" autocomplete', body)
    assert [html.unescape(one) for one in value] == [text if text.isprintable() else "\\u202e\\u2028\\x1b[2J\\x00"]
    assert [one for one in body if not one.isprintable() and one != "\n"] == []
    for link in re.findall(r'href="([^"]*)"', body):
        assert re.fullmatch(r"dashboard(\?[\w=&;%.+*-]*)?", link), link


@pytest.mark.guarantee(
    "Hostile and broken input",
    "The status page names of an error its class alone, also if a document holds another text in its place",
)
def test_a_poller_that_fails_names_its_errors_class_alone() -> None:
    private: dict[str, Any] = {"error_text": "Jane Doe has no address", "row": "id=777", "row_key": ("id=777",)}
    facts = {"orders": "AddressUnknown", "parcels": "Jane Doe has no address", "refunds": "http.client.HTTPException"}

    def found() -> list[PollerStatus]:
        return [
            poller(name, **waits(3, 90.0), failures=3, attempts=3, error_type=kind, **private)
            for name, kind in facts.items()
        ]

    with serve(Shop(found)) as server:
        given = [ask(server).body.decode(), *(ask(server, name=name).body.decode() for name in facts)]

    for page, said in zip(given[1:], ["AddressUnknown", None, "http.client.HTTPException"], strict=True):
        assert re.findall(r"Its last error: ([^<]*)\.<", page) == ([] if said is None else [said])
    assert re.findall(r"Its last error: ([^<]*)\.<", given[0]) == ["AddressUnknown", "http.client.HTTPException"]
    assert [word for page in given for word in ("Jane", "777") if word in page] == []


def test_a_poller_that_went_on_names_no_error() -> None:
    with serve(Shop(lambda: [poller("orders", error_type="AddressUnknown")])) as server:
        assert b"AddressUnknown" not in ask(server).body + ask(server, name="orders").body


@pytest.mark.parametrize("name", ["", "shipments"])
def test_the_environment_stands_in_the_head_as_text(name: str) -> None:
    shop = busy_shop()
    with serve(shop) as server:
        assert b'class="environment' not in ask(server, name=name).body
    for environment, shown in [
        ("production", 'class="environment production">production<'),
        ("<b>staging", 'class="environment">&lt;b&gt;staging<'),
    ]:
        shop.environment = environment
        with serve(shop) as server:
            assert shown in ask(server, name=name).body.decode()


def test_the_environment_is_the_configurations(tmp_path: Path) -> None:
    shop = RealShop(tmp_path)
    with serve_app(shop.app, "0", environ={}) as server:
        given = ask(server)

    assert f">{shop.app.config.environment}</span>" in given.body.decode()
