"""For random tables and batch sizes: the pages, one after the other, are the table as the database sorts it."""

from __future__ import annotations

import uuid
from decimal import Decimal
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sources.tables import TIMESTAMP, closing, drain, family, is_mariadb, orders

_TEXT = st.text(st.sampled_from("aAbBzéÉßñ _-'\"%:\\1"), max_size=4)
_PARTS: dict[str, tuple[dict[str, str], st.SearchStrategy[Any]]] = {
    "integer": ({"": "bigint"}, st.integers(-5, 5) | st.integers(-(2**62), 2**62)),
    "text": ({"": "varchar(20)"}, _TEXT),
    "binary text": (
        {"postgresql": 'varchar(20) collate "C"', "mysql": "varchar(20) collate utf8mb4_bin", "sqlite": "text"},
        _TEXT,
    ),
    "folding text": (
        {"postgresql": 'varchar(20) collate "und-x-icu"', "mysql": "varchar(20)", "sqlite": "text collate nocase"},
        _TEXT,
    ),
    "uuid": ({"": "uuid", "sqlite": "text", "mysql": "char(36)", "mariadb": "uuid"}, st.uuids(version=4).map(str)),
    "numeric": ({"": "decimal(20,6)", "sqlite": "integer"}, st.integers(-(10**9), 10**9)),
    "bytes": ({"postgresql": "bytea", "mysql": "varbinary(8)", "sqlite": "blob"}, st.binary(max_size=6)),
    "date": ({"": "date", "sqlite": "text"}, st.dates().map(lambda d: f"{d:%Y-%m-%d}".rjust(10, "0"))),
}
_SECONDS = st.integers(0, 4).map(lambda s: f"2026-01-01 00:00:0{s}.500000")


@st.composite
def _tables(draw: st.DrawFn) -> tuple[list[str], list[tuple[Any, ...]], int]:
    kinds = draw(st.lists(st.sampled_from(sorted(_PARTS)), min_size=1, max_size=3))
    row = st.tuples(_SECONDS, *(_PARTS[kind][1] for kind in kinds))
    rows = draw(st.lists(row, max_size=40, unique_by=lambda r: tuple(map(repr, r[1:]))))
    return kinds, rows, draw(st.integers(1, 9))


def _type(kind: str, url: str) -> str:
    types, which = _PARTS[kind][0], family(url)
    if "mariadb" in types and which == "mysql" and is_mariadb(url):
        which = "mariadb"
    return types.get(which, types.get("", ""))


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(table=_tables())
def test_the_pages_concatenated_are_the_table_sorted_by_the_database(
    any_db: str, table: tuple[list[str], list[tuple[Any, ...]], int]
) -> None:
    kinds, rows, limit = table
    which = family(any_db)
    names = [f"k{i}" for i in range(len(kinds))]
    types = [_type(kind, any_db) for kind in kinds]
    columns = ", ".join(f"{n} {t} not null" for n, t in zip(names, types, strict=True))
    engine = sa.create_engine(any_db, poolclass=sa.NullPool)
    with engine.begin() as connection:
        connection.execute(sa.text("drop table if exists orders"))
        connection.execute(
            sa.text(
                f"create table orders (n integer, updated_at {TIMESTAMP[which]} not null, {columns},"
                f" primary key ({', '.join(names)}))"
            )
        )
        insert = sa.text(f"insert into orders values (:n, :at, {', '.join(':' + n for n in names)})")
        stored = 0
        for n, (at, *key) in enumerate(rows):
            # Keys that differ in Python may be one key in a collation: the database decides.
            try:
                with connection.begin_nested():
                    connection.execute(insert, {"n": n, "at": at, **dict(zip(names, key, strict=True))})
                stored += 1
            except sa.exc.IntegrityError:
                pass
        order = ", ".join(["updated_at", *names])
        expected = list(connection.execute(sa.text(f"select n from orders order by {order}")).scalars())
    assert len(expected) == stored
    with closing(orders(any_db, pk_columns=names)) as source:
        assert [row["n"] for row in drain(source, limit)] == expected
    engine.dispose()


@pytest.mark.parametrize("value", [Decimal("1.10"), uuid.UUID(int=7), b"\x00\xff", 7, "x"])
def test_json_values_are_exact(value: Any) -> None:
    from poller.sources.keys import json_value

    kept = json_value(value)
    assert type(kept) in {int, str}
    assert kept in {"1.10", str(uuid.UUID(int=7)), "00ff", 7, "x"}
