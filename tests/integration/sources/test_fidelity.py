"""Cursor fidelity: what the database holds comes back to it unchanged, through text and JSON."""

from __future__ import annotations

import pytest

from poller.errors import SourceError
from poller.model.cursor import KeyValue
from tests.integration.sources.tables import closing, drain, execute, family, is_mariadb, make_orders, orders
from tests.support.cases import each


def _table(url: str, stamp_type: str, *stamps: str, key_type: str = "integer", keys: list[str] | None = None) -> None:
    values = ", ".join(f"({(keys or [])[i] if keys else i + 1}, '{s}')" for i, s in enumerate(stamps))
    execute(
        url,
        f"create table orders (id {key_type} not null primary key, updated_at {stamp_type} not null)",
        "insert into orders values " + values.replace(":", "\\:"),
    )


@each(
    ("kind", "stored", "expected"),
    [
        ("timestamptz", "2026-03-29 02:30:00.123456+02", "2026-03-29T00:30:00.123456Z"),
        ("timestamptz", "2026-01-01 00:00:00+00", "2026-01-01T00:00:00.000000Z"),
        ("timestamptz(0)", "2026-01-01 00:00:00.7+00", "2026-01-01T00:00:01.000000Z"),
        ("timestamp", "2026-01-01 12:00:00.000001", "2026-01-01T12:00:00.000001"),
        ("timestamptz", "-infinity", "-infinity"),
        ("timestamptz", "infinity", "infinity"),
        ("timestamp", "0044-03-15 12:00:00 BC", "0044-03-15 12:00:00 BC"),
        ("timestamp", "20260-01-01 00:00:00", "20260-01-01T00:00:00.000000"),
        ("date", "2026-04-07", "2026-04-07"),
    ],
)
def test_postgresql_renders_and_takes_back(postgres_db: str, kind: str, stored: str, expected: str) -> None:
    _table(postgres_db, kind, stored, stored)
    with closing(orders(postgres_db)) as source:
        first = source.page(None, 1).cursors[0]
        assert first.value == expected
        assert [row["id"] for row in source.page(first, 5).rows] == [2], "the tie was found again, exactly"
        assert len(drain(source, 1)) == 2


@each(
    ("kind", "stored", "expected"),
    [
        ("datetime(6)", "2026-01-01 00:00:00.123456", "2026-01-01T00:00:00.123456"),
        ("datetime", "2026-01-01 00:00:00", "2026-01-01T00:00:00.000000"),
        ("datetime(3)", "2026-01-01 00:00:00.125", "2026-01-01T00:00:00.125000"),
        ("date", "2026-01-01", "2026-01-01"),
    ],
)
def test_mysql_and_mariadb_render_and_take_back(family_db: str, kind: str, stored: str, expected: str) -> None:
    _table(family_db, kind, stored, stored)
    with closing(orders(family_db)) as source:
        first = source.page(None, 1).cursors[0]
        assert first.value == expected
        assert len(drain(source, 1)) == 2


def test_mysqls_timestamp_is_an_instant_whatever_the_servers_zone(family_db: str) -> None:
    execute(
        family_db,
        "create table orders (id integer primary key, updated_at timestamp(6) not null)",
        "set time_zone = '+05:30'",
        "insert into orders values (1, '2026-01-01 05:30:00.5'), (2, '2026-01-01 05:30:00.5')",
    )
    with closing(orders(family_db, cursor_time_zone=None)) as source:
        assert source.page(None, 1).cursors[0].value == "2026-01-01T00:00:00.500000Z"
        assert len(drain(source, 1)) == 2


@each(
    "stamps",
    [
        ["2026-01-01 00:00:00", "2026-01-01 00:00:00.5", "2026-01-01 00:00:01"],
        ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"],
        ["2026-01-01T00:00:00.123456+00:00", "2026-01-01T00:00:00.123457+00:00", "2026-01-02T00:00:00.000000+00:00"],
        ["2026-01-01", "2026-01-01", "2026-01-02"],
        ["2026-01-01 00:00", "2026-01-01 00:00", "2026-01-01 00:01"],
    ],
)
def test_sqlite_keeps_the_stored_texts_own_form(sqlite_url: str, stamps: list[str]) -> None:
    make_orders(sqlite_url, stamps)
    with closing(orders(sqlite_url, bound="auto")) as source:
        page = source.page(None, 10)
        assert [cursor.value for cursor in page.cursors] == stamps
        assert page.bound.value is not None
        assert len(page.bound.value) <= max(map(len, stamps))
        assert [row["id"] for row in drain(source, 1)] == [1, 2, 3]


