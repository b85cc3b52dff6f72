"""A cursor's text made of the driver's value is the text that the database itself renders, to the last digit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa

from poller.errors import SourceError
from poller.ports import Page
from poller.sources import SqlSource
from tests.integration.sources.tables import TIMESTAMP, closing, drain, execute, family, make_orders, orders
from tests.support.cases import each

NAIVE = [
    "1000-01-01 00:00:00",
    "1582-10-10 12:00:00.000001",
    "1883-11-18 12:03:58.5",
    "2026-03-29 02:30:00.1",
    "2026-10-25 02:30:00.123456",
    "2026-10-25 02:30:00.999999",
    "2026-12-31 23:59:59.999999",
    "9998-12-31 23:59:59.999999",
]
INSTANTS = [
    "0002-01-01 00:00:00+00",
    "1890-06-01 12:00:00.000001+00",
    "2026-03-29 00:59:59.999999+00",
    "2026-03-29 01:00:00+00",
    "2026-10-25 00:30:00.25+00",
    "2026-10-25 01:30:00.25+00",
    "2026-10-25 01:30:00.250001+00",
    "9998-12-31 23:59:59.999999+00",
]
"""Among them an hour that the clocks of Berlin show twice, and times whose offset had seconds."""


def rendered(source: SqlSource, limit: int = 100) -> Page:
    """The page with every text as the database renders it, as where the driver fails on a value."""
    database = source._session.database
    database.lenient = True
    try:
        return source.page(None, limit)
    finally:
        database.lenient = False


@contextmanager
def watched(url: str) -> Iterator[tuple[sa.Engine, list[str]]]:
    """An engine, and the statements that are run on it."""
    engine, seen = sa.create_engine(url, poolclass=sa.NullPool), []
    sa.event.listen(engine, "before_cursor_execute", lambda _c, _cursor, sql, *_: seen.append(sql))
    yield engine, seen
    engine.dispose()


def pages_of(seen: Sequence[str]) -> list[str]:
    return [sql for sql in seen if "ORDER BY" in sql and "count(" not in sql]


def typed(url: str, kind: str, stamps: Sequence[str]) -> None:
    execute(url, f"create table orders (id integer not null primary key, updated_at {kind} not null)")
    execute(url, *(f"insert into orders values ({i}, '{stamp}')" for i, stamp in enumerate(stamps)))


@pytest.mark.guarantee(
    "Delivery",
    "A cursor loses no digit, if the database writes its text or this process, from a value that the driver returns "
    "exactly",
)
@each("zone", ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Etc/GMT+12"])
def test_instants_of_every_session_zone_on_postgresql(postgres_db: str, zone: str) -> None:
    typed(postgres_db, "timestamptz", INSTANTS)
    url = sa.make_url(postgres_db).update_query_dict({"options": f"-c timezone={zone}"})
    with closing(orders(url)) as source:
        page = source.page(None, 100)
        texts = [
            f"{datetime.fromisoformat(stamp).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"
            for stamp in INSTANTS
        ]
        assert [cursor.value for cursor in page.cursors] == texts
        assert list(page.cursors) == list(rendered(source).cursors)
        assert len(drain(source, 1)) == len(INSTANTS)
        moments = [row["updated_at"].astimezone(UTC) for row in page.rows]
        assert moments == [datetime.fromisoformat(stamp) for stamp in INSTANTS], "the rows' values are the driver's"


@each(
    ("kind", "stamps"),
    [
        ("timestamp", NAIVE),
        ("timestamp(0)", NAIVE),
        ("timestamp(3)", NAIVE),
        ("timestamptz(2)", INSTANTS),
        ("date", [stamp[:10] for stamp in NAIVE[:3]]),
    ],
)
def test_every_type_of_time_on_postgresql(postgres_db: str, kind: str, stamps: Sequence[str]) -> None:
    typed(postgres_db, kind, stamps)
    with closing(orders(postgres_db)) as source:
        assert list(source.page(None, 100).cursors) == list(rendered(source).cursors)
        assert len(drain(source, 1)) == len(stamps)


@each(
    ("kind", "stamps"),
    [
        ("datetime(6)", NAIVE),
        ("datetime", NAIVE[:4]),
        ("datetime(3)", NAIVE[:6]),
        ("timestamp(6)", NAIVE[3:7]),
        ("date", [stamp[:10] for stamp in NAIVE[:3]]),
    ],
)
def test_every_type_of_time_on_mariadb(mariadb_db: str, kind: str, stamps: Sequence[str]) -> None:
    typed(mariadb_db, kind, stamps)
    with closing(orders(mariadb_db)) as source:
        assert list(source.page(None, 100).cursors) == list(rendered(source).cursors)
        assert len(drain(source, 1)) == len(stamps)


def test_integers_and_texts_as_they_are(any_db: str) -> None:
    make_orders(any_db, ["2026-01-05 10:00:00", "2026-01-05 10:00:01"])
    for keys in ({}, {"cursor_kind": "integer+pk", "cursor_column": "total", "cursor_time_zone": None}):
        with closing(orders(any_db, **keys)) as source:
            assert list(source.page(None, 100).cursors) == list(rendered(source).cursors)


@each("kind", ["timestamptz", "timestamp", "date"])
@each("odd", ["-infinity", "0044-03-15 BC", "0001-01-01", "9999-12-31", "10000-01-01", "infinity"])
def test_what_python_cannot_hold_is_rendered_in_any_place(postgres_db: str, kind: str, odd: str) -> None:
    stamps = ["2026-01-01 10:00:00", odd, "2026-01-02 10:00:00.000001", odd]
    typed(postgres_db, kind, stamps)
    with closing(orders(postgres_db)) as source:
        page = source.page(None, 100)
        assert sorted(row["id"] for row in page.rows) == [0, 1, 2, 3]
        assert list(page.cursors) == list(rendered(source).cursors)
        for limit in (1, 2, 3):
            assert [row["id"] for row in drain(source, limit)] == [row["id"] for row in page.rows]


def test_no_second_column_is_asked_for_where_the_driver_is_exact(any_db: str) -> None:
    make_orders(any_db, ["2026-01-05 10:00:00", "2026-01-05 10:00:01"])
    with watched(any_db) as (engine, seen), closing(orders(engine)) as source:
        source.page(None, 2)
        assert not [sql for sql in pages_of(seen) if "poller_cursor_0" in sql]


def test_the_next_pages_are_read_plainly_again(postgres_db: str) -> None:
    typed(postgres_db, "timestamptz", ["0001-01-01 12:00:00+00", "2026-01-01 10:00:00+00", "2026-01-02 10:00:00+00"])
    with watched(postgres_db) as (engine, seen), closing(orders(engine)) as source:
        page = source.page(None, 1)
        assert page.cursors[0].value == "0001-01-01 12:00:00+00"
        assert ["poller_cursor_0" in sql for sql in pages_of(seen)][-2:] == [False, True]
        source.page(page.cursors[0], 2)
        assert "poller_cursor_0" not in pages_of(seen)[-1]


def test_a_converter_of_the_users_own_is_not_trusted(postgres_db: str) -> None:
    """One that cuts off microseconds would deliver the same rows for ever."""
    from psycopg.types.datetime import TimestamptzLoader

    class Seconds(TimestamptzLoader):
        def load(self, data: Any) -> datetime:
            return super().load(data).replace(microsecond=0)

    typed(postgres_db, "timestamptz", ["2026-01-01 10:00:00.123456+00", "2026-01-01 10:00:00.654321+00"])
    engine = sa.create_engine(postgres_db, poolclass=sa.NullPool)
    sa.event.listen(engine, "connect", lambda dbapi, _: dbapi.adapters.register_loader("timestamptz", Seconds))
    with closing(orders(engine)) as source:
        page = source.page(None, 10)
        assert [row["updated_at"].microsecond for row in page.rows] == [0, 0]
        assert [cursor.value for cursor in page.cursors] == [
            "2026-01-01T10:00:00.123456Z",
            "2026-01-01T10:00:00.654321Z",
        ]
        assert [row["id"] for row in drain(source, 1)] == [0, 1]


def test_a_converter_of_the_users_own_on_mariadb(mariadb_db: str) -> None:
    from pymysql.converters import conversions

    typed(mariadb_db, "datetime(6)", ["2026-01-01 10:00:00.123456", "2026-01-01 10:00:00.654321"])
    conv = {**conversions, 12: lambda text: datetime.fromisoformat(text).replace(microsecond=0)}
    engine = sa.create_engine(mariadb_db, poolclass=sa.NullPool, connect_args={"conv": conv})
    with closing(orders(engine)) as source:
        assert [cursor.value for cursor in source.page(None, 10).cursors] == [
            "2026-01-01T10:00:00.123456",
            "2026-01-01T10:00:00.654321",
        ]
        assert [row["id"] for row in drain(source, 1)] == [0, 1]


def test_a_date_of_no_calendar_amid_a_page_is_named(mariadb_db: str) -> None:
    typed(mariadb_db, "datetime(6)", ["2026-02-01 10:00:00", "2026-03-01 10:00:00", "2026-04-01 10:00:00"])
    execute(
        mariadb_db,
        "set session sql_mode = 'ALLOW_INVALID_DATES'",
        "update orders set updated_at = '2026-02-31 10:00:00' where id = 1",
    )
    with closing(orders(mariadb_db)) as source, pytest.raises(SourceError, match="2026-02-31"):
        source.page(None, 10)


def test_a_key_that_is_the_cursor_too_has_one_text(any_db: str) -> None:
    kind = TIMESTAMP[family(any_db)]
    execute(
        any_db,
        f"create table orders (at {kind} not null, id integer not null, primary key (at, id))",
        "insert into orders values ('2026-01-05 10:00:00', 1)",
        "insert into orders values ('2026-01-05 10:00:01', 1)",
    )
    with closing(orders(any_db, cursor_column="at", pk_columns=["at", "id"])) as source:
        for cursor in source.page(None, 10).cursors:
            assert cursor.tiebreaker == {"at": cursor.value, "id": 1}
        assert len(drain(source, 1)) == 2
