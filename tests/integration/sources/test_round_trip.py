"""What does not lead back to its row is refused before anything is delivered: else the same rows would come for ever,
or some never."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from poller.errors import SourceError
from tests.integration.sources.tables import closing, drain, execute, make_orders, orders
from tests.support.cases import each

ONE, TWO = "2026-01-01 00:00:00", "2026-01-02 00:00:00"


def put(url: str, statement: str, *values: tuple[Any, ...]) -> None:
    """Rows with values bound as they are, bytes too."""
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        connection.exec_driver_sql(statement, list(values))


@each(
    ("kind", "keys"),
    [
        ("bit(8)", [f"{i:08b}" for i in range(21)]),
        ("varbit", ["0", "00", "01", "1", "11"]),
        ("character(2)[]", ["{ab,c}", "{ab,d}", "{b}"]),
        ("bit(4)[]", ["{0001}", "{0001,1000}", "{1111}"]),
        ("character(3)", ["a", "b", "ccc"]),
    ],
)
def test_a_key_whose_length_belongs_to_its_type_comes_back_whole(postgres_db: str, kind: str, keys: list[str]) -> None:
    values = ", ".join(f"('{key}', '{ONE}+00')" for key in keys).replace(":", "\\:")
    execute(
        postgres_db,
        f"create table orders (id {kind} primary key, updated_at timestamptz not null)",
        f"insert into orders values {values}",
    )
    with closing(orders(postgres_db)) as source:
        rows = drain(source, 3)
    assert len(rows) == len(keys) == len({str(row["id"]) for row in rows})


def test_text_keys_with_bytes_between_them_are_refused(sqlite_url: str) -> None:
    """Bytes sort after every text: their row would come again with each page."""
    execute(sqlite_url, "create table orders (id text not null primary key, updated_at text not null)")
    put(sqlite_url, "insert into orders values (?, ?)", ("a", ONE), (b"zz", ONE), ("b", TWO))
    with closing(orders(sqlite_url)) as source:
        with pytest.raises(SourceError, match="type bytes") as error:
            source.page(None, 2)
        assert error.value.column == "id"
    with closing(orders(sqlite_url, filter="typeof(id) = 'text'")) as source:
        assert [row["id"] for row in drain(source, 1)] == ["a", "b"]


@each("value", [1.5, "abc", b"1"])
def test_an_integer_cursor_that_is_none_is_refused(sqlite_url: str, value: Any) -> None:
    execute(sqlite_url, "create table orders (n integer not null unique)")
    put(sqlite_url, "insert into orders values (?)", (1,), (value,), (0,))
    number: dict[str, Any] = {"cursor_column": "n", "cursor_kind": "integer+pk", "pk_columns": ["n"]}
    with closing(orders(sqlite_url, **number)) as source, pytest.raises(SourceError) as error:
        source.page(None, 5)
    assert error.value.column == "n"
    execute(sqlite_url, "insert into orders values (9)")  # now it stands between integers, as far as it sorts there
    with closing(orders(sqlite_url, **number)) as source, pytest.raises(SourceError) as error:
        source.page(None, 5)
    assert error.value.column == "n"
    with closing(orders(sqlite_url, filter="typeof(n) = 'integer'", **number)) as source:
        assert [row["n"] for row in drain(source, 1)] == [0, 1, 9]


@each("stored", ["2026-00-15 00:00:00", "2026-02-31 00:00:00"])
@each("place", ["cursor", "key"])
@each("mode", ["", "traditional"])
def test_a_date_that_no_calendar_has_is_refused_wherever_it_stands(
    mariadb_db: str, stored: str, place: str, mode: str
) -> None:
    first = ("'2025-01-01'", "'2025-01-01'")
    odd = (f"'{stored}'", "'2025-01-01'") if place == "cursor" else ("'2025-01-01'", f"'{stored}'")
    execute(
        mariadb_db,
        "create table orders (updated_at datetime not null, day datetime not null primary key)",
        "set session sql_mode = 'ALLOW_INVALID_DATES'",
        f"insert into orders values ({', '.join(first)})",
        f"insert into orders values ({', '.join(odd)})".replace("'2025-01-01')", "'2025-01-02')").replace(":", "\\:"),
    )
    url = sa.make_url(mariadb_db).update_query_dict({"init_command": f"set sql_mode = '{mode}'"})
    with closing(orders(url, pk_columns=["day"])) as source, pytest.raises(SourceError, match=stored[:10]) as error:
        source.page(None, 5)
    assert error.value.column == ("updated_at" if place == "cursor" else "day")


@each("odd", ["n/a", b"2026-01-03 00:00:00", "2026-01-03T00:00:00", 5.5])
@each("bound", ["auto", "none"])
def test_a_value_that_sorts_above_every_bound_is_refused(sqlite_url: str, odd: Any, bound: str) -> None:
    execute(sqlite_url, "create table orders (id integer primary key, updated_at not null, status text)")
    put(sqlite_url, "insert into orders values (?, ?, 'open')", (1, ONE), (2, TWO))
    put(sqlite_url, "insert into orders values (?, ?, 'odd')", (3, odd))
    with closing(orders(sqlite_url, bound=bound)) as source, pytest.raises(SourceError, match="holds") as error:
        source.page(None, 5)
    assert error.value.column == "updated_at"
    with closing(orders(sqlite_url, bound=bound, filter="status <> 'odd'")) as source:
        assert [row["id"] for row in drain(source, 1)] == [1, 2]


def test_a_timestamp_stored_as_bytes_under_way_is_refused(sqlite_url: str) -> None:
    make_orders(sqlite_url, [ONE, TWO])
    with closing(orders(sqlite_url)) as source:
        after = source.page(None, 5).cursors[-1]
        put(sqlite_url, "insert into orders values (3, ?, 'open', 3)", (b"2026-01-03 00:00:00",))
        with pytest.raises(SourceError, match="2026-01-03"):
            source.page(after, 5)


def test_one_that_appears_later_is_refused_once_the_lag_met_it(sqlite_url: str) -> None:
    """It sorts above the bound, so no page meets it; every tick that goes well asks for the lag."""
    make_orders(sqlite_url, [ONE, TWO])
    with closing(orders(sqlite_url, bound="auto")) as source:
        after = source.page(None, 5).cursors[-1]
        put(sqlite_url, "insert into orders values (3, ?, 'open', 3)", ("n/a",))
        source.page(after, 5)
        source.lag(after, cap=5)
        with pytest.raises(SourceError, match="n/a"):
            source.page(after, 5)
