"""`format = "arrow"` on PostgreSQL: a row that is tried again has the table that it had in its batch."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import sqlalchemy as sa

from poller import Batch, Poller
from poller.sources import SqlSource
from poller.stores import MemoryStore
from poller.tick import Replay
from tests.integration.sources.tables import execute

pytest.importorskip("pyarrow")
pytest.importorskip("adbc_driver_postgresql")

VALUES = {
    "at": ("timestamptz", "2026-01-01 12:00:00.000001+02"),
    "naive": ("timestamp", "2026-01-01 12:00"),
    "day": ("date", "1999-12-31"),
    "clock": ("time", "12:34:56.5"),
    "zoned": ("timetz", "12:34:56+05:45"),
    "span": ("interval", "2 days 03:04:05.25"),
    "tiny": ("numeric", "1e-30"),
    "nan": ("numeric", "NaN"),
    "price": ("numeric(12, 2)", "1.10"),
    "ratio": ("real", "1.1"),
    "flag": ("boolean", "true"),
    "padded": ("char(6)", "n"),
    "doc": ("jsonb", '{"n": 1}'),
    "text_doc": ("json", '{"n":  1}'),
    "uid": ("uuid", "00000000-0000-0000-0000-00000000000a"),
    "raw": ("bytea", r"\x00ff"),
    "object": ("oid", "4294967295"),
    "money": ("money", "1.50"),
    "mood": ("mood", "sad"),
    "bits": ("bit(5)", "10110"),
    "numbers": ("integer[]", "{1,NULL,-1}"),
    "words": ("text[]", '{"a,b",NULL,"\\"x"}'),
    "prices": ("numeric[]", "{0.10,NaN,1e-20}"),
    "uids": ("uuid[]", "{00000000-0000-0000-0000-00000000000a,NULL}"),
    "ratios": ("real[]", "{1.1,NaN}"),
    "raws": ("bytea[]", '{"\\\\x00ff",NULL}'),
    "docs": ("jsonb[]", '{"{\\"a\\": [1, null]}"}'),
    "times": ("timestamptz[]", '{"2026-01-01 12:00+02"}'),
    "grid": ("numeric[]", "{{1,2},{3,4}}"),
    "address": ("inet", "10.0.0.1"),
    "network": ("cidr", "10.0.0.0/8"),
    "range": ("int4range", "[1,5)"),
    "period": ("tstzrange", '["2026-01-01 00:00+00",)'),
    "ranges": ("int4multirange", "{[1,3),[5,7)}"),
    "pair": ("pair", '(1,"x,""y")'),
    "place": ("point", "(1,2.5)"),
}  # fmt: skip
KEYS: dict[str, Any] = {"cursor_column": "id", "cursor_kind": "integer+pk", "pk_columns": ["id"], "bound": "none"}


@pytest.fixture
def things(postgres_db: str) -> str:
    """A row of values and one of NULLs."""
    values = dict(VALUES)
    with contextlib.suppress(sa.exc.DBAPIError):  # not every server has it
        execute(postgres_db, "create extension hstore")
        values["pairs"] = ("hstore", '"c"=>NULL, "a\\"b"=>"1"')
    declared = ", ".join(f"{name} {kind}" for name, (kind, _) in values.items())
    execute(
        postgres_db,
        "create type mood as enum ('happy', 'sad')",
        "create type pair as (a integer, b text)",
        f"create table things (id integer primary key, {declared})",
        "insert into things (id) values (2)",
    )
    given = {name: value for name, (_, value) in values.items()}
    chosen = ", ".join(f"cast(cast(:{name} as text) as {kind})" for name, (kind, _) in values.items())
    execute(postgres_db, f"insert into things values (1, {chosen})", rows=[given])
    return postgres_db


def test_a_row_tried_again_has_the_table_of_its_batch(things: str) -> None:
    first: list[Any] = []
    again: list[Any] = []

    def take(batch: Batch) -> None:
        (again if batch.replay else first).append(batch.table)
        if not batch.replay:
            for row in batch:
                batch.reject(row, "no")

    source = SqlSource(things, table="things", format="arrow", **KEYS)
    one = Poller("things", source=source, store=MemoryStore(), app_name="shop", observers=[], batch_size=2,
                 on_poison="quarantine", max_attempts=1)  # fmt: skip
    with one:
        one.tick(take)
        waiting = [row.id for row in one.quarantine.list().pending]
        wanted = Replay(waiting, version="recorded")
        one.replay(wanted, take, by="a test")
        assert [result.error for result in wanted.results] == [None, None]
    (table,) = first
    for at, found in enumerate(again):
        assert found.schema == table.schema
        wanted_row = table.slice(at, 1).to_pylist()[0]
        assert {name: (repr(value), repr(wanted_row[name])) for name, value in found.to_pylist()[0].items()
                if repr(value) != repr(wanted_row[name])} == {}  # fmt: skip
