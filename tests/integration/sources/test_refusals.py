"""What is wrong is said in one line: which key, table or column, and the next step; never with a password."""

from __future__ import annotations

import logging
import traceback
from typing import Any

import pytest
import sqlalchemy as sa

from poller.errors import ConfigError, PollerError, SourceError, SourceUnavailable
from poller.sources import SqlSource
from tests.integration.sources.tables import TIMESTAMP, closing, drain, execute, family, make_orders, orders
from tests.support.cases import each
from tests.support.services import free_port

STAMPS = [f"2026-01-01 00:00:0{i}.000000" for i in range(4)]


@each(
    ("keys", "key"),
    [
        ({"table": None}, "table"),
        ({"query": "select 1", "table": "orders"}, "query"),
        ({"query": "select 1", "table": None, "schema": "public"}, "schema"),
        ({"query": "select 1; drop table orders", "table": None}, "query"),
        ({"query": "delete from orders", "table": None}, "query"),
        ({"pk_columns": []}, "pk_columns"),
        ({"pk_columns": "id"}, "pk_columns"),
        ({"pk_columns": ["id", "id"]}, "pk_columns"),
        ({"columns": []}, "columns"),
        ({"cursor_column": ""}, "cursor_column"),
        ({"cursor_kind": "guess"}, "cursor_kind"),
        ({"cursor_time_zone": "Mars/Olympus"}, "cursor_time_zone"),
        ({"cursor_time_zone": "Europe/Berlin"}, "cursor_time_zone"),
        ({"filter": "a = 1; drop table orders"}, "filter"),
        ({"filter": "a = 1 -- comment"}, "filter"),
        ({"filter": "a = 1) or (1 = 1"}, "filter"),
        ({"filter": " "}, "filter"),
        ({"on_null_cursor": "ignore"}, "on_null_cursor"),
        ({"query_timeout": "soon"}, "query_timeout"),
        ({"query_timeout": "0s"}, "query_timeout"),
        ({"settle": "-1s"}, "settle"),
        ({"bound": "magic"}, "bound"),
        ({"bound": "delay", "cursor_kind": "xid8+pk"}, "bound"),
        ({"start_from": ""}, "start_from"),
    ],
)
def test_a_wrong_argument_is_refused_before_anything_is_opened(keys: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError) as error:
        orders("postgresql://nobody@127.0.0.1:1/none", **keys)
    assert error.value.key == key


@each("url", ["", "not a url", "nosuchdb://host/x", "duckdb:///x"])
def test_a_url_that_means_no_database_we_know(url: str) -> None:
    with pytest.raises(ConfigError) as error:
        orders(url)
    assert error.value.key == "url"


def test_a_missing_driver_names_what_to_install() -> None:
    with pytest.raises(ConfigError, match=r'extra postgres: pip install "psycopg\[binary\]"'):
        orders("postgresql+psycopg2://u:geheim@host/db")


def test_daylight_saving_is_accepted_when_allowed() -> None:
    orders("postgresql://h/d", cursor_time_zone="Europe/Berlin", allow_dst=True)
    orders("postgresql://h/d", cursor_time_zone="Asia/Kolkata")


REFUSED: list[tuple[dict[str, Any], str | None, str]] = [
    ({"table": "ordres"}, None, "Did you mean 'orders'?"),
    ({"cursor_column": "update_at"}, "update_at", "Did you mean 'updated_at'?"),
    ({"pk_columns": ["ID"]}, "ID", "Did you mean 'id'?"),
    ({"columns": ["totl"]}, "totl", "Did you mean 'total'?"),
    ({"filter": "statsu = 'open'"}, "statsu", "Did you mean 'status'?"),
    (
        {"query": "select id, updated_at from orders", "cursor_column": "updated"},
        "updated",
        "Did you mean 'updated_at'?",
    ),
    ({"query": "select 7 as id, updated_at from orders"}, None, "pk_columns"),
    ({"query": "select nullif(id, 3) as id, updated_at from orders"}, None, "pk_columns"),
    ({"cursor_column": "total"}, None, "not timestamps"),
    ({"cursor_kind": "integer+pk"}, None, "not integers"),
]


