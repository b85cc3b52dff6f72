"""A query's types are learned from a row that has values: a NULL says nothing of its column."""

from __future__ import annotations

import pytest

from poller.errors import SourceError
from tests.integration.sources.tables import closing, drain, execute, orders
from tests.support.cases import each


def _rows(url: str, *rows: str, key: str = "id integer not null") -> None:
    execute(
        url,
        f"create table orders (row_id integer primary key, {key}, updated_at datetime(6) null)",
        "insert into orders values " + ", ".join(rows).replace(":", "\\:"),
    )


@each("keys", [{"on_null_cursor": "skip"}, {"filter": "updated_at is not null"}, {"filter": "id > 1"}])
def test_a_first_row_without_a_cursor_is_not_read(family_db: str, keys: dict[str, str]) -> None:
    _rows(family_db, "(1, 1, null)", "(2, 2, '2026-01-01')", "(3, 3, '2026-01-02')")
    with closing(orders(family_db, query="select * from orders", **keys)) as source:
        assert [row["id"] for row in drain(source, 1)] == [2, 3]


def test_a_first_row_that_is_no_date_decides_nothing(mariadb_db: str) -> None:
    execute(mariadb_db, "set sql_mode = ''", "create table orders (id integer primary key, updated_at datetime(6))")
    execute(mariadb_db, "set sql_mode = ''", "insert into orders values (1, '0000-00-00'), (2, '2026-01-02')")
    with closing(orders(mariadb_db, query="select * from orders", filter="id > 1")) as source:
        assert [row["id"] for row in drain(source, 1)] == [2]


def test_a_first_row_without_a_key_may_be_left_out_by_the_filter(family_db: str) -> None:
    _rows(family_db, "(1, null, '2026-01-01')", "(2, 5, '2026-01-01')", key="id integer null")
    with closing(orders(family_db, query="select * from orders", filter="id is not null")) as source:
        assert [row["id"] for row in drain(source, 1)] == [5]


@each("also", ["(2, 5, '2026-01-01')", "(2, null, '2026-01-01')"])
def test_a_first_row_without_a_key_that_is_to_be_read_is_refused(mariadb_db: str, also: str) -> None:
    _rows(mariadb_db, "(1, null, '2026-01-01')", also, key="id integer null")
    with (
        closing(orders(mariadb_db, query="select * from orders")) as source,
        pytest.raises(SourceError, match="NULL") as refused,
    ):
        source.page(None, 5)
    assert refused.value.column == "id"


def test_rows_without_a_cursor_are_refused_where_no_other_is_there(mariadb_db: str) -> None:
    _rows(mariadb_db, "(1, 1, null)")
    with (
        closing(orders(mariadb_db, query="select * from orders")) as source,
        pytest.raises(SourceError, match="1 row has no updated_at"),
    ):
        source.page(None, 5)
