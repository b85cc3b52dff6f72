"""A value that the driver cannot make a Python value of comes as the database's text; those beside it do not."""

from __future__ import annotations

import datetime
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from poller.errors import SourceError
from poller.sources import SqlSource
from tests.integration.sources.tables import closing, drain, execute, orders

# type, a value that Python has, one that it has not, the text of that
POSTGRESQL: list[tuple[str, str, str, str]] = [
    ("time", "12:00", "24:00", "24:00:00"),
    ("timetz", "12:00+01", "24:00+01", "24:00:00+01"),
    ("date", "2026-01-01", "0044-03-15 BC", "0044-03-15 BC"),
    ("timestamp", "2026-01-01", "12000-01-01", "12000-01-01 00:00:00"),
    ("timestamptz", "2026-01-01", "-infinity", "-infinity"),
    ("interval", "1 day", "170000000 years", "170000000 years"),
    ("interval", "-2 days", "178000000 years", "178000000 years"),  # psycopg counts its days in 32 bits
    ("interval", "24:00", "1 mon", "1 mon"),  # not 30 days
    ("interval", "1 day -1:00", "-1 years +3 days", "-1 years +3 days"),
    ("interval[]", "{1 day,NULL}", "{1 day,1 mon}", '{"1 day","1 mon"}'),
    ("interval[]", "{1 day}", "{-9200000 years}", '{"-9200000 years"}'),
    ("time[]", "{12:00}", "{24:00}", "{24:00:00}"),
    ("date[]", "{2026-01-01}", "{0044-01-01 BC,infinity}", '{"0044-01-01 BC",infinity}'),
    ("timestamptz[]", "{2026-01-01}", "{infinity}", "{infinity}"),
    ("daterange", "[2026-01-01,2026-02-01)", "[2026-01-01,infinity)", "[2026-01-01,infinity)"),
    ("tsrange", "[2026-01-01,2026-02-01)", "[,infinity)", '(,infinity)'),
    ("datemultirange", "{[2026-01-01,2026-02-01)}", "{[2026-01-01,infinity)}", "{[2026-01-01,infinity)}"),
    ("jsonb", "1", "1" * 5000, "1" * 5000),
]  # fmt: skip


def _every_type(url: str) -> None:
    columns = ", ".join(f"c{i} {kind}" for i, (kind, *_) in enumerate(POSTGRESQL))
    execute(
        url,
        f"create table orders (id integer primary key, updated_at timestamptz not null, {columns})",
        _insert(1, [good for _, good, _, _ in POSTGRESQL]),
        _insert(2, [odd for _, _, odd, _ in POSTGRESQL]),
        _insert(3, [good for _, good, _, _ in POSTGRESQL]),
    )


def _insert(key: int, values: list[str]) -> str:
    literals = ", ".join(f"'{value}'" for value in values)
    return f"insert into orders values ({key}, '2026-01-01', {literals})".replace(":", "\\:")


@pytest.mark.guarantee("Rows that commit late", "A value that Python cannot hold blocks no table")
@pytest.mark.guarantee("Delivery", "An interval of months is never read as days")
def test_postgresqls_values_that_python_has_not_come_as_text(postgres_db: str) -> None:
    _every_type(postgres_db)
    with closing(orders(postgres_db)) as source:
        first, odd, last = drain(source, 5)
    assert [odd[f"c{i}"] for i in range(len(POSTGRESQL))] == [text for *_, text in POSTGRESQL]
    assert not [kind for i, (kind, *_) in enumerate(POSTGRESQL) if isinstance(first[f"c{i}"], str)]
    assert {**first, "id": 3} == last, "what stands beside such a value is what it would be without"


@pytest.fixture
def pages_read(postgres_db: str) -> Iterator[tuple[SqlSource, list[str]]]:
    """A source over (id, valid_to), and the page statements that it sent."""
    execute(
        postgres_db,
        "create table orders (id integer primary key, updated_at timestamptz not null, valid_to date)",
        "insert into orders select n, '2026-01-01', case when n in (1, 3) then date 'infinity' else '2026-02-01' end"
        " from generate_series(1, 8) n",
    )
    engine = sa.create_engine(postgres_db, poolclass=sa.NullPool)
    sent: list[str] = []

    def note(_c: object, _cursor: object, sql: str, *_: object) -> None:
        if "FROM orders AS orders" in sql and "ORDER BY" in sql:
            sent.append(sql)

    sa.event.listen(engine, "before_cursor_execute", note)
    with closing(orders(engine)) as source:
        yield source, sent


def test_a_page_is_read_once_where_the_last_had_such_values_too(
    pages_read: tuple[SqlSource, list[str]],
) -> None:
    source, sent = pages_read
    rows = [row["valid_to"] for row in drain(source, 2)]
    day = datetime.date(2026, 2, 1)
    assert rows == ["infinity", day, "infinity", day, day, day, day, day]
    assert len(sent) == 1 + 5, "one page twice, the next four and the empty one once"


