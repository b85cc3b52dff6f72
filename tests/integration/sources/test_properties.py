"""For random tables and batch sizes: the pages, one after the other, are the table as the database sorts it."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.integration.sources.tables import closing, drain, family, is_mariadb, orders

Values = st.SearchStrategy[Any]


@dataclass(frozen=True)
class Kind:
    """A type of a cursor's or a key's column, and what may stand in it."""

    sql: str
    values: Values
    cursor_kind: str = "timestamp+pk"
    zone: str | None = "UTC"


def _moments(first: int, last: int, written: str = "%Y-%m-%d %H:%M:%S.%f") -> Values:
    within = st.datetimes(datetime(first, 1, 1), datetime(last, 12, 31))
    return within.map(lambda at: f"{at.year:04}-" + at.strftime(written.removeprefix("%Y-")))


def _integers(bits: int, *, signed: bool = True) -> Values:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return st.integers(max(low, -5), 5) | st.sampled_from([low, high]) | st.integers(low, high)


def _decimals(digits: int, scale: int) -> Values:
    most = 10**digits - 1
    return st.integers(-most, most).map(lambda n: f"{'-' * (n < 0)}{abs(n) // 10**scale}.{abs(n) % 10**scale:0{scale}}")


_LETTERS = "aAbBzéÉßñ _-'\"%:\\1"
_TEXT = st.text(st.sampled_from(_LETTERS), max_size=4)
_BYTES = st.binary(max_size=6)
_UUID = st.uuids(version=4).map(str)
_DATE = "%Y-%m-%d"
_INFINITE = st.sampled_from(["infinity", "-infinity"])

CURSORS: dict[str, list[Kind]] = {
    "postgresql": [
        Kind("timestamptz", _moments(1, 9999) | _INFINITE, zone=None),
        Kind("timestamptz(3)", _moments(1, 9998), zone=None),
        Kind("timestamp", _moments(1, 9999) | _INFINITE),
        Kind("timestamp(0)", _moments(1, 9998)),
        Kind("date", _moments(1, 9999, _DATE) | _INFINITE),
        Kind("smallint", _integers(16), "integer+pk", None),
        Kind("bigint", _integers(64), "integer+pk", None),
        Kind("numeric(30,0)", _decimals(30, 0), "integer+pk", None),
        Kind("xid8", _integers(64, signed=False).map(str), "xid8+pk", None),
    ],
    "mysql": [
        Kind("datetime(6)", _moments(1, 9999)),
        Kind("datetime(3)", _moments(1, 9998)),
        Kind("datetime", _moments(1, 9998)),
        Kind("timestamp(6)", _moments(1971, 2036), zone=None),
        Kind("timestamp", _moments(1971, 2036), zone=None),
        Kind("date", _moments(1, 9999, _DATE)),
        Kind("int", _integers(32), "integer+pk", None),
        Kind("bigint unsigned", _integers(64, signed=False), "integer+pk", None),
        Kind("decimal(30,0)", _decimals(30, 0), "integer+pk", None),
    ],
    "sqlite": [
        *(Kind("text", _moments(1970, 2100, "%Y-%m-%d" + written)) for written in (
            "", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", "T%H:%M:%SZ", "T%H:%M:%S.%f+00:00",
        )),
        Kind("integer", _integers(64), "integer+pk", None),
    ],
}  # fmt: skip
KEYS: dict[str, list[Kind]] = {
    "postgresql": [
        Kind("smallint", _integers(16)),
        Kind("bigint", _integers(64)),
        Kind("numeric(20,6)", _decimals(20, 6)),
        Kind("numeric", _decimals(30, 12) | _decimals(3, 0)),
        Kind("varchar(20)", _TEXT),
        Kind('text collate "C"', _TEXT),
        Kind('varchar(20) collate "und-x-icu"', _TEXT),
        Kind("text collate folding", _TEXT),
        Kind("char(4)", _TEXT),
        Kind("uuid", _UUID),
        Kind("bytea", _BYTES),
        Kind("date", _moments(1, 9999, _DATE) | _INFINITE),
        Kind("timestamp", _moments(1, 9999) | _INFINITE),
        Kind("timestamptz", _moments(1, 9999)),
        Kind("inet", st.ip_addresses().map(str)),
    ],
    "mysql": [
        Kind("smallint", _integers(16)),
        Kind("bigint", _integers(64)),
        Kind("bigint unsigned", _integers(64, signed=False)),
        Kind("decimal(20,6)", _decimals(20, 6)),
        Kind("varchar(20)", _TEXT),
        Kind("varchar(20) collate utf8mb4_bin", _TEXT),
        Kind("varchar(20) character set latin1 collate latin1_swedish_ci", _TEXT),
        Kind("char(4)", _TEXT),
        Kind("char(36)", _UUID),
        Kind("varbinary(8)", _BYTES),
        Kind("binary(6)", _BYTES),
        Kind("date", _moments(1, 9999, _DATE)),
        Kind("datetime(6)", _moments(1, 9999)),
        Kind("timestamp(3)", _moments(1971, 2036)),
    ],
    "mariadb": [Kind("uuid", _UUID)],
    "sqlite": [
        Kind("integer", _integers(64)),
        Kind("text", _TEXT),
        Kind("text collate nocase", _TEXT),
        Kind("text collate rtrim", _TEXT),
        Kind("text", _UUID),
        Kind("text", _moments(1970, 2100, _DATE)),
        Kind("blob", _BYTES),
    ],
}


@dataclass(frozen=True)
class Table:
    """Rows are a cursor, a note, and the parts of the key; `nulls`: some rows have no cursor, and are skipped."""

    cursor: Kind
    keys: list[Kind]
    rows: list[tuple[Any, ...]]
    nulls: bool
    limit: int


@st.composite
def _tables(draw: st.DrawFn, which: str, *, mariadb: bool) -> Table:
    cursor = draw(st.sampled_from(CURSORS[which]))
    keys = draw(st.lists(st.sampled_from(KEYS[which] + KEYS["mariadb"] * mariadb), min_size=1, max_size=3))
    nulls = draw(st.sampled_from([False, False, False, True]))
    at: list[Any] = draw(st.lists(cursor.values, min_size=1, max_size=5))  # a few, so that many rows share one
    row = st.tuples(st.sampled_from(at + [None] * nulls), st.none() | _TEXT, *(kind.values for kind in keys))
    rows = draw(st.lists(row, max_size=40, unique_by=lambda r: tuple(map(repr, r[2:]))))
    return Table(cursor, keys, rows, nulls, draw(st.integers(1, 9)))


def _fill(url: str, table: Table) -> list[tuple[int, str | None]]:
    """Make it, and return its rows' numbers and notes in the order in which they are to come."""
    names = [f"k{i}" for i in range(len(table.keys))]
    keys = ", ".join(f"{name} {kind.sql} not null" for name, kind in zip(names, table.keys, strict=True))
    strict = "null" if table.nulls else "not null"
    binds = ", ".join(f":{name}" for name in names)
    insert = sa.text(f"insert into orders values (:n, :at, :note, {binds})")
    rows = [
        {"n": n, "at": at, "note": note, **dict(zip(names, key, strict=True))}
        for n, (at, note, *key) in enumerate(table.rows)
    ]
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        if family(url) == "postgresql":
            connection.exec_driver_sql(
                "create collation if not exists folding"
                " (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
            )
        connection.exec_driver_sql("drop table if exists orders")
        connection.exec_driver_sql(
            f"create table orders (n integer, updated_at {table.cursor.sql} {strict}, note varchar(9) null, {keys},"
            f" primary key ({', '.join(names)}))"
        )
        try:
            with connection.begin_nested():
                connection.execute(insert, rows) if rows else None
        except sa.exc.IntegrityError:
            # Keys that differ in Python may be one key in a collation: the database decides.
            for one in rows:
                with contextlib.suppress(sa.exc.IntegrityError), connection.begin_nested():
                    connection.execute(insert, one)
        order = ", ".join(["updated_at", *names])
        found = connection.exec_driver_sql(
            f"select n, note from orders where updated_at is not null order by {order}"
        ).all()
    return [(row.n, row.note) for row in found]


@pytest.mark.guarantee("Delivery", "In order: by cursor, then key, each version of a row after the one before")
@settings(
    max_examples=20,
    report_multiple_bugs=False,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(data=st.data())
def test_the_pages_together_are_the_table_in_the_databases_order(any_db: str, data: st.DataObject) -> None:
    which = family(any_db)
    table: Table = data.draw(_tables(which, mariadb=which == "mysql" and is_mariadb(any_db)))
    expected = _fill(any_db, table)
    keys: dict[str, Any] = {"cursor_kind": table.cursor.cursor_kind, "cursor_time_zone": table.cursor.zone}
    if table.nulls:
        keys["on_null_cursor"] = "skip"
    with closing(orders(any_db, pk_columns=[f"k{i}" for i in range(len(table.keys))], **keys)) as source:
        assert [(row["n"], row["note"]) for row in drain(source, table.limit)] == expected
