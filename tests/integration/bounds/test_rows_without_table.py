"""Rows that come from no table of this database: nobody can tell whose transactions write them, so a guess is left."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from poller.errors import ConfigError
from tests.integration.bounds.tables import STAMPED, add, make, source
from tests.integration.sources.tables import execute
from tests.support.cases import each
from tests.support.services import unavailable


def kind(url: str, **keys: Any) -> tuple[str, str]:
    """Which bound `auto` takes, and why."""
    with source(url, settle="0s", **keys) as reader:
        reader.page(None, 10)
        bound = reader.bound()
    return bound.kind, str(bound.reason)


def query(sql: str) -> dict[str, Any]:
    return {"table": None, "query": sql}


@pytest.fixture
def functions(postgres_db: str) -> str:
    """A table and functions over it: one that cannot be looked into, one that PostgreSQL puts its body in for."""
    make(postgres_db)
    add(postgres_db, 1)
    returns = "returns table(id bigint, updated_at timestamptz)"
    execute(
        postgres_db,
        f"create function opaque() {returns} language plpgsql as"
        " $$ begin return query select s.id, s.updated_at from stamped s; end $$",
        f"create function clear() {returns} language sql stable as $$ select s.id, s.updated_at from stamped s $$",
        "create function split(text) returns setof text language plpgsql immutable as"
        " $$ begin return query select string_to_table($1, ','); end $$",
        "create schema other",
        "create function other.unnest(int) returns setof bigint language plpgsql as"
        " $$ begin return query select s.id from stamped s; end $$",
        "create view over_opaque as select * from opaque()",
        "create view over_clear as select * from clear()",
    )
    return postgres_db


OPAQUE = [
    query("select * from opaque()"),
    query("with o as (select * from opaque()) select id, updated_at from o where id > 0"),
    query("select o.id, o.updated_at from stamped s join opaque() o using (id)"),
    query("select * from stamped union all select id + 9, updated_at from opaque()"),
    query("select (o).id, (o).updated_at from (select opaque() as o from stamped offset 0) x"),
    {"table": "over_opaque"},
]


@each("keys", OPAQUE)
def test_a_function_in_from_that_cannot_be_seen_is_a_guess(functions: str, keys: dict[str, Any]) -> None:
    found, reason = kind(functions, **keys)
    assert found == "heuristic"
    assert "opaque" in reason
    with (
        pytest.raises(ConfigError, match="opaque") as error,
        source(functions, bound="exact", **keys) as reader,
    ):
        reader.page(None, 10)
    assert error.value.key == "bound"


NO_TABLE = [
    query("select g as id, now() - interval '1 hour' as updated_at from generate_series(1, 3) g"),
    query("select 1 as id, now() - interval '1 hour' as updated_at"),
    query("values (1, now())") | {"cursor_column": "column2", "pk_columns": ["column1"]},
]


@each("keys", NO_TABLE)
def test_rows_of_no_table_are_a_guess(postgres_db: str, keys: dict[str, Any]) -> None:
    found, reason = kind(postgres_db, **keys)
    assert found == "heuristic"
    assert "no table of this database" in reason


EXACT = [
    query("select * from clear()"),
    {"table": "over_clear"},
    query("select s.*, g from stamped s cross join generate_series(1, 1) g"),
    query("select s.id, s.updated_at + interval '0' as updated_at from stamped s, unnest(array[1]) u"),
    query("select s.* from stamped s join opaque() o using (id)"),
    query("select s.id, s.updated_at + interval '0' as updated_at from stamped s, split('a') w"),  # it reads no table
]


@each("keys", EXACT)
def test_a_function_beside_the_cursors_table_changes_nothing(functions: str, keys: dict[str, Any]) -> None:
    assert kind(functions, **keys)[0] == "exact"


def test_rows_by_dblink_are_a_guess(postgres_db: str) -> None:
    try:
        execute(postgres_db, "create extension dblink")
    except sa.exc.DBAPIError as missing:
        unavailable(f"no dblink: {missing.orig}")
    make(postgres_db)
    url = sa.make_url(postgres_db)
    there = f"host={url.host} port={url.port} dbname={url.database} user={url.username}"
    far = f"dblink('{there}', 'select id, updated_at from stamped') as t(id bigint, updated_at timestamptz)"
    found, reason = kind(postgres_db, **query(f"select * from {far}"))
    assert found == "heuristic"
    assert "dblink" in reason


def test_a_query_over_no_table_is_a_guess_on_mysql_too(family_db: str) -> None:
    found, reason = kind(family_db, **query("select 1 as id, now(6) - interval 1 hour as updated_at"))
    assert found == "heuristic"
    assert "no table" in reason


def test_a_virtual_table_of_sqlite_is_a_guess(tmp_path: Path) -> None:
    file = tmp_path / "shop.db"
    with sqlite3.connect(file) as made:
        made.execute(f"create table stamped ({STAMPED['sqlite']})".replace("\\:", ":"))
        made.execute("insert into stamped values (1, '2026-01-01T00:00:00.000Z')")
        made.execute("create virtual table words using fts5(said)")
        made.execute("create view found as select s.* from stamped s left join words w on w.rowid = s.id")
        made.execute("create virtual table far using fts5vocab(words, row)")
        made.execute("create view beyond as select 1 as id, '2026-01-01T00:00:00Z' as updated_at from far")
        made.execute("insert into words values ('yes')")
        made.execute("create view near as select * from stamped")
    url = f"sqlite:///{file}"
    assert kind(url)[0] == "exact"
    assert kind(url, table="found")[0] == "exact"
    assert kind(url, table="near")[0] == "exact"
    assert "far is a virtual table (fts5vocab)" in kind(url, table="beyond")[1]
    assert kind(url, **query("select stamped.* from stamped, json_each('[1]') j"))[0] == "exact"
    found, reason = kind(url, **query("select value as id, '2026-01-01T00:00:00Z' as updated_at from json_each('[1]')"))
    assert found == "heuristic"
    assert "no table" in reason
