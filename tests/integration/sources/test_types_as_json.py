"""What a state document says of a table's types: enough for the page's statement, and nothing that is not a type."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from poller.sources import SqlSource
from poller.sources.facts import Inspection, read_columns, read_facts
from tests.integration.sources.tables import TEXT, TIMESTAMP, execute, family
from tests.support.cases import each

CURSOR = {"updated_at": {"family": "timestamp", "type": "timestamp without time zone"}}


def learned(source: SqlSource) -> Inspection:
    assert source.page(None, 1) is not None
    known = source._session.table.known
    assert known is not None
    return known


def test_types_survive_the_document_on_every_database(any_db: str) -> None:
    kind = family(any_db)
    execute(
        any_db,
        f"create table orders (id integer not null, shop {TEXT[kind]} not null, updated_at {TIMESTAMP[kind]} not null,"
        " primary key (shop, id))" if kind != "mysql" else
        "create table orders (id integer not null, shop varchar(40) not null, updated_at datetime(6) not null,"
        " primary key (shop, id))",
        "insert into orders values (1, 'a', '2026-01-02 03:04:05')",
    )  # fmt: skip
    source = SqlSource(
        any_db, table="orders", cursor_column="updated_at", cursor_time_zone="UTC", pk_columns=["shop", "id"],
        bound="none",
    )  # fmt: skip
    assert source.facts() is None, "nothing was asked yet"
    known = learned(source)

    read = read_facts(json.loads(json.dumps(source.facts())), "updated_at", ("shop", "id"))

    assert read is not None
    assert read.cursor == replace(known.cursor, nullable=None)
    assert read.keys == tuple(replace(key, nullable=None) for key in known.keys)
    assert read.as_json() == source.facts()
    source.close()


@pytest.mark.guarantee(
    "Hostile and broken input",
    "Types in a state document that are no types never reach the database, and a message that is not ours is dropped"
    " unread",
)
@each(
    "said",
    [
        {},
        {"id": {"family": "integer"}},
        {"updated_at": {"family": "nonsense"}},
        {"updated_at": {"family": "timestamp", "type": "int) or 1 = 1 --"}},
        {"updated_at": {"family": "timestamp", "type": "timestamp; drop table orders"}},
        {"updated_at": {"family": "timestamp", "type": "timestamp' "}},
        {"updated_at": {"family": "timestamp", "type": "t(pg_sleep(9))"}},
        {"updated_at": {"family": "timestamp", "type": "x" * 81}},
        {"updated_at": {"family": "timestamp", "type": 5}},
        {"updated_at": {"family": "timestamp", "digits": 10**9}},
        {"updated_at": {"family": "timestamp", "digits": True}},
        {"updated_at": {"family": "timestamp", "collation": "x" * 201}},
        {"updated_at": {"family": "timestamp", "collation": 5}},
        {"updated_at": {"family": "text", "form": {"separator": "T", "seconds": True, "digits": 3, "zone": "'"}}},
        {"updated_at": {"family": "text", "form": {"separator": "'", "seconds": True, "digits": 3, "zone": ""}}},
        {"updated_at": {"family": "text", "form": ["T"]}},
        {"updated_at": ["timestamp"]},
        {"updated_at": None},
        ["updated_at"],
        None,
    ],
)
def test_what_is_no_type_is_not_read_from_a_document(said: Any) -> None:
    whole = {"id": {"family": "integer"}, **said} if isinstance(said, dict) and "id" not in said else said
    assert read_columns({"columns": whole}, "updated_at", ("id",)) is None


@each(
    "kind",
    [
        "timestamp with time zone",
        "xid8",
        "datetime2(7)",
        "DECIMAL(10, 2)",
        "nvarchar(max)",
        "numeric(38, 0)",
        "shop.mood",
    ],
)
def test_types_of_all_databases_are_read(kind: str) -> None:
    assert read_columns({"columns": {"a": {"family": "other", "type": kind}}}, "a", ()) is not None
