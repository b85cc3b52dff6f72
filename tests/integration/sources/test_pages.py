"""Pages: every row once, in (cursor, key) order, however rows tie, whatever names and keys look like."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa

from poller.model.cursor import Cursor
from tests.integration.sources.tables import (
    TEXT,
    TIMESTAMP,
    closing,
    drain,
    execute,
    family,
    make_orders,
    orders,
)
from tests.support import flights
from tests.support.cases import each

SECOND = "2026-01-01 00:00:0{}.250000"


def test_what_a_source_is_asked_for_is_what_its_rows_are(any_db: str) -> None:
    """The columns in the table's order or as they are chosen, an OR and special characters in a filter, a query."""
    make_orders(any_db, [SECOND.format(i // 10) for i in range(40)])
    with closing(orders(any_db)) as source:
        row = source.page(None, 1).rows[0]
        assert (type(row), list(row)) == (dict, ["id", "updated_at", "status", "total"])
        tie = source.page(None, 14).cursors[13]
        again = Cursor(kind=tie.kind, value=tie.value, tiebreaker=None)
        assert [row["id"] for row in drain(source, 7, again)] == list(range(11, 41)), "without a key: at or after"
    with closing(orders(any_db, columns=["total", "id"])) as source:
        assert {tuple(row) for row in drain(source, 7)} == {("total", "id", "updated_at")}
    with closing(orders(any_db, filter="status = 'open' OR orders.status = 'sent'")) as source:
        assert [row["id"] for row in drain(source, 3)] == [i for i in range(1, 41) if i % 3 != 1]
    query = "SELECT id, updated_at, total * 2 AS twice FROM orders WHERE total < 20 -- the first twenty"
    with closing(orders(any_db, query=query, filter="twice > 4")) as source:
        assert [(row["id"], row["twice"]) for row in drain(source, 4)] == [(i + 1, 2 * i) for i in range(3, 20)]
    execute(any_db, "update orders set status = 'a\\:b%c''d' where id = 3")
    with closing(orders(any_db, filter="status = 'a:b%c''d' AND total % 2 = 0")) as source:
        assert [row["id"] for row in drain(source, 3)] == [3]
    with closing(orders(any_db)) as source:
        after = source.page(None, 30).cursors[-1]
        execute(any_db, f"alter table orders add column poller_cursor_0 {TEXT[family(any_db)]}")
        execute(any_db, "update orders set poller_cursor_0 = 'mine'")
        page = source.page(after, 10)
        assert {row["poller_cursor_0"] for row in page.rows} == {"mine"}, "added now, and named as ours"
        assert page.cursors[0].value.startswith("2026-01-01")


def test_reserved_and_mixed_case_names(any_db: str) -> None:
    mark = "`" if family(any_db) == "mysql" else '"'
    table, stamp, key, odd = (mark + name + mark for name in ("Order", "Updated At", "select", "50% \\: off"))
    execute(
        any_db,
        f"create table {table} ({key} integer not null primary key, {stamp} {TIMESTAMP[family(any_db)]} not null,"
        f" {odd} integer)",
        f"insert into {table} values (1, '2026-01-01 00:00:00', 5), (2, '2026-01-01 00:00:00', 6)",
    )
    keys = {"table": "Order", "cursor_column": "Updated At", "pk_columns": ["select"]}
    with closing(orders(any_db, **keys)) as source:
        assert [(row["select"], row["50% : off"]) for row in drain(source, 1)] == [(1, 5), (2, 6)]
    with closing(orders(any_db, **keys, columns=["50% : off"])) as source:
        assert [(row["select"], row["50% : off"]) for row in drain(source, 1)] == [(1, 5), (2, 6)]


def test_schema_qualified_tables(postgres_db: str) -> None:
    execute(postgres_db, 'create schema "Shop"')
    make_orders(postgres_db, [SECOND.format(i) for i in range(3)], name='"Shop".orders'.replace('"Shop".', "o_"))
    execute(postgres_db, "alter table o_orders rename to orders", 'alter table orders set schema "Shop"')
    with closing(orders(postgres_db, schema="Shop")) as source:
        assert len(drain(source, 2)) == 3
        page = source.page(None, 1)
        assert source.key(page.rows[0], page.cursors[0]) == "Shop.orders/id=1/2026-01-01T00:00:00.250000Z"


def test_what_a_handler_does_to_its_rows_cannot_move_a_cursor(any_db: str) -> None:
    make_orders(any_db, [SECOND.format(i) for i in range(3)])
    with closing(orders(any_db)) as source:
        page = source.page(None, 3)
        for row in page.rows:
            row["id"] = 99  # type: ignore[index]
        assert [cursor.tiebreaker for cursor in page.cursors] == [{"id": 1}, {"id": 2}, {"id": 3}]
        assert page.cursors[-1].tiebreaker == {"id": 3}
        assert [c.tiebreaker for c in page.cursors[1:]] == [{"id": 2}, {"id": 3}]


@pytest.mark.soak
@pytest.mark.parametrize("batch", [1000])
def test_a_year_of_flights_each_row_once_in_the_databases_order(
    postgres_db: str, flights_year: list[dict[str, Any]], batch: int
) -> None:
    engine = sa.create_engine(postgres_db)
    table = flights.create_table(engine)
    flights.load(engine, table, flights_year)
    engine.dispose()
    source = orders(postgres_db, table="flights", cursor_column="time_hour", pk_columns=list(flights.KEY))
    with closing(source):
        rows = drain(source, batch)
    assert len(rows) == flights.YEAR_ROWS
    assert Counter(map(flights.key_of, rows)) == Counter(map(flights.key_of, flights_year))
    with engine.connect() as connection:
        expected = connection.execute(
            sa.text("select time_hour, carrier, flight, origin, sched_dep_time from flights order by 1, 2, 3, 4, 5")
        )
        assert list(map(tuple, expected)) == list(map(flights.key_of, rows))
    engine.dispose()


def test_threads_may_take_turns(any_db: str) -> None:
    make_orders(any_db, [SECOND.format(i) for i in range(4)])
    with closing(orders(any_db)) as source:
        after = source.page(None, 2).cursors[-1]
        with ThreadPoolExecutor(1) as other:
            assert [row["id"] for row in other.submit(source.page, after, 5).result().rows] == [3, 4]
            assert other.submit(lambda: source.lag(after, cap=5)).result().pending == 2


@each("name", ["a:b", "100%", "%(v)s", ":k0", "it's", 'x"y', "back\\slash", "k0::int"])
def test_names_and_texts_may_look_like_parameters(any_db: str, name: str) -> None:
    mark = "`" if family(any_db) == "mysql" else '"'
    table, said = (mark + one.replace(mark, 2 * mark) + mark for one in (name, f"said: {name}"))
    kind = f"updated_at {TIMESTAMP[family(any_db)]} not null"
    texts = ", ".join(f"({at}, '2026-01-05 10:00:0{at}', '{text}')" for at, text in enumerate((":v", "%(v)s", "x")))
    driver = sa.create_engine(any_db, poolclass=sa.NullPool).raw_connection()
    cursor = driver.cursor()
    cursor.execute(f"create table {table} (id integer not null primary key, {kind}, {said} varchar(9))")
    cursor.execute(f"insert into {table} values {texts}")
    driver.commit()
    driver.close()
    for text, expected in ((":v", [1, 2]), ("%(v)s", [0, 2])):
        with closing(orders(any_db, table=name, filter=f"{said} <> '{text}'")) as source:
            assert [row["id"] for row in drain(source, 1)] == expected
