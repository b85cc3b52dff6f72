"""What a role, a database or a server sets for every session changes nothing that is read."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from poller.errors import SourceError
from poller.sources import SqlSource
from poller.sources.columns import CursorColumn, Family
from poller.sources.database import dialect_for
from tests.integration.sources.tables import closing, drain, execute, orders
from tests.support.cases import each
from tests.support.postgres import PostgresServer

STAMP = "2026-03-04 05:06:07.123456+00"


@each(
    "setting",
    [
        "datestyle = 'German'",
        "datestyle = 'SQL, DMY'",
        "datestyle = 'Postgres, MDY'",
        "intervalstyle = 'iso_8601'",
        "intervalstyle = 'sql_standard'",
        "client_encoding = 'LATIN1'",
        "client_encoding = 'SQL_ASCII'",
    ],
)
def test_postgresql_reads_the_same_under_any_session_setting(postgres_db: str, setting: str) -> None:
    execute(
        postgres_db,
        "create table orders (id text primary key, updated_at timestamptz not null, on_day date, after interval)",
        f"insert into orders values ('Łódź', '{STAMP}', '2026-03-04', '1 day 02\\:00'),"
        f" ('b', '{STAMP}', 'infinity', null)",
        f"alter database {sa.make_url(postgres_db).database} set {setting}",
    )
    with closing(orders(postgres_db)) as source:
        rows = {row["id"]: row for row in drain(source, 1)}
        checked = source.checkup(None, lambda: datetime.datetime.now(datetime.UTC)).findings
    assert rows["Łódź"] == {
        "id": "Łódź",
        "updated_at": datetime.datetime(2026, 3, 4, 5, 6, 7, 123456, datetime.UTC),
        "on_day": datetime.date(2026, 3, 4),
        "after": datetime.timedelta(days=1, hours=2),
    }
    assert rows["b"]["on_day"] == "infinity"
    assert not [finding for finding in checked if "This check failed" in finding.message]


def test_the_order_of_day_and_month_stays_as_the_session_has_it(postgres_db: str) -> None:
    """A view or a filter of the user may rest on it."""
    execute(
        postgres_db,
        "create table orders (id integer primary key, updated_at timestamptz not null)",
        "insert into orders values (1, '2026-03-04 05\\:06\\:07+00')",
        f"alter database {sa.make_url(postgres_db).database} set datestyle = 'SQL, DMY'",
    )
    with closing(orders(postgres_db, filter="updated_at > date '03/03/2026'")) as source:
        assert len(drain(source, 5)) == 1, "the third of March"
    with closing(orders(postgres_db, filter="updated_at > date '05/03/2026'")) as source:
        assert drain(source, 5) == [], "the fifth of March"


@pytest.fixture
def ascii_db(postgres_server: PostgresServer) -> Iterator[str]:
    name = "without_an_encoding"
    postgres_server.execute(f"create database {name} encoding 'SQL_ASCII' locale 'C' template template0")
    url = sa.make_url(postgres_server.url).set(database=name).render_as_string(hide_password=False)
    try:
        yield url
    finally:
        postgres_server.drop_database(url)


def test_a_database_without_an_encoding_is_read_as_utf_8(ascii_db: str) -> None:
    execute(
        ascii_db + "?client_encoding=utf8",
        "create table orders (id text primary key, updated_at timestamptz not null)",
        f"insert into orders values ('a', '{STAMP}'), ('Łódź', '{STAMP}'), ('c', '{STAMP}')",
    )
    with closing(orders(ascii_db)) as source:
        assert sorted(row["id"] for row in drain(source, 1)) == ["a", "c", "Łódź"]


def test_a_text_outside_the_sessions_encoding_is_a_clear_error(ascii_db: str) -> None:
    execute(
        ascii_db + "?client_encoding=utf8",
        "create table orders (id integer primary key, updated_at timestamptz not null, said text)",
        rf"insert into orders values (1, '{STAMP}', E'caf\xe9')",
    )
    with closing(orders(ascii_db)) as source, pytest.raises(SourceError, match="UTF8"):
        source.page(None, 1)


# --- no text of a value depends on a setting of the session ---------------------------------------------------------

SKIPPED_DAYS = ["Pacific/Apia", "Asia/Manila", "Pacific/Kwajalein", "America/Juneau"]
"""Zones in which a day was left out, or came twice."""
ZONES = [*SKIPPED_DAYS, "UTC", "Europe/Berlin", "Africa/Monrovia", "Asia/Kathmandu", "America/St_Johns", "Etc/GMT+12"]
STYLES = ["ISO, MDY", "SQL, DMY", "German", "Postgres, YMD"]
EDGES = {
    "date": [
        "-infinity", "4714-11-24 BC", "0044-03-15 BC", "0001-12-31 BC", "0001-01-01", "0001-01-02", "1582-10-10",
        "1844-12-31", "1845-01-01", "2011-12-29", "2011-12-30", "2011-12-31", "2026-03-29", "9999-12-31", "10000-01-01",
        "294276-12-31", "294277-01-01", "5874897-12-31", "infinity",
    ],
    "timestamp": [
        "-infinity", "4714-11-24 00:00:00 BC", "0044-03-15 10:00:00.5 BC", "0001-12-31 23:59:59.999999 BC",
        "0001-01-01 00:00:00", "0001-01-01 00:00:00.000001", "1844-12-31 12:00:00", "2011-12-30 00:00:00",
        "2016-12-31 23:59:60", "2026-03-29 02:30:00", "9999-12-31 23:59:59.999999", "294276-12-31 23:59:59.999999",
        "infinity",
    ],
    "timestamptz": [
        "-infinity", "4714-11-24 00:00:00+00 BC", "0044-03-15 10:00:00.5+00 BC", "0001-12-31 23:59:59.999999+00 BC",
        "0001-01-01 00:00:00+00", "0001-01-01 12:00:00.000001+00", "0001-01-02 00:00:00+00", "1844-12-31 12:00:00+00",
        "2011-12-30 10:00:00+00", "2016-12-31 23:59:60+00", "2026-10-25 00:30:00+00", "2026-10-25 01:30:00+00",
        "9999-12-31 23:59:59.999999+00", "294276-12-31 23:59:59.999999+00", "infinity",
    ],
}  # fmt: skip
FAMILIES = {"date": Family.DATE, "timestamp": Family.TIMESTAMP, "timestamptz": Family.TIMESTAMPTZ}


def texts_and_back(connection: Connection, kind: str) -> list[str]:
    """The edges' texts, each of which is read back as its value."""
    written = dialect_for("postgresql").render("v", CursorColumn("v", FAMILIES[kind], sql_type=kind))
    sql = (
        f"select {written} as text, cast({written} as {kind}) = v as alike"
        f" from unnest(cast(%(edges)s as {kind}[])) with ordinality as u (v, n) order by n"
    )
    found = connection.exec_driver_sql(sql, {"edges": EDGES[kind]}).all()
    assert [edge for edge, row in zip(EDGES[kind], found, strict=True) if not row.alike] == []
    return [row.text for row in found]


