"""What a role, a database or a server sets for every session changes nothing that is read."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from poller.errors import SourceError
from tests.integration.sources.tables import closing, drain, execute, orders
from tests.support.postgres import PostgresServer

STAMP = "2026-03-04 05:06:07.123456+00"


@pytest.mark.parametrize(
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