def test_a_key_that_python_has_not_is_a_key_like_any_other(postgres_db: str) -> None:
    execute(
        postgres_db,
        "create table orders (id time primary key, updated_at timestamptz not null)",
        "insert into orders values ('24\\:00', '2026-01-01'), ('00\\:00', '2026-01-01'), ('12\\:00', '2026-01-01')",
    )
    with closing(orders(postgres_db)) as source:
        assert [str(row["id"]) for row in drain(source, 1)] == ["00:00:00", "12:00:00", "24:00:00"]


def test_mariadbs_values_that_python_has_not_come_as_text(mariadb_db: str) -> None:
    execute(
        mariadb_db,
        "create table orders (id integer primary key, updated_at datetime(6) not null, on_day date, at datetime,"
        " took time, said varchar(20) character set utf8mb4)",
    )
    execute(
        mariadb_db,
        "set sql_mode = ''",
        "insert into orders values (1, '2026-01-01', '0000-00-00', '2026-00-00', '-838\\:59\\:59',"
        " convert(x'61EDA08062' using utf8mb4)), (2, '2026-01-01', '2026-01-01', '2026-01-01', '1\\:00', 'é')",
    )
    with closing(orders(mariadb_db)) as source:
        odd, good = drain(source, 5)
    assert odd["on_day"] == "0000-00-00"
    assert odd["at"] == "2026-00-00 00:00:00"
    assert odd["took"] == -datetime.timedelta(hours=838, minutes=59, seconds=59)
    assert odd["said"] == r"a\xed\xa0\x80b", "half a pair of UTF-16 is no character"
    assert good["said"] == "é"


def _sqlite(path: Path, *statements: str) -> str:
    with sqlite3.connect(path) as made:
        for statement in statements:
            made.execute(statement)
    return f"sqlite:///{path}"


def test_sqlites_text_that_is_no_utf_8_comes_escaped(tmp_path: Path) -> None:
    url = _sqlite(
        tmp_path / "shop.db",
        "create table orders (id integer primary key, updated_at text not null, said text)",
        "insert into orders values (1, '2026-01-01', cast(x'636166e9' as text)), (2, '2026-01-01', 'café')",
    )
    with closing(orders(url)) as source:
        assert [row["said"] for row in drain(source, 5)] == [r"caf\xe9", "café"]
        assert all(type(row["said"]) is str for row in drain(source, 5))


def test_a_key_that_is_no_utf_8_is_refused_with_its_column(tmp_path: Path) -> None:
    url = _sqlite(
        tmp_path / "shop.db",
        "create table orders (id text not null primary key, updated_at text not null)",
        "insert into orders values (cast(x'636166e9' as text), '2026-01-01')",
    )
    with closing(orders(url)) as source, pytest.raises(SourceError, match="is not valid UTF-8") as refused:
        source.page(None, 5)
    assert refused.value.column == "id"


def test_a_value_that_a_driver_does_not_hand_over_at_all_is_named(tmp_path: Path) -> None:
    """Here one that the user's own converter fails on; other drivers have types that they do not know."""
    url = _sqlite(
        tmp_path / "shop.db",
        "create table orders (id integer primary key, updated_at text not null, said text, at poller_odd)",
        "insert into orders values (1, '2026-01-01', 'a', 'x'), (7, '2026-01-01', 'b', 'odd'),"
        " (8, '2026-01-02', 'c', 'y')",
    )

    def convert(value: bytes) -> Any:
        if value == b"odd":
            raise ValueError(value)
        return value

    sqlite3.register_converter("poller_odd", convert)
    with closing(orders(f"{url}?detect_types={sqlite3.PARSE_DECLTYPES}")) as source:
        with pytest.raises(SourceError, match=r"column at .* id=7") as refused:
            source.page(None, 5)
        assert refused.value.column == "at"
        assert "columns" in refused.value.next_step
        assert source.page(None, 1).rows[0]["at"] == b"x", "the rows before it can be read"


@pytest.mark.parametrize("error_text", [True, False])
@pytest.mark.parametrize(
    "rows", ["('odd', '2026-01-01'), ('z', '2026-01-02')", "('a', '2026-01-01'), ('odd', '2026-01-02')"]
)
def test_an_unreadable_key_is_an_error_of_ours(tmp_path: Path, rows: str, *, error_text: bool) -> None:
    """In the row that the types are learned from as in a later one; what the driver says of it is not repeated."""
    url = _sqlite(
        tmp_path / "shop.db",
        "create table orders (id poller_key not null primary key, updated_at text not null)",
        f"insert into orders values {rows}",
    )

    def convert(value: bytes) -> str:
        if value == b"odd":
            raise ValueError("Jane Doe")
        return value.decode()

    sqlite3.register_converter("poller_key", convert)
    with closing(orders(f"{url}?detect_types={sqlite3.PARSE_DECLTYPES}")) as source:
        source.error_text = error_text
        with pytest.raises(SourceError, match="columns updated_at, id holds a value") as refused:
            source.page(None, 5)
    assert "Jane" not in str(refused.value)
    assert "`filter`" in refused.value.next_step