@pytest.mark.guarantee(
    "Delivery",
    "No text of a cursor or a key depends on a setting of the session: not on zone, style of dates and intervals, "
    "digits, padding",
)
@pytest.mark.parametrize("zones", [ZONES, pytest.param(None, marks=pytest.mark.soak)], ids=["some", "all"])
def test_no_text_of_a_time_depends_on_zone_or_style(postgres_db: str, zones: list[str] | None) -> None:
    engine = sa.create_engine(postgres_db, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        every = zones or list(connection.exec_driver_sql("select name from pg_timezone_names").scalars())
        assert len(every) >= len(ZONES)
        wanted = {kind: texts_and_back(connection, kind) for kind in EDGES}
        for zone in every:
            for style in STYLES if zone in ZONES else STYLES[:1]:
                connection.exec_driver_sql(f"set timezone = '{zone}'")
                connection.exec_driver_sql(f"set datestyle = '{style}'")
                assert {kind: texts_and_back(connection, kind) for kind in EDGES} == wanted, (zone, style)


@each("zone", SKIPPED_DAYS)
@each("form", ["rows", "arrow"])
def test_a_day_that_a_zone_left_out_loses_no_row(postgres_db: str, zone: str, form: Any) -> None:
    """The key of a row was the next day's, whose rows were then passed."""
    if form == "arrow":
        pytest.importorskip("pyarrow")
    days = ["1844-12-31", "1845-01-01", "2011-12-30", "2011-12-31"]
    execute(
        postgres_db,
        "create table orders (day date, id integer, updated_at timestamptz not null default '2026-01-01Z',"
        " primary key (day, id))",
        *(f"insert into orders (day, id) select '{day}', generate_series(1, 5)" for day in days),
        f"alter database {sa.make_url(postgres_db).database} set timezone = '{zone}'",
    )
    with closing(orders(postgres_db, pk_columns=["day", "id"], format=form)) as source:
        page = source.page(None, 100)
        assert [(cursor.tiebreaker or {})["day"] for cursor in page.cursors] == [day for day in days for _ in range(5)]
        for limit in (1, 3):
            assert [(str(row["day"]), row["id"]) for row in drain(source, limit)] == [
                (day, n) for day in days for n in range(1, 6)
            ]
    by_day: dict[str, Any] = {"pk_columns": ["id"], "table": None, "cursor_column": "day"}
    query = "select day, row_number() over (order by day, id) as id from orders"
    with closing(orders(postgres_db, query=query, format=form, **by_day)) as source:
        assert [row["id"] for row in drain(source, 3)] == list(range(1, 21))
        assert [cursor.value for cursor in source.page(None, 100).cursors][::5] == days


def set_by_a_function(url: str, name: str, value: str, key: str) -> dict[str, Any]:
    """A view that calls a function which changes a setting of its session; what reads it, and the table beside it."""
    execute(
        url,
        f"create table orders (id {key} not null, updated_at timestamptz not null, primary key (id))",
        "create function changed() returns integer language plpgsql volatile as"
        f" $$ begin perform set_config('{name}', '{value}', false); return 1; end $$",
        "create view changing as select * from orders where changed() = 1",
    )
    return {"table": "changing"}


@each(("name", "value"), [("TimeZone", "Pacific/Apia"), ("intervalstyle", "iso_8601"), ("extra_float_digits", "-15")])
@each("kind", ["date", "timestamp", "timestamptz"])
def test_what_a_function_sets_changes_no_key_of_a_time(postgres_db: str, name: str, value: str, kind: str) -> None:
    keys = set_by_a_function(postgres_db, name, value, kind)
    execute(
        postgres_db,
        f"insert into orders select cast(cast('2011-12-28' as date) + n as {kind}),"
        " '2026-01-01Z' from generate_series(1, 5) n",
        "insert into orders values ('0044-03-15 BC', '2026-01-01Z'), ('infinity', '2026-01-01Z')",
    )
    cursor = {"cursor_column": "updated_at", "bound": "none"}
    with closing(orders(postgres_db, **cursor)) as plain, closing(orders(postgres_db, **keys, **cursor)) as changing:
        wanted = [cursor.tiebreaker for cursor in plain.page(None, 10).cursors]
        for limit in (2, 10):
            seen: list[Any] = []
            after = None
            while page := changing.page(after, limit).cursors:
                seen += [cursor.tiebreaker for cursor in page]
                after = page[-1]
            assert seen == wanted


@each(
    ("name", "value", "kind", "rows"),
    [
        ("intervalstyle", "sql_standard", "interval", "n * interval '1 hour'"),
        ("datestyle", "SQL, DMY", "daterange", "daterange(date '2026-01-01' + n, null)"),
        ("datestyle", "SQL, DMY", "timestamptz", "timestamptz '0044-03-15 BC' + n * interval '1 day'"),
        ("extra_float_digits", "0", "double precision[]", "array[0.1 \\:\\: double precision + n, 1 / 3.0]"),
        ("bytea_output", "escape", "bytea[]", "array[cast('a' || n as bytea)]"),
    ],
)
def test_a_function_that_sets_the_form_of_a_key_is_refused(
    postgres_db: str, name: str, value: str, kind: str, rows: str
) -> None:
    """1 day -02:00, say, means another value in another style of intervals."""
    keys = set_by_a_function(postgres_db, name, value, kind)
    execute(postgres_db, f"insert into orders select {rows}, '2026-01-01Z' from generate_series(1, 5) n")
    with closing(orders(postgres_db)) as plain:
        assert len(drain(plain, 2)) == 5
    with closing(orders(postgres_db, **keys)) as changing:
        for _ in range(2):
            with pytest.raises(SourceError, match=f"(?i){name}") as refused:
                drain(changing, 2)
            assert "SET clause" in refused.value.next_step
            assert "0044" not in str(refused.value)
        execute(postgres_db, "create or replace function changed() returns integer language sql as 'select 1'")
        assert len(drain(changing, 2)) == 5


def stamps_of(source: SqlSource) -> list[Any]:
    return [(cursor.value, cursor.tiebreaker) for cursor in source.page(None, 10).cursors]


@each(
    "setting",
    [
        "time_zone = '+13:00'",
        "sql_mode = 'PAD_CHAR_TO_FULL_LENGTH'",
        "sql_mode = 'ANSI,PAD_CHAR_TO_FULL_LENGTH,STRICT_ALL_TABLES'",
        "sql_mode = 'TIME_ROUND_FRACTIONAL'",
        "lc_time_names = 'de_DE'",
        "character_set_results = 'latin1'",
        "div_precision_increment = 0",
    ],
)
@each("kind", ["timestamp(6)", "datetime(3)", "date"])
def test_mariadb_writes_the_same_texts_under_any_setting(mariadb_db: str, setting: str, kind: str) -> None:
    execute(
        mariadb_db,
        f"create table orders (name char(8) not null, part {kind} not null, number decimal(8,3) not null,"
        " updated_at timestamp(6) not null, primary key (name, part, number))",
        "insert into orders values ('Łódź', '2026-03-29 02:30:00.25', 1.5, '2026-10-25 00:30:00.123456'),"
        " ('b', '2011-12-30', 0.001, '2026-10-25 01:30:00')",
    )
    key = {"pk_columns": ["name", "part", "number"], "cursor_time_zone": None}
    given = sa.make_url(mariadb_db).update_query_dict({"init_command": f"set {setting}"})
    with closing(orders(mariadb_db, **key)) as plain, closing(orders(given, **key)) as other:
        assert stamps_of(other) == stamps_of(plain)
        assert [row["name"] for row in drain(other, 1)] == [row["name"] for row in drain(plain, 1)]


@each("also", ["PIPES_AS_CONCAT", "PIPES_AS_CONCAT,PAD_CHAR_TO_FULL_LENGTH"])
def test_mariadb_keeps_the_modes_that_a_filter_is_written_for(mariadb_db: str, also: str) -> None:
    """EMPTY_STRING_IS_NULL makes every `''` in a statement a NULL."""
    execute(
        mariadb_db,
        "create table orders (id integer primary key, updated_at datetime(6) not null, status varchar(9))",
        "insert into orders values (1, '2026-01-01', 'open'), (2, '2026-01-02', 'sent')",
    )
    modes = f"set sql_mode = 'EMPTY_STRING_IS_NULL,{also}'"
    given = sa.make_url(mariadb_db).update_query_dict({"init_command": modes})
    with closing(orders(given, filter="status || '!' = 'sent!'")) as source:
        assert [row["id"] for row in drain(source, 1)] == [2]


def test_mariadb_reads_on_after_an_empty_key_in_any_mode(mariadb_db: str) -> None:
    execute(
        mariadb_db,
        "create table orders (id varchar(9) primary key, updated_at datetime(6) not null)",
        "insert into orders values ('', '2026-01-01'), ('a', '2026-01-01'), ('b', '2026-01-01')",
    )
    given = sa.make_url(mariadb_db).update_query_dict({"init_command": "set sql_mode = 'EMPTY_STRING_IS_NULL'"})
    with closing(orders(given)) as source:
        assert [row["id"] for row in drain(source, 1)] == ["", "a", "b"]


def test_a_function_that_sets_mariadbs_zone_is_refused(mariadb_db: str) -> None:
    """A TIMESTAMP is compared, too, as that zone shows it. A DATETIME is not."""
    execute(
        mariadb_db,
        "create table orders (id integer primary key, updated_at timestamp not null, made datetime not null)",
        "insert into orders values (1, '2026-01-01', '2026-01-01'), (2, '2026-01-02', '2026-01-02')",
        "create function changed() returns integer deterministic begin set time_zone = '+05\\:00'; return 1; end",
        "create view changing as select * from orders where changed() = 1",
    )
    with closing(orders(mariadb_db, table="changing", cursor_time_zone=None)) as source:
        for _ in range(2):
            with pytest.raises(SourceError, match="time_zone"):
                source.page(None, 1)
    with closing(orders(mariadb_db, table="changing", cursor_column="made")) as source:
        assert [row["id"] for row in drain(source, 1)] == [1, 2]
