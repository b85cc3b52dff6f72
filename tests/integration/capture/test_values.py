"""The values of a change are those that reading the table itself gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from poller.model.captured import OLD
from poller.sources import SqlSource
from tests.integration.capture.captured import Captured
from tests.integration.capture.reading import source

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


def test_of_mariadb(mariadb_db: str) -> None:
    same(Captured(mariadb_db), MARIADB)


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