@each("odd", ["2026-01-01T00:00:05", "yesterday", "2026-01-01 00:00:05Z", ""])
def test_sqlite_refuses_a_column_that_mixes_forms(sqlite_url: str, odd: str) -> None:
    make_orders(sqlite_url, ["2026-01-01 00:00:00", odd, "2026-01-02 00:00:00"])
    with closing(orders(sqlite_url)) as source, pytest.raises(SourceError) as error:
        drain(source, 10)
    assert error.value.column == "updated_at"


_KEYS: dict[str, list[tuple[str, list[str], list[KeyValue]]]] = {
    "postgresql": [
        ("uuid", ["'6ba7b810-9dad-11d1-80b4-00c04fd430c8'"], ["6ba7b810-9dad-11d1-80b4-00c04fd430c8"]),
        (
            "numeric(30,10)",
            ["0.1000000001", "99999999999999999999.5"],
            ["0.1000000001", "99999999999999999999.5000000000"],
        ),
        ("date", ["'0001-02-03'", "'infinity'"], ["0001-02-03", "infinity"]),
        ("bytea", ["'\\x00ff'", "'\\xff'"], ["00ff", "ff"]),
        ("timestamptz", ["'2026-01-01 00:00+01'"], ["2025-12-31T23:00:00.000000Z"]),
        ("char(5)", ["'a'", "'b'"], ["a    ", "b    "]),
        ('varchar(10) collate "C"', ["'B'", "'a'"], ["B", "a"]),
        ("smallint", ["-3", "5"], [-3, 5]),
        ("inet", ["'10.0.0.2'", "'10.0.0.10'"], ["10.0.0.2/32", "10.0.0.10/32"]),
    ],
    "mariadb": [
        ("uuid", ["'6ba7b810-9dad-11d1-80b4-00c04fd430c8'"], ["6ba7b810-9dad-11d1-80b4-00c04fd430c8"]),
    ],
    "mysql": [
        ("binary(4)", ["x'00ff'", "x'ff'"], ["00ff0000", "ff000000"]),
        (
            "decimal(30,10)",
            ["0.1000000001", "99999999999999999999.5"],
            ["0.1000000001", "99999999999999999999.5000000000"],
        ),
        ("date", ["'2026-02-03'", "'2026-02-04'"], ["2026-02-03", "2026-02-04"]),
        ("varbinary(8)", ["x'00ff'", "x'ff'"], ["00ff", "ff"]),
        ("bigint unsigned", ["3", "18446744073709551615"], [3, 18446744073709551615]),
        ("varchar(10) character set latin1 collate latin1_swedish_ci", ["'a'", "'B'"], ["a", "B"]),
        ("varchar(10) collate utf8mb4_bin", ["'B'", "'a'"], ["B", "a"]),
        ("datetime(6)", ["'2026-01-01 00:00:00.000001'"], ["2026-01-01T00:00:00.000001"]),
    ],
    "sqlite": [
        ("text", ["'B'", "'a'"], ["B", "a"]),
        ("text collate nocase", ["'a'", "'B'"], ["a", "B"]),
        ("blob", ["x'00ff'", "x'ff'"], ["00ff", "ff"]),
        ("integer", ["-3", "9223372036854775807"], [-3, 9223372036854775807]),
        ("varchar(36)", ["'6ba7b810-9dad-11d1-80b4-00c04fd430c8'"], ["6ba7b810-9dad-11d1-80b4-00c04fd430c8"]),
    ],
}


def test_keys_of_every_type_round_trip_inside_a_tie(any_db: str) -> None:
    kinds = _KEYS[family(any_db)]
    if family(any_db) == "mysql" and is_mariadb(any_db):
        kinds = kinds + _KEYS["mariadb"]
    for number, (kind, keys, expected) in enumerate(kinds):
        execute(any_db, "drop table if exists orders")
        stamp = "2026-01-01 00:00:00.000000"
        stamp_type = {"postgresql": "timestamp", "mysql": "datetime(6)", "sqlite": "text"}[family(any_db)]
        _table(any_db, stamp_type, *[stamp] * len(keys), key_type=kind, keys=keys)
        with closing(orders(any_db)) as source:
            found = [cursor.tiebreaker for cursor in source.page(None, 9).cursors]
            assert found == [{"id": key} for key in expected], (number, kind)
            assert len(drain(source, 1)) == len(keys), kind


def test_an_empty_query_source_is_empty_and_then_read(any_db: str) -> None:
    make_orders(any_db, [])
    query = "select id, updated_at from orders"
    with closing(orders(any_db, query=query, bound="auto", start_from="now")) as source:
        page = source.page(None, 5)
        assert (list(page.rows), list(page.cursors)) == ([], [])
        assert source.lag(None, cap=5).pending == 0
        source.start()
        execute(any_db, "insert into orders values (1, '2026-01-01 00:00:00.000001', 'x', 1)".replace(":", "\\:"))
        assert [row["id"] for row in source.page(None, 5).rows] == [1]