def test_what_a_table_or_a_query_has_not_is_named(any_db: str) -> None:
    make_orders(any_db, STAMPS)
    for keys, column, said in REFUSED:
        with closing(orders(any_db, **keys)) as source, pytest.raises(SourceError) as error:
            source.page(None, 10)
        assert said in str(error.value), keys
        assert column is None or error.value.column == column, keys
        assert "table" not in keys or error.value.table == "ordres"


def test_a_table_dropped_under_way_is_an_error_not_an_empty_page(any_db: str) -> None:
    make_orders(any_db, STAMPS)
    with closing(orders(any_db)) as source:
        after = source.page(None, 1).cursors[0]
        execute(any_db, "drop table orders")
        with pytest.raises(SourceError, match="orders"):
            source.page(after, 1)


def _message(error: pytest.ExceptionInfo[PollerError]) -> str:
    return "".join(traceback.format_exception(error.value)) + str(vars(error.value)) + str(error.value)


def test_a_wrong_password_is_one_clear_line_without_it(mariadb_db: str) -> None:
    url = sa.make_url(mariadb_db).set(username="nobody", password="geh:eim/1")
    source = orders(url)
    with pytest.raises(SourceUnavailable) as error:
        source.page(None, 1)
    assert "refused the login" in str(error.value)
    assert "\n" not in str(error.value)
    assert "geh:eim" not in _message(error) + repr(source)
    assert "geh%3Aeim" not in _message(error) + repr(source)


def test_an_unknown_role_is_a_refused_login(postgres_db: str) -> None:
    url = sa.make_url(postgres_db).set(username="nobody_of_this_name", password="geheim-1")
    with pytest.raises(SourceUnavailable, match="refused the login") as error:
        orders(url).page(None, 1)
    assert "geheim-1" not in _message(error)


def test_an_unreachable_host_and_an_unknown_database_differ(postgres_db: str, mariadb_db: str) -> None:
    for url in (postgres_db, mariadb_db):
        parsed = sa.make_url(url)
        with pytest.raises(SourceUnavailable, match="cannot be reached"):
            orders(parsed.set(port=free_port(), password="geheim")).page(None, 1)
        with pytest.raises(SourceUnavailable, match="no such database"):
            orders(parsed.set(database="none_such")).page(None, 1)


def test_an_unknown_host_cannot_be_reached() -> None:
    with pytest.raises(SourceUnavailable, match="cannot be reached"):
        orders("postgresql+psycopg://u:geheim@no-such-host.invalid/db").page(None, 1)


def test_a_missing_sqlite_file_is_not_created(tmp_path: Any) -> None:
    path = tmp_path / "none.db"
    with pytest.raises(SourceUnavailable, match="no SQLite database file"):
        orders(f"sqlite:///{path}").page(None, 1)
    assert not path.exists()


def test_a_query_that_takes_too_long_names_the_key(any_db: str) -> None:
    make_orders(any_db, STAMPS)
    slow = {
        "postgresql": "pg_sleep(id * 10) is not null",
        "mysql": "sleep(id * 10) = 0",
        "sqlite": "(with recursive n(i) as (select 1 union all select i + id from n) select max(i) from n) > 0",
    }[family(any_db)]
    query = f"select id, updated_at from orders where {slow}"
    table = {"query": query} if family(any_db) != "postgresql" else {"filter": slow}
    with closing(orders(any_db, query_timeout="300ms", **table)) as source:
        with pytest.raises(SourceUnavailable, match="query_timeout") as error:
            source.page(None, 4)
        assert "300ms" in str(error.value)


def test_a_connection_that_broke_while_idle_is_made_anew(postgres_db: str, mariadb_db: str) -> None:
    for url in (postgres_db, mariadb_db):
        make_orders(url, STAMPS)
        with closing(orders(url)) as source:
            after = source.page(None, 2).cursors[-1]
            if family(url) == "postgresql":
                execute(
                    url,
                    "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database()"
                    " and pid <> pg_backend_pid()",
                )
            else:
                engine = sa.create_engine(url)
                with engine.connect() as connection:
                    ids = connection.execute(
                        sa.text(
                            "select id from information_schema.processlist where id <> connection_id()"
                            " and db = database()"
                        )
                    ).scalars()
                    for one in list(ids):
                        connection.execute(sa.text(f"kill {one}"))
                engine.dispose()
            assert [row["id"] for row in source.page(after, 5).rows] == [3, 4]


