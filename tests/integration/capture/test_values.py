"""The values of a change are those that reading the table itself gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from poller.errors import CaptureGap
from poller.model.captured import OLD
from poller.sources import SqlSource
from tests.integration.capture.captured import Captured
from tests.integration.capture.reading import rows, source

POSTGRESQL = {
    "numeric": "0.1234567890123456789012345678901234567891",
    "double precision": "0.1",
    "real": "0.1",
    "bigint": "9007199254740993",
    "boolean": "true",
    "text": "E'a\\u00e4\\n'",
    "bytea": "'\\x00ff'",
    "date": "'2026-01-31'",
    "timestamp": "'2026-01-31 23:59:59.123456'",
    "timestamptz": "'2026-01-31 23:59:59.123456+02'",
    "time": "'23:59:59.123456'",
    "interval": "'1 day 02:03:04.5'",
    "uuid": "'6f2d1f0e-5c1a-4d4e-9b57-2f9d0c5f4f01'",
    "int[]": "'{1,NULL,3}'",
    "text[]": "'{a,\"b c\"}'",
    "jsonb": """'{"a": [1.50, null]}'""",
    "json": """'{"b": {"c": 1}}'""",
    "inet": "'10.0.0.1/8'",
    "int4range": "'[1,5)'",
}
MARIADB = {
    "decimal(30,10)": "0.1234567891",
    "double": "0.1",
    "float": "0.5",
    "bigint unsigned": "18446744073709551615",
    "bit(9)": "b'100000001'",
    "varchar(20)": "'aä\\n'",
    "varbinary(9)": "x'00ff'",
    "blob": "repeat('x', 200)",
    "date": "'2026-01-31'",
    "datetime(6)": "'2026-01-31 23:59:59.123456'",
    "timestamp(6) null": "'2026-01-31 23:59:59.123456'",
    "time(3)": "'-25:59:59.125'",
    "year": "2026",
    "enum('a','b')": "'b'",
    "set('a','b')": "'a,b'",
    "json": """'{"a": [1.5, null]}'""",
    "tinyint(1)": "1",
}
SCALARS = ("'true'", "'1.50'", "'12345678901234567890'", """'"a\u00e4"'""", """'"[1]"'""", "'[1.50, null]'")
"""Of JSON."""
SQLITE = {"INTEGER": "9223372036854775807", "REAL": "0.1", "TEXT": "'aä'", "BLOB": "x'00ff'", "NUMERIC": "1.5"}


Values = Mapping[str, str] | Sequence[tuple[str, str]]
"""Types of columns, each with a value."""


def of_both_kinds(made: Captured, given: Values, *, exact: bool) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows of a table with a column of each type, as they are read and as they were captured."""
    types = list(given.items()) if isinstance(given, Mapping) else given
    columns = ", ".join(f"c{at} {kind}" for at, (kind, _) in enumerate(types))
    made.run(f"CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, {columns})")
    made.install()
    made.run(
        f"INSERT INTO orders VALUES (1, {', '.join(value for _, value in types)})", "INSERT INTO orders (id) VALUES (2)"
    )
    made.run("UPDATE orders SET id = id")
    table = SqlSource(
        made.url, table="orders", cursor_column="id", cursor_kind="integer+pk", pk_columns=["id"], bound="none"
    )
    changes = source(made)
    table.exact = changes.exact = exact
    read, captured = ([dict(row) for row in one.page(None, 10).rows] for one in (table, changes))
    table.close()
    changes.close()
    return read, captured


def same(made: Captured, types: Values, *, exact: bool = False) -> None:
    read, captured = of_both_kinds(made, types, exact=exact)
    made.close()
    assert len(captured) == 4
    for at, change in enumerate(captured):
        values = {name: value for name, value in change.items() if not name.startswith("_")}
        row = read[at % 2]
        assert values == row
        assert [type(value) for value in values.values()] == [type(value) for value in row.values()]
        assert change[OLD] == (row if at >= 2 else None)


def test_of_postgresql(postgres_db: str) -> None:
    same(Captured(postgres_db), POSTGRESQL)


