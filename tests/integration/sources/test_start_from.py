"""`start_from` given before there is any row: what it means is settled when the column's form is known."""

from __future__ import annotations

import pytest

from poller.errors import SourceError
from poller.model.cursor import Cursor
from tests.integration.sources.tables import closing, execute, orders
from tests.support.cases import each

STAMPS = ["2026-04-07 09:00:00", "2026-04-07 11:00:00", "2026-04-08 00:00:00"]


def add(url: str, stamps: list[str]) -> None:
    execute(url, "insert into orders (updated_at) values (:at)", rows=[{"at": stamp} for stamp in stamps])


@each(
    ("start", "stamps", "expected"),
    [
        ("2026-04-07T10:00:00", STAMPS, [2, 3]),
        ("2026-04-07 10:00:00", [s.replace(" ", "T") + "Z" for s in STAMPS], [2, 3]),
        ("2026-04-07T12:00:00+02:00", [s.replace(" ", "T") + "Z" for s in STAMPS], [2, 3]),
        ("2026-04-07T10:00:00", [s + ".500" for s in STAMPS], [2, 3]),
        ("2026-04-07T10:00:00", ["2026-04-06", "2026-04-07", "2026-04-08"], [2, 3]),
        ("2026-04-07", STAMPS, [1, 2, 3]),
        (" 2026-04-07 10:00:00 ", STAMPS, [2, 3]),
    ],
)
def test_sqlite_takes_it_in_whatever_form_the_rows_then_have(
    sqlite_url: str, start: str, stamps: list[str], expected: list[int]
) -> None:
    execute(sqlite_url, "create table orders (id integer primary key, updated_at text not null)")
    with closing(orders(sqlite_url, start_from=start)) as source:
        begin = source.start()
        assert begin is not None
        assert source.page(begin, 5).rows == []
        add(sqlite_url, stamps)
        assert [row["id"] for row in source.page(begin, 5).rows] == expected
        assert source.lag(begin, cap=9).pending == len(expected)
        end = Cursor(kind="timestamp+pk", value="9999-01-01T00:00:00")
        if ":" in stamps[0] and not stamps[0].endswith("Z"):
            assert source.count_between(begin, end, cap=9) == (len(expected), False)
            assert [row["id"] for row in source.span(begin, end, 9).rows] == expected


def test_an_offset_that_the_rows_do_not_have_is_refused(sqlite_url: str) -> None:
    execute(sqlite_url, "create table orders (id integer primary key, updated_at text not null)")
    with closing(orders(sqlite_url, start_from="2026-04-07T12:00:00+02:00")) as source:
        begin = source.start()
        add(sqlite_url, STAMPS)
        with pytest.raises(SourceError, match="without a zone"):
            source.page(begin, 5)


@each("start", ["2026-04-07T12:00:00+02:00", "2026-04-07T12:00:00Z"])
def test_an_offset_is_refused_where_the_column_is_unknown(mariadb_db: str, start: str) -> None:
    execute(mariadb_db, "create table orders (id integer auto_increment primary key, updated_at datetime not null)")
    with (
        closing(orders(mariadb_db, query="select * from orders", start_from=start)) as source,
        pytest.raises(SourceError, match="time zone") as error,
    ):
        source.start()
    assert error.value.column == "updated_at"


@each("kind", ["datetime", "timestamp"])
def test_a_query_takes_one_without_an_offset(mariadb_db: str, kind: str) -> None:
    execute(mariadb_db, f"create table orders (id integer auto_increment primary key, updated_at {kind} not null)")
    with closing(orders(mariadb_db, query="select * from orders", start_from="2026-04-07 10:00:00")) as source:
        begin = source.start()
        add(mariadb_db + "?init_command=set time_zone='%2B00:00'", STAMPS)
        assert [row["id"] for row in source.page(begin, 5).rows] == [2, 3]


@each("start", ["abc", "1.5", "one"])
def test_an_integer_is_one_before_there_is_a_row_too(sqlite_url: str, start: str) -> None:
    execute(sqlite_url, "create table orders (id integer primary key autoincrement)")
    keys = {"cursor_column": "id", "cursor_kind": "integer+pk"}
    with (
        closing(orders(sqlite_url, start_from=start, **keys)) as source,
        pytest.raises(SourceError, match="integers") as error,
    ):
        source.start()
    assert error.value.column == "id"