def test_nulls_keys_and_zones_of_a_table_are_judged(any_db: str) -> None:
    kind = TIMESTAMP[family(any_db)]
    execute(
        any_db,
        f"create table orders (id integer not null primary key, updated_at {kind} null)",
        "insert into orders values (1, '2026-01-01 00\\:00\\:00'), (2, null), (3, null)",
        f"create table keyed (id integer not null primary key, updated_at {kind} not null, a integer not null,"
        " b integer, unique (b))",
        "insert into keyed values (1, '2026-01-01 00\\:00\\:00', 1, 1)",
        "create table naive (id integer not null primary key, updated_at"
        f" {kind.replace('timestamptz', 'timestamp')} not null)",
        "insert into naive values (1, '2026-01-01 00\\:00\\:00')",
    )
    with closing(orders(any_db)) as source:
        with pytest.raises(SourceError, match="2 rows have no updated_at") as error:
            source.page(None, 10)
        assert error.value.column == "updated_at"
        assert source.null_cursors(1) == 1
        assert source.null_cursors(100) == 2
    for keys in ({"on_null_cursor": "skip"}, {"filter": "id = 1"}):
        with closing(orders(any_db, **keys)) as source:
            assert [row["id"] for row in drain(source, 10)] == [1]
    execute(any_db, "delete from orders where id < 3")
    with closing(orders(any_db)) as source, pytest.raises(SourceError, match="1 row has no updated_at"):
        source.page(None, 10)
    for key, said, step in (("a", "no unique index", "id"), ("b", "may be NULL", "")):
        with closing(orders(any_db, table="keyed", pk_columns=[key])) as source:
            with pytest.raises(SourceError, match=said) as error:
                source.page(None, 1)
            assert step in error.value.next_step
    with closing(orders(any_db, table="keyed", pk_columns=["a", "id"])) as source:
        assert len(drain(source, 1)) == 1
    with closing(orders(any_db, table="naive", cursor_time_zone=None)) as source, pytest.raises(ConfigError) as zone:
        source.page(None, 1)
    assert zone.value.key == "cursor_time_zone"


def test_two_columns_of_one_name_are_refused(postgres_db: str) -> None:
    make_orders(postgres_db, STAMPS)
    source = orders(postgres_db, query="select id, updated_at, status, total as status from orders")
    with closing(source), pytest.raises(SourceError, match="two columns named 'status'"):
        source.page(None, 1)


def test_no_secret_in_repr_description_errors_and_logs(caplog: pytest.LogCaptureFixture) -> None:
    url = "postgresql+psycopg://shop:p%40ss-w0rd@127.0.0.1:1/db?sslpassword=t0psecret"
    source = orders(url)
    with caplog.at_level(logging.DEBUG), pytest.raises(SourceUnavailable) as error:
        source.page(None, 1)
    seen = _message(error) + repr(source) + source.describe().canonical() + caplog.text
    for secret in ("p%40ss-w0rd", "p@ss-w0rd", "t0psecret"):
        assert secret not in seen


def test_an_engine_may_be_given_and_is_left_as_it_was(postgres_db: str) -> None:
    make_orders(postgres_db, STAMPS)
    engine = sa.create_engine(postgres_db, pool_size=1, max_overflow=0)
    source = SqlSource(engine, table="orders", cursor_column="updated_at", pk_columns=["id"], query_timeout="7s")
    assert len(source.page(None, 10).rows) == 4
    with engine.connect() as connection:
        assert connection.execute(sa.text("show statement_timeout")).scalar_one() == "0"
        assert connection.get_isolation_level() == "READ COMMITTED"
    source.close()
    assert len(source.page(None, 10).rows) == 4, "a closed source may be used again"
    source.close()
    engine.dispose()
