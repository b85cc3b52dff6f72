"""PostgreSQL's JSON: the same values whichever parser reads it, or the server's text."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa

from poller.errors import ConfigError
from poller.sources import SqlSource
from poller.sources.database import dialect_for
from poller.sources.postgresql import json as json_values
from tests.integration.sources.tables import closing, drain, execute, orders
from tests.support.cases import each

DOCUMENTS = (
    "null",
    "-0",
    "-0.0",
    "18446744073709551615",
    "18446744073709551616",
    "-9223372036854775809",
    "9007199254740993",
    "9007199254740993.0",
    "123456789012345678901234567890",
    '{"big": [99999999999999999999], "small": 1}',
    '{"id": "12345678901234567890123"}',
    "0.1000000000000000055511151231257827",
    "1e400",
    "-1e400",
    "1E5",
    "1e-400",
    '"\\ud800"',
    '{"\\udc00 half": 1}',
    '"\\ud83d\\ude00 \\u00e9 \\u2028"',
    '{"a": 1, "a": 2, "": {"b": [true, false, null, []]}}',
    "[" * 1_200 + "]" * 1_200,
    " [ 1 , 2 ] ",
)


def filled(url: str, kind: str, documents: tuple[str, ...]) -> None:
    execute(
        url, f"create table orders (id integer primary key, updated_at timestamptz not null, d {kind}, ds {kind}[])"
    )
    rows = [{"id": i, "d": text} for i, text in enumerate(documents)]
    insert = f"insert into orders values (:id, '2026-01-05 10:00:00+00', cast(:d as {kind}), array[cast(:d as {kind})])"
    execute(url, insert, rows=rows)


def shown(rows: list[dict[str, Any]]) -> list[str]:
    """By repr: 1 and 1.0 are equal, and so are 0 and -0.0."""
    return [repr((row["d"], row["ds"])) for row in rows]


def without_orjson(url: str, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    with monkeypatch.context() as context, closing(orders(url)) as source:
        context.setattr(json_values, "orjson", None)
        return drain(source, 7)


@each("kind", ["json", "jsonb"])
def test_both_parsers_give_the_same_values(postgres_db: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Integers beyond 64 bits, half surrogate pairs, numbers beyond the largest float, deep nesting."""
    orjson = pytest.importorskip("orjson")
    only_json = {"\\ud800", "\\udc00"}
    documents = tuple(d for d in DOCUMENTS if kind == "json" or not any(half in d for half in only_json))
    filled(postgres_db, kind, documents)
    plain = without_orjson(postgres_db, monkeypatch)
    parsed: list[bytes] = []
    loads = orjson.loads

    def watched(data: bytes) -> Any:
        parsed.append(data)
        return loads(data)

    monkeypatch.setattr(json_values, "orjson", SimpleNamespace(loads=watched))
    with closing(orders(postgres_db)) as source:
        fast = drain(source, 7)
    assert parsed, "orjson was used"
    assert shown(fast) == shown(plain)
    assert len(fast) == len(documents)


@each("kind", ["json", "jsonb"])
def test_a_row_that_was_changed_is_made_again(postgres_db: str, kind: str) -> None:
    """A handler may change what it gets, down to the lists in a document; the next call gets the row as it was read."""
    filled(postgres_db, kind, ('{"a": [1, {"b": []}]}', "null", "[[]]", '"text"'))
    with closing(orders(postgres_db)) as source:
        rows = source.page(None, 10).rows
        before = shown(drain(source, 10))
    for part in (rows, rows[1:], rows):
        for row in part:
            assert isinstance(row, dict)
            row["ds"].append("changed")
            if row["id"] == 0:
                row["d"]["a"][1]["b"].append("changed")
            elif row["id"] == 2:
                row["d"][0].append("changed")
                row["ds"][0].clear()
    assert shown(list(rows)) == before  # type: ignore[arg-type]