@pytest.mark.parametrize(
    ("ddl", "kind", "value"),
    [
        ("CREATE EXTENSION hstore", "hstore", "'a=>1, b=>NULL'"),
        ("CREATE EXTENSION hstore", "hstore[]", "ARRAY['a=>1', NULL]::hstore[]"),
        ("CREATE TYPE of AS ENUM ('a')", "of[]", "'{a}'"),
        ("CREATE DOMAIN of AS varchar(5) NOT NULL DEFAULT 'b'", "of", "'a'"),
        ("CREATE TYPE of AS (x int, y text)", "of[]", "ARRAY[(1, 'a'), (2, NULL)]::of[]"),
    ],
)
def test_of_types_of_ones_own_in_postgresql(postgres_db: str, ddl: str, kind: str, value: str) -> None:
    made = Captured(postgres_db)
    made.run(ddl)
    same(made, {kind: value, "text": "'a'"})


def test_a_cast_to_json_is_no_value_of_a_change(postgres_db: str) -> None:
    """The server makes JSON of a row by such casts; they are the type's owner's, and need not lead back."""
    made = Captured(postgres_db)
    made.run(
        "CREATE TYPE of AS ENUM ('a')",
        "CREATE FUNCTION shown(of) RETURNS json LANGUAGE sql AS $$ SELECT '{}'::json $$",
        "CREATE CAST (of AS json) WITH FUNCTION shown(of)",
        'CREATE TABLE orders (id int PRIMARY KEY, "it\'s: {}" of, other of)',
    )
    made.install(excluded=("other",))
    made.run("INSERT INTO orders VALUES (1, 'a', 'a')", "INSERT INTO orders VALUES (2)")
    assert [row["it's: {}"] for row in rows(made)] == ["a", None]
    made.holds()
    made.close()


def test_what_a_domain_allows_now_is_no_rule_for_earlier_changes(postgres_db: str) -> None:
    made = Captured(postgres_db)
    made.run(
        "CREATE DOMAIN few AS int NOT NULL",
        "CREATE TYPE state AS ENUM ('new', 'done')",
        "CREATE TABLE orders (id int PRIMARY KEY, number few, phase state, hidden few)",
    )
    made.install(old=False, excluded=("hidden",))
    made.run("INSERT INTO orders VALUES (1, 5, 'new', 1)", "UPDATE orders SET number = 50", "DELETE FROM orders")
    made.run("ALTER DOMAIN few ADD CHECK (value > 10)", "ALTER TYPE state RENAME VALUE 'new' TO 'begun'")
    assert [(row["_op"], row["number"], row["phase"]) for row in rows(made)] == [
        ("I", 5, "new"),
        ("U", 50, "new"),
        ("D", None, None),
    ]
    made.run("ALTER TABLE orders ADD another few DEFAULT 11")
    made.install()
    assert [row["another"] for row in rows(made)] == [None, None, None]
    made.close()


def test_a_renamed_column_with_a_domain_is_no_missing_value(postgres_db: str) -> None:
    made = Captured(postgres_db)
    made.run("CREATE DOMAIN few AS int", "CREATE TABLE orders (id int PRIMARY KEY, number few)")
    made.install()
    made.run("INSERT INTO orders VALUES (1, 5)")
    of = source(made)
    assert [row["number"] for row in of.page(None, 1).rows] == [5]
    made.run("ALTER TABLE orders RENAME number TO count", "INSERT INTO orders VALUES (2, 6)")
    with pytest.raises(CaptureGap, match=r"number was dropped|count was added"):
        of.page(None, 10)
    of.close()
    made.close()


def test_a_change_that_fits_no_type_of_today_stops_the_reader(postgres_db: str) -> None:
    made = Captured(postgres_db)
    made.run("CREATE TABLE orders (id int PRIMARY KEY, note text)")
    made.install()
    made.run("INSERT INTO orders VALUES (1, 'abc')", "ALTER TABLE orders ALTER note TYPE int USING length(note)")
    made.install()
    with pytest.raises(CaptureGap, match="does not fit the types") as stopped:
        rows(made)
    assert "--to snapshot" in stopped.value.next_step
    made.close()


