"""The ordering key's values: the database's text of columns that need be neither the key nor among those read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from poller import Poller
from poller.errors import ConfigError, SourceError
from poller.model.cursor import Cursor
from poller.model.fingerprint import SourceDescription
from poller.ports import Bound, Lag, Page, Row, Source
from poller.sources import SqlSource
from poller.stores import MemoryStore
from tests.integration.sources.tables import TEXT, TIMESTAMP, closing, execute, family, make_orders, orders

STAMP = "2026-01-01 00:00:0{}.250000"
BYTES = {"postgresql": "bytea", "mysql": "varbinary(8)", "sqlite": "blob"}
MOMENT = {"postgresql": "timestamptz", "mysql": "timestamp(6) null", "sqlite": "text"}
FLOAT = {"postgresql": "double precision", "mysql": "double", "sqlite": "real"}


@pytest.fixture
def customers(any_db: str) -> str:
    """Rows of customers, one of them unknown, whose columns have every kind of values."""
    kind = family(any_db)
    execute(
        any_db,
        f"create table orders (id integer not null primary key, updated_at {TIMESTAMP[kind]} not null,"
        f" customer integer, name {TEXT[kind]}, token {BYTES[kind]}, seen {MOMENT[kind]}, rate {FLOAT[kind]},"
        " price decimal(10, 2), poller_ordering_0 integer)",
        "insert into orders values (:id, :at, :customer, :name, :token, :seen, :rate, :price, 5)",
        rows=[
            _row(1, 10, "ä", b"\xff\x00", "2026-01-01 00:00:00"),
            _row(2, None, None, None, None),
            _row(3, 9, "", b"\xfe\x00", "2026-01-01 00:00:01"),
            _row(4, 10, "A", b"\xff\x00", "2026-01-01 00:00:00"),
        ],
    )
    return any_db


def _row(number: int, customer: int | None, name: str | None, token: bytes | None, seen: str | None) -> dict[str, Any]:
    known = customer is not None
    return {
        "id": number,
        "at": STAMP.format(number),
        "customer": customer,
        "name": name,
        "token": token,
        "seen": seen,
        "rate": 0.5 if known else None,
        "price": 12 if known else None,
    }


def _of(url: str, key: tuple[str, ...], **options: Any) -> SqlSource:
    source = orders(url, **options)
    source.ordering_key = key
    return source


def _ordering(page: Page) -> list[dict[str, Any]]:
    assert page.ordering is not None
    return [dict(one) for one in page.ordering]


def test_a_page_has_the_text_of_each_rows_key(customers: str) -> None:
    """Also a part of a page, a span, and another source of the same rows; the handler's rows do not show it."""
    with closing(_of(customers, ("customer", "name"))) as source:
        page = source.page(None, 10)
        assert _ordering(page) == [
            {"customer": "10", "name": "ä"},
            {"customer": None, "name": None},
            {"customer": "9", "name": ""},
            {"customer": "10", "name": "A"},
        ]
        assert page.ordering is not None
        assert [one["customer"] for one in page.ordering[1:3]] == [None, "9"]
        low, high = page.cursors[0], page.cursors[2]
        assert [one["customer"] for one in _ordering(source.span(low, high, 10))] == [None, "9"]
        assert source.cursor_at(None, high, 1) == low
        with closing(source.another()) as other:
            assert _ordering(other.page(None, 1)) == [{"customer": "10", "name": "ä"}]
    with closing(orders(customers)) as source:
        plain = source.page(None, 10)
        assert plain.rows == page.rows
        assert _ordering(source.page(None, 1)) == [{"id": 1}]
        source.ordering_key = ("customer",)
        assert _ordering(source.page(None, 1)) == [{"customer": "10"}], "it counts from the next page on"
        source.ordering_key = ()
        assert _ordering(source.page(None, 1)) == [{"id": 1}]
    with closing(_of(customers, ("customer",), columns=["name"])) as source:
        page = source.page(None, 10)
    assert list(page.rows[0]) == ["name", "updated_at", "id"]
    assert [one["customer"] for one in _ordering(page)] == ["10", None, "9", "10"]
    with closing(_of(customers, ("custmer",))) as source, pytest.raises(SourceError) as refused:
        source.page(None, 1)
    assert refused.value.column == "custmer"
    assert "(key `ordering_key`)" in refused.value.message
    assert "Did you mean 'customer'?" in refused.value.next_step


def test_equal_values_of_every_type_have_one_text(customers: str) -> None:
    """In a table and in a query, whichever row that shows first."""
    for options in ({}, {"query": "select * from orders"}):
        for name in ("customer", "token", "seen", "rate", "price"):
            with closing(_of(customers, (name,), **options)) as source:
                first, unknown, third, fourth = (one[name] for one in _ordering(source.page(None, 10)))
            assert unknown is None
            assert isinstance(first, str)
            assert first == fourth
            assert (first == third) == (name in {"rate", "price"})
            assert name != "token" or first == "ff00", "bytes are hexadecimal digits"
    for name in ("customer", "name", "token", "seen", "rate", "price"):
        texts = []
        for first_id in (1, 2):
            query = f"select * from orders where id >= {first_id}"
            with closing(_of(customers, (name,), query=query)) as source:
                texts.append(_ordering(source.page(None, 10))[-1])
        assert texts[0] == texts[1]


