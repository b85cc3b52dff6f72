"""The fingerprint: what belongs to a source's identity, as one canonical text."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from poller.errors import FieldDifference
from poller.model import transitions
from poller.model.document import State, encode
from poller.model.fingerprint import DatabaseIdentity, SourceDescription, differences

ORDERS = SourceDescription(
    database=DatabaseIdentity(dialect="postgresql", host="db.example.com", port=5432, database="shop"),
    schema_name="public",
    table="orders",
    cursor_column="updated_at",
    cursor_kind="timestamp+pk",
    pk_columns=("id",),
    filter="status <> 'draft'",
)
CANONICAL = (
    '{"cursor_column":"updated_at","cursor_kind":"timestamp+pk","database":{"database":"shop","dialect":"postgresql",'
    '"host":"db.example.com","port":5432},"filter":"status <> \'draft\'","pk_columns":["id"],"query":null,'
    '"schema":"public","table":"orders"}'
)


def changed(**fields: Any) -> SourceDescription:
    return ORDERS.model_copy(update=fields)


def test_the_hashed_text_is_canonical_json() -> None:
    assert ORDERS.canonical() == CANONICAL
    assert ORDERS.fingerprint() == "sha256:" + hashlib.sha256(CANONICAL.encode()).hexdigest()


def test_it_is_the_same_whichever_way_the_fields_were_given() -> None:
    again = SourceDescription.model_validate(dict(reversed(list(ORDERS.model_dump().items()))))
    assert again.fingerprint() == ORDERS.fingerprint()


def test_text_beyond_ascii_is_hashed_as_utf8() -> None:
    text = changed(table="größe").canonical()
    assert '"table":"größe"' in text
    assert changed(table="größe").fingerprint() == "sha256:" + hashlib.sha256(text.encode("utf-8")).hexdigest()


@pytest.mark.parametrize(
    "fields",
    [
        {"database": DatabaseIdentity(dialect="mysql", host="db.example.com", port=5432, database="shop")},
        {"database": DatabaseIdentity(dialect="postgresql", host="db2.example.com", port=5432, database="shop")},
        {"database": DatabaseIdentity(dialect="postgresql", host="db.example.com", port=5433, database="shop")},
        {"database": DatabaseIdentity(dialect="postgresql", host="db.example.com", port=5432, database="shop2")},
        {"schema_name": "other"},
        {"schema_name": None},
        {"table": "Orders"},
        {"table": None, "query": "select * from orders"},
        {"cursor_column": "created_at"},
        {"cursor_kind": "integer+pk"},
        {"pk_columns": ("id", "line")},
        {"filter": "status<>'draft'"},
        {"filter": None},
    ],
)
def test_every_part_of_the_identity_counts(fields: dict[str, Any]) -> None:
    assert changed(**fields).fingerprint() != ORDERS.fingerprint()


def test_the_order_of_key_columns_counts() -> None:
    assert changed(pk_columns=("a", "b")).fingerprint() != changed(pk_columns=("b", "a")).fingerprint()


def test_a_query_counts_byte_for_byte() -> None:
    one, two = changed(table=None, query="select 1"), changed(table=None, query="select  1")
    assert one.fingerprint() != two.fingerprint()


def test_the_document_describes_what_was_hashed() -> None:
    state = transitions.bind(State(poller_name="orders"), ORDERS)
    stored = json.loads(encode(state))["source"]
    assert json.dumps(stored, sort_keys=True, separators=(",", ":"), ensure_ascii=False) == CANONICAL
    assert differences(stored, ORDERS) == []


def test_differences_are_shown_field_by_field_and_dotted() -> None:
    other = changed(
        database=DatabaseIdentity(dialect="postgresql", host="new.example.com", port=5432, database="shop"),
        pk_columns=("id", "line"),
        filter=None,
    )
    assert differences(ORDERS.as_json(), other) == [
        FieldDifference(field="database.host", stored="db.example.com", configured="new.example.com"),
        FieldDifference(field="filter", stored="status <> 'draft'", configured=None),
        FieldDifference(field="pk_columns", stored=["id"], configured=["id", "line"]),
    ]


def test_a_field_that_only_the_document_knows_is_a_difference() -> None:
    assert differences({**ORDERS.as_json(), "tenant": 7}, ORDERS) == [
        FieldDifference(field="tenant", stored=7, configured=None)
    ]


@pytest.mark.parametrize("stored", [None, {}])
def test_an_undescribed_source_gets_no_invented_difference(
    stored: dict[str, Any] | None,
) -> None:
    assert differences(stored, ORDERS) == []


def _open(**said: object) -> SourceDescription:
    """A table whose schema the configuration leaves to the server, asked where anything is said."""
    made = SourceDescription(
        database=DatabaseIdentity(dialect="postgresql", host="db", port=5432, database="shop"), table="orders",
        cursor_column="at", cursor_kind="timestamp+pk", pk_columns=("id",), left_open=("schema",),
    )  # fmt: skip
    return made.resolved(said) if said else made


def test_what_was_not_asked_for_yet_contradicts_nothing() -> None:
    stored = _open(schema="ta")
    assert _open().belongs(stored.fingerprint(), stored.as_json())
    assert differences(stored.as_json(), _open()) == []
    assert not _open().belongs(stored.fingerprint(), {**stored.as_json(), "schema": "tb"})
    assert not _open().belongs("sha256:0", stored.as_json())


def test_what_the_server_said_is_compared() -> None:
    stored = _open(schema="ta")
    assert stored.belongs(stored.fingerprint(), stored.as_json())
    assert not _open(schema="tb").belongs(stored.fingerprint(), stored.as_json())
    assert [str(one) for one in differences(stored.as_json(), _open(schema="tb"))] == ["schema: ta -> tb"]


def test_a_document_from_before_belongs_whatever_the_server_says() -> None:
    before = _open()
    assert _open(schema="ta").belongs(before.fingerprint(), before.as_json())
    assert differences(before.as_json(), _open(schema="ta")) == []


def test_what_is_hashed_holds_nothing_of_how_it_was_found() -> None:
    asked = _open(schema="ta")
    plain = asked.model_copy(update={"left_open": (), "configured": None})
    assert asked.canonical() == plain.canonical()
    assert set(asked.as_json()) == set(plain.as_json())


def test_a_bind_without_the_server_keeps_what_the_document_says() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    state = transitions.create("orders", _open(schema="ta"), None, now=now)
    assert transitions.bind(state, _open()).source_fingerprint == state.source_fingerprint
    other = _open().model_copy(update={"table": "others"})
    assert transitions.bind(state, other).source == other.as_json()