@each("with_orjson", [True, False])
def test_a_document_is_parsed_again_only_for_another_row(
    postgres_db: str, with_orjson: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However deeply nested: copying would take more time than parsing, and more frames than there may be."""
    filled(postgres_db, "jsonb", ("[" * 700 + "]" * 700, '{"a": 1}', "1"))
    execute(postgres_db, "alter table orders drop column ds")
    if not with_orjson:
        monkeypatch.setattr(json_values, "orjson", None)
    parsed: list[bytes] = []
    parse = json_values.parse

    def watched(data: bytes) -> Any:
        parsed.append(data)
        return parse(data)

    monkeypatch.setattr(json_values, "parse", watched)
    with closing(orders(postgres_db)) as source:
        rows = source.page(None, 10).rows
    first = list(rows[:2]) + list(rows[2:])
    assert len(parsed) == 3
    again = list(rows)
    assert len(parsed) == 5, "but for the number"
    assert [repr(row) for row in first] == [repr(row) for row in again]
    assert all(one["d"] is not other["d"] for one, other in zip(first[:2], again, strict=False))


@each("kind", ["json", "jsonb"])
def test_as_text_it_is_what_the_server_says(postgres_db: str, kind: str) -> None:
    filled(postgres_db, kind, ('{"b":1,  "a": [1.10]}', "null"))
    with closing(orders(postgres_db, json="text")) as source:
        rows = drain(source, 10)
    assert rows[0]["d"] == ('{"b":1,  "a": [1.10]}' if kind == "json" else '{"a": [1.10], "b": 1}')
    assert rows[0]["ds"] == [rows[0]["d"]]
    assert rows[1]["d"] == "null"


@each("given", ["parsed", "text"])
def test_a_parser_of_the_applications_own_stays(postgres_db: str, given: str) -> None:
    """Where JSON is to be text, it is."""
    filled(postgres_db, "jsonb", ('{"a": 1}',))
    engine = sa.create_engine(postgres_db, poolclass=sa.NullPool, json_deserializer=lambda data: ("mine", data))
    with closing(orders(engine, json=given)) as source:
        (row,) = drain(source, 10)
    assert row["d"] == (("mine", b'{"a": 1}') if given == "parsed" else '{"a": 1}')


@each("how", ["text", "arrow", "mine"])
def test_a_table_with_a_collation_is_read_whatever_json_is(postgres_db: str, how: str) -> None:
    """Nothing that is asked of the catalog comes as JSON, which a connection may return in any way."""
    execute(
        postgres_db,
        "create domain moment as timestamptz(3)",
        'create table orders (id text collate "C" primary key, updated_at moment not null, d jsonb,'
        " n bigint generated always as identity)",
        "insert into orders values ('B', '2026-01-05Z', '{}'), ('a', '2026-01-05Z', '[1]')",
    )
    if how == "arrow":
        pytest.importorskip("pyarrow")
    given = sa.create_engine(postgres_db, poolclass=sa.NullPool, json_deserializer=lambda data: ("mine", data))
    keys: dict[str, Any] = {"text": {"json": "text"}, "arrow": {"format": "arrow"}, "mine": {}}[how]
    with closing(orders(given if how == "mine" else postgres_db, **keys)) as source:
        assert [row["id"] for row in drain(source, 1)] == ["B", "a"]
        assert (source.facts() or {})["columns"] == {
            "updated_at": {"family": "timestamp with a zone", "type": "timestamp with time zone", "digits": 3},
            "id": {"family": "text", "type": "text", "collation": "C"},
        }
        found = source.checkup(source.page(None, 1).cursors[-1], lambda: datetime.now(UTC)).findings
    assert [one.message for one in found if "failed" in one.message] == []
    assert [one.severity for one in found if one.check in {"columns", "key", "nulls"}] == ["ok"] * 3
    given.dispose()


def test_other_connections_parse_as_before(postgres_db: str) -> None:
    filled(postgres_db, "jsonb", ('{"a": 1}',))
    engine = sa.create_engine(postgres_db)
    with closing(orders(engine, json="text")) as source:
        assert drain(source, 10)[0]["d"] == '{"a": 1}'
        with engine.connect() as connection:
            assert connection.execute(sa.text("select d from orders")).scalar_one() == {"a": 1}
    engine.dispose()


def test_a_connection_leaves_nothing_behind_in_the_driver(postgres_db: str, caplog: pytest.LogCaptureFixture) -> None:
    """Psycopg makes a class for every function that parses, and keeps it."""
    filled(postgres_db, "jsonb", ('{"a": 1}',))
    loaders = set()
    for _ in range(3):
        with closing(orders(postgres_db)) as source:
            drain(source, 10)
            source._session.database.connection()
            loaders.add(source._session.database.driver_connection().adapters.get_loader(3802, 0))
    assert len(loaders) == 1
    assert [record.message for record in caplog.records if record.name.startswith("psycopg")] == []


def test_a_driver_that_cannot_return_text_is_refused() -> None:
    with pytest.raises(ConfigError, match="returns JSON parsed") as error:
        dialect_for("postgresql").read_values(object(), "text")
    assert error.value.key == "json"


def test_only_two_values_are_known() -> None:
    with pytest.raises(ConfigError) as error:
        SqlSource("postgresql://h/d", table="t", cursor_column="c", pk_columns=["id"], json="bytes")  # type: ignore[arg-type]
    assert error.value.key == "json"