def test_of_mariadb(mariadb_db: str) -> None:
    same(Captured(mariadb_db), MARIADB)


@pytest.mark.parametrize(
    "kind", ["decimal(10,2)", "double", "blob", "bit(9)", "year", "timestamp NULL", "time", "point"]
)
def test_what_fits_no_type_of_today_stays_text_in_mariadb(mariadb_db: str, kind: str) -> None:
    made = Captured(mariadb_db)
    made.run("CREATE TABLE orders (id int PRIMARY KEY, note varchar(20))")
    made.install()
    made.run("INSERT INTO orders VALUES (1, 'abc')", "UPDATE orders SET note = NULL")
    made.run(f"ALTER TABLE orders MODIFY note {kind}")
    made.install()
    assert [row["note"] for row in rows(made)] == ["abc", None]
    made.close()


def test_of_sqlite(sqlite_url: str) -> None:
    same(Captured(sqlite_url), SQLITE)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(
    ("fixture", "kind"),
    [("postgres_db", "jsonb"), ("postgres_db", "json"), ("mariadb_db", "json"), ("sqlite_url", "JSON")],
)
def test_of_json_that_is_no_list_and_no_object(
    request: pytest.FixtureRequest, fixture: str, kind: str, exact: bool
) -> None:
    same(Captured(request.getfixturevalue(fixture)), [(kind, value) for value in SCALARS], exact=exact)


EQUAL = [
    ("postgres_db", "numeric", "1.0", "1.00", "2"),
    ("postgres_db", "double precision", "'-0'", "0", "1"),
    ("postgres_db", "citext", "'a'", "'A'", "'b'"),
    ("postgres_db", "varchar(20) COLLATE loose", "'a'", "'A'", None),
    ("postgres_db", "interval", "'1 day'", "'24 hours'", None),
    ("postgres_db", "amount", "1.0", "1.00", "2"),
    ("postgres_db", "text", "'a'", "'a'", "'A'"),
    ("mariadb_db", "varchar(20)", "'a'", "'A '", "'b'"),
    ("mariadb_db", "varchar(20) CHARACTER SET latin1", "'\u00e9'", "'E'", "'f'"),
    ("mariadb_db", "varchar(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", "'a'", "'a '", "'A'"),
    ("mariadb_db", "varbinary(20)", "'a'", "'a'", "'A'"),
    ("sqlite_url", "text COLLATE NOCASE", "'a'", "'A'", "'b'"),
    ("sqlite_url", "text COLLATE RTRIM", "'a'", "'a  '", "'b'"),
    ("sqlite_url", "", "1", "1.0", "1.5"),
    ("sqlite_url", "text", "'a'", "'a'", "'A'"),
]


@pytest.mark.parametrize(("fixture", "kind", "one", "other", "third"), EQUAL)
def test_keys_that_are_equal_come_in_order_however_written(
    request: pytest.FixtureRequest, fixture: str, kind: str, one: str, other: str, third: str | None
) -> None:
    """However they are written; with lanes, a deletion could else come behind the insertion that follows it."""
    made = Captured(request.getfixturevalue(fixture))
    if fixture == "postgres_db":
        made.run("CREATE EXTENSION citext", "CREATE DOMAIN amount AS numeric")
        made.run("CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
    made.run(f"CREATE TABLE orders (id {kind} PRIMARY KEY NOT NULL, n int)")
    made.install(accepted=("replace",))
    made.run(f"INSERT INTO orders VALUES ({one}, 1)", "DELETE FROM orders", f"INSERT INTO orders VALUES ({other}, 2)")
    made.run(f"UPDATE orders SET id = {one}", f"INSERT INTO orders VALUES ({third or one}, 3)" if third else "SELECT 1")
    read = source(made)
    ordering = list(read.page(None, 100).ordering or ())
    read.close()
    made.close()
    same = ordering[: -1 if third else None]
    assert len(same) >= 3
    assert all(key == same[0] for key in same)
    assert third is None or ordering[-1] != same[0]