def test_pages_continue_and_ties_are_read_with_the_key(any_db: str) -> None:
    make_orders(any_db, [STAMP.format(i // 25) for i in range(100)])
    seen: list[tuple[int, str]] = []
    with closing(_of(any_db, ("total",))) as source:
        after: Cursor | None = None
        while (page := source.page(after, 7)).rows:
            assert len(page.rows) == len(_ordering(page))
            seen += [(row["id"], one["total"]) for row, one in zip(page.rows, _ordering(page), strict=True)]
            after = page.cursors[-1]
    assert seen == [(number, str(number - 1)) for number in range(1, 101)]


def test_a_case_sensitive_name_is_quoted(any_db: str) -> None:
    q = "`{}`" if family(any_db) == "mysql" else '"{}"'
    name = q.format("Customer Id")
    execute(
        any_db,
        f"create table orders (id integer not null primary key, updated_at {TIMESTAMP[family(any_db)]} not null,"
        f" {name} integer)",
        f"insert into orders values (1, '{STAMP.format(1)}', 7)",
    )
    with closing(_of(any_db, ("Customer Id",))) as source:
        assert _ordering(source.page(None, 10)) == [{"Customer Id": "7"}]


def test_sqlites_values_have_a_type_each(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'types.sqlite3'}"
    execute(url, "create table orders (id integer not null primary key, updated_at text not null, customer)")
    rows = [{"id": i, "at": STAMP.format(i), "c": c} for i, c in enumerate([1, "1", 1.5, b"\xff\x00a", "é", None])]
    execute(url, "insert into orders values (:id, :at, :c)", rows=rows)
    with closing(_of(url, ("customer",))) as source:
        assert [one["customer"] for one in _ordering(source.page(None, 10))] == ["1", "1", "1.5", "ff0061", "é", None]


def test_text_of_invalid_utf_8_orders_rows(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'text.sqlite3'}"
    execute(
        url,
        "create table orders (id integer not null primary key, updated_at text not null, customer text)",
        f"insert into orders values (1, '{STAMP.format(1)}', cast(x'61ff' as text))",
    )
    with closing(_of(url, ("customer",), columns=["id"])) as source:
        assert _ordering(source.page(None, 1)) == [{"customer": "a\\xff"}]


# --- a poller's option


def _poller(source: Any, **options: Any) -> Poller:
    return Poller("orders", source=source, store=MemoryStore(), app_name="shop", **options)


def test_a_pollers_option_reaches_its_source(sqlite_url: str) -> None:
    source = orders(sqlite_url)
    assert source.can_order
    _poller(source, ordering_key=["total"])
    assert source.ordering_key == ("total",)


def test_the_key_columns_are_read_no_second_time(sqlite_url: str) -> None:
    make_orders(sqlite_url, [STAMP.format(1)])
    with closing(orders(sqlite_url)) as source:
        _poller(source, ordering_key=["id"])
        page = source.page(None, 1)
        assert _ordering(page) == [{"id": 1}]
        assert source.ordering_key == ()


def test_check_names_an_unknown_column(sqlite_url: str) -> None:
    make_orders(sqlite_url, [STAMP.format(1)])
    with _poller(orders(sqlite_url), ordering_key=["customer"]) as poller:
        found = [one for one in poller.check() if "ordering_key" in one.message]
    assert [one.severity for one in found] == ["error"]
    assert "'customer'" in found[0].message


def test_without_the_option_the_statement_is_the_same(sqlite_url: str) -> None:
    make_orders(sqlite_url, [STAMP.format(1)])
    engine = sa.create_engine(sqlite_url, poolclass=sa.NullPool)
    ran: list[str] = []
    sa.event.listen(engine, "before_cursor_execute", lambda *call: ran.append(call[2]))
    for key in ((), ("id",)):
        with closing(orders(engine)) as source:
            _poller(source, ordering_key=key)
            source.page(None, 5)
    half = len(ran) // 2
    assert ran[:half] == ran[half:]
    assert not any("poller_ordering" in sql for sql in ran)
    assert sum(sql.startswith("SELECT orders.*") and "poller" not in sql and "ORDER BY" in sql for sql in ran) == 2


class _Plain(Source):
    """A source that knows of no ordering key."""

    def describe(self) -> SourceDescription:
        return orders("sqlite://").describe()

    def start(self) -> Cursor | None:
        return None

    def page(self, after: Cursor | None, limit: int, *, lag_cap: int | None = None) -> Page:
        return Page((), (), Bound("none"))

    def lag(self, after: Cursor | None, *, cap: int) -> Lag:
        return Lag(None, 0)

    def key(self, row: Row, cursor: Cursor) -> str:
        return ""


def test_a_source_that_cannot_order_otherwise_is_refused() -> None:
    _poller(_Plain(), ordering_key=["id"])
    with pytest.raises(ConfigError) as refused:
        _poller(_Plain(), ordering_key=["total"])
    assert refused.value.key == "ordering_key"
    assert "_Plain" in refused.value.message
    assert refused.value.next_step
