"""The state document: the design's example is continued, unknown fields survive, and what is not ours is refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poller.errors import StateCorrupt, StoreError
from poller.model.cursor import Cursor
from poller.model.document import WRITE_IDS_KEPT, Checkpoint, Control, Delivery, Lease, State, decode, encode
from poller.model.limits import LARGEST_BODY
from poller.model.stamps import stamp
from tests.unit.model.example import EXAMPLE, STRANGE, example, strange, unknown

CURSOR = {"kind": "integer+pk", "value": "7", "tiebreaker": {"id": 7}}
WAITING = {"id": "a1", "pk": "b2", "key": "c3", "cursor": CURSOR, "at": 3, "since": "2026-04-07T01:00:00.000000Z"}
FULL: dict[str, Any] = {
    "version": 1,
    "poller_name": "orders",
    "source_fingerprint": "sha256:...",
    "checkpoint": {
        "cursor": CURSOR,
        "last_successful_batch_id": "b1",
        "updated_at": "2026-04-07T01:23:46.020000Z",
        "metadata": {"row_count": 100},
        "generation": 2,
        "position": 40,
    },
    "lease": {
        "owner_id": "funcapp/1",
        "fencing_token": 42,
        "acquired_at": "2026-04-07T01:23:00.000000Z",
        "heartbeat_at": "2026-04-07T01:23:20.000000Z",
        "expires_at": "2026-04-07T01:25:00.000000Z",
        "ttl_seconds": 60.0,
        "released_at": "2026-04-07T01:24:00.000000Z",
        "operator_token": 42,
    },
    "write_ids": ["w1"],
    "source": {"table": "orders"},
    "delivery": {
        "attempts": 2,
        "last_error": {"type": "ValueError", "message": "no", "at": "2026-04-07T01:23:50.000000Z", "batch_id": "b2"},
        "retry_at": "2026-04-07T01:24:50.000000Z",
        "failures": 1,
        "window": {"after": CURSOR, "generation": 2, "until": CURSOR, "suspect": CURSOR, "piece": CURSOR},
        "lanes": {"generation": 2, "ordering_key": ["customer"], "done": [CURSOR, None], "left": ["a1"]},
    },
    "control": {
        "paused": True,
        "halted": True,
        "by": "ann",
        "reason": "maintenance",
        "at": "2026-04-07T01:23:55.000000Z",
        "last_change": {
            "id": "c1",
            "kind": "pause",
            "by": "ann",
            "reason": "maintenance",
            "at": "2026-04-07T01:23:55.000000Z",
            "before": {"paused": False},
            "after": {"paused": True},
        },
        "cancelled": 41,
    },
    "bound": {"kind": "exact"},
    "facts": {"columns": {"id": {"family": "integer"}}},
    "aside": [
        {**WAITING, "generation": 2, "failures": 1, "strikes": 1, "delivered": 5, "behind": True, "retry_at": None}
    ],
    "quarantine": [
        {**WAITING, "generation": 1, "failures": 5, "strikes": 5, "delivered": 9, "behind": False, "retry_at": None}
    ],
    "retrying": "a1",
    "delivered": 9,
    "ordering_key": ["customer"],
    "unfinished": True,
    "looked_at": "2026-04-07T02:00:00.000000Z",
    "history": [
        {
            "at": "2026-04-07T01:20:00.000000Z",
            "rows": 100,
            "batches": 1,
            "handler_seconds": 0.5,
            "lag_seconds": 1.5,
            "token": 42,
            "owner": "funcapp/1",
        }
    ],
}
"""Every field says something."""
PARTS: dict[str, Any] = {"checkpoint": Checkpoint, "lease": Lease, "delivery": Delivery, "control": Control}
OPTIONAL = [
    *((name,) for name in FULL if name not in {"version", "poller_name", "checkpoint"}),
    *((part, name) for part in PARTS for name in FULL[part]),
]
"""Without the others it is no state document."""
NOW = datetime(2026, 4, 7, 2, 0, tzinfo=UTC)
WHERE = "blob state/shop/orders.json in container db-state"


def read(data: Any, poller_name: str | None = "orders") -> State:
    return decode(
        data if isinstance(data, bytes) else json.dumps(data).encode(), location=WHERE, poller_name=poller_name
    )


def times_as_numbers(data: Any) -> Any:
    """Two spellings of one moment are one meaning; nothing else is."""
    if isinstance(data, dict):
        return {k: moment(v) if k.endswith("_at") and v else times_as_numbers(v) for k, v in data.items()}
    return data


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


# --- the example -----------------------------------------------------------------------------------------------------


def test_the_example_is_read_to_the_letter() -> None:
    state = example()
    assert state.checkpoint.cursor == Cursor(
        kind="timestamp+pk", value="2026-04-07T01:23:45.123456Z", tiebreaker={"id": 12093}
    )
    assert state.checkpoint.last_successful_batch_id == "batch_20260407_012346_0001"
    assert state.checkpoint.metadata == {"row_count": 100}
    assert state.checkpoint.generation == 0
    assert (state.lease.owner_id, state.lease.fencing_token) == ("funcapp/instance-abc123", 42)
    assert state.lease.expires_at == datetime(2026, 4, 7, 1, 25, tzinfo=UTC)
    assert state.lease.ttl_seconds is None
    assert state.delivery.attempts == 0
    assert not state.control.paused
    assert not state.control.halted


def test_the_example_written_back_only_gains_fields() -> None:
    before, after = json.loads(EXAMPLE), json.loads(encode(example()))

    def check(old: Any, new: Any, path: str) -> None:
        if isinstance(old, dict):
            assert isinstance(new, dict), path
            for name, value in old.items():
                check(value, new[name], f"{path}.{name}")
        else:
            assert new == old, path

    check(times_as_numbers(before), times_as_numbers(after), "")
    assert set(before) < set(after) < set(State.model_fields)


def test_every_field_that_says_something_is_written_and_read() -> None:
    assert set(FULL) == set(State.model_fields)
    for name, part in PARTS.items():
        assert set(FULL[name]) == set(part.model_fields), name
    assert json.loads(encode(read(FULL))) == FULL


def test_a_document_of_a_new_poller_has_the_old_fields_only() -> None:
    """What was added later is left out while it says nothing: an older version then finds what it wrote itself."""
    written = json.loads(encode(State(poller_name="orders")))
    assert written == {
        "version": 1,
        "poller_name": "orders",
        "source_fingerprint": "",
        "checkpoint": {
            "cursor": None,
            "last_successful_batch_id": None,
            "updated_at": None,
            "metadata": {},
            "generation": 0,
        },
        "lease": dict.fromkeys(FULL["lease"]) | {"fencing_token": 0},
        "write_ids": [],
        "source": None,
        "delivery": {"attempts": 0, "last_error": None},
        "control": dict.fromkeys(("by", "reason", "at", "last_change")) | {"paused": False, "halted": False},
        "bound": None,
    }
    assert read(written) == State(poller_name="orders")


@pytest.mark.parametrize("path", OPTIONAL, ids=".".join)
def test_a_field_that_is_missing_says_nothing_and_changes_no_other(path: tuple[str, ...]) -> None:
    """As a version left it out that did not know it."""
    *parts, name = path

    def place(document: dict[str, Any]) -> dict[str, Any]:
        return document[parts[0]] if parts else document

    old = json.loads(json.dumps(FULL))
    del place(old)[name]
    state = read(old)
    part = getattr(state, parts[0]) if parts else state
    assert getattr(part, name) == type(part).model_fields[name].get_default(call_default_factory=True)
    written = json.loads(encode(state))
    place(written).pop(name, None)
    assert written == old


# --- what is written is what was read --------------------------------------------------------------------------------


def test_unknown_fields_survive_reading_and_writing() -> None:
    assert len(unknown(STRANGE)) == 11
    assert unknown(json.loads(encode(strange()))) == unknown(STRANGE)


def test_writing_what_was_read_changes_no_byte_from_then_on() -> None:
    once = encode(strange())
    assert encode(read(once)) == once


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
places = st.sampled_from(["", "checkpoint", "lease", "delivery", "control", "source"])
names = st.text(min_size=1).map(lambda name: f"x_{name}")


@given(st.lists(st.tuples(places, names, json_values), max_size=6))
def test_any_unknown_json_survives_wherever_it_stands(fields: list[tuple[str, str, Any]]) -> None:
    data = json.loads(json.dumps(STRANGE))
    for place, name, value in fields:
        (data[place] if place else data)[name] = value
    assert unknown(json.loads(encode(read(data)))) == unknown(data)


def test_parts_that_are_missing_or_null_are_read_as_empty() -> None:
    for part in ("lease", "delivery", "control", "write_ids", "source_fingerprint", "source"):
        data = {**STRANGE, part: None}
        assert read(data) == read({k: v for k, v in data.items() if k != part}), part
    assert read({**STRANGE, "checkpoint": None}).checkpoint.cursor is None
    minimal = read({"version": 1, "poller_name": "orders", "checkpoint": {}})
    assert (minimal.checkpoint.cursor, minimal.lease.fencing_token, minimal.lease.owner_id) == (None, 0, None)


def test_key_parts_keep_their_json_type_and_all_their_digits() -> None:
    key = {"id": 2**70, "code": "007", "amount": "1.10", "hash": "00ff"}
    data = json.loads(json.dumps(STRANGE))
    data["checkpoint"]["cursor"]["tiebreaker"] = key
    assert json.loads(encode(read(data)))["checkpoint"]["cursor"]["tiebreaker"] == key


def test_a_null_tiebreaker_stays_null() -> None:
    data = json.loads(json.dumps(STRANGE))
    data["checkpoint"]["cursor"]["tiebreaker"] = None
    state = read(data)
    assert state.checkpoint.cursor is not None
    assert str(state.checkpoint.cursor) == "2026-04-07T01:23:45.123456Z (at or after)"
    assert json.loads(encode(state))["checkpoint"]["cursor"]["tiebreaker"] is None


def test_only_the_last_eight_write_ids_are_kept_newest_last() -> None:
    state = strange()
    for number in range(20):
        state = state.with_write_id(f"id{number}")
    assert state.write_ids == tuple(f"id{number}" for number in range(12, 20))
    assert len(state.write_ids) == WRITE_IDS_KEPT == 8


def test_stamps_are_written_in_utc_with_microseconds() -> None:
    assert stamp(datetime.fromisoformat("2026-04-07T03:23:45.5+02:00")) == "2026-04-07T01:23:45.500000Z"
    data = json.loads(json.dumps(STRANGE))
    data["lease"]["expires_at"] = "2026-04-07T03:25:00+02:00"
    assert json.loads(encode(read(data)))["lease"]["expires_at"] == "2026-04-07T01:25:00.000000Z"


def test_commas_and_brackets_in_a_text_are_no_values() -> None:
    text = '"[{,' * 150_000
    assert json.loads(encode(read({**json.loads(EXAMPLE), "theirs": text})))["theirs"] == text


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "is not JSON"),
        (b"<?xml version='1.0'?>", "is not JSON"),
        (b"\xff\xfe\x00garbage", "is not JSON"),
        (EXAMPLE[:-10], "is not JSON"),
        (b"[" * 100_000, "is nested deeper than 64 levels"),
        (
            EXAMPLE.replace(b'"version": 1', b'"x": [' + b"1," * 450_000 + b'1], "version": 1'),
            "more than 400,000 values",
        ),
        (b"[" + b"," * 420_000 + b'"' + b'\\"' * 300_000, "more than 400,000 values"),  # searched once, not per quote
        (EXAMPLE.replace(b'"version": 1', b'"x": NaN, "version": 1'), "a number that is not finite"),
        (EXAMPLE.replace(b'"version": 1', b'"x": -1e999, "version": 1'), "a number that is not finite"),
        (EXAMPLE.replace(b'"version": 1', b'"x": "\\ud800", "version": 1'), "is not JSON"),
        (EXAMPLE.replace(b'"version": 1', b'"\\udfff": 1, "version": 1'), "is not JSON"),
        (b"null", "not a poller's state document"),
        (b"[]", "not a poller's state document"),
        (b'"orders"', "not a poller's state document"),
        (b"{}", "not a poller's state document"),
        (b'{"name": "left-pad", "version": "1.3.0"}', "not a poller's state document"),
        (b'{"checkpoint": {}, "poller_name": "orders"}', "not a poller's state document"),
        (EXAMPLE.replace(b'"version": 1', b'"version": 2'), "has version 2; this poller reads version 1"),
        (EXAMPLE.replace(b'"version": 1', b'"version": 7'), "Upgrade poller"),
        (EXAMPLE.replace(b'"version": 1', b'"version": 0'), "version"),
        (EXAMPLE.replace(b'"version": 1', b'"version": "1"'), "version"),
        (EXAMPLE.replace(b'"fencing_token": 42', b'"fencing_token": -1'), "lease.fencing_token"),
        (EXAMPLE.replace(b'"fencing_token": 42', b'"fencing_token": "x"'), "lease.fencing_token"),
        (EXAMPLE.replace(b'{"id": 12093}', b'{"id": 12093.5}'), "checkpoint.cursor.tiebreaker"),
        (EXAMPLE.replace(b'{"id": 12093}', b'{"id": true}'), "checkpoint.cursor.tiebreaker"),
        (EXAMPLE.replace(b'{"id": 12093}', b"12093"), "checkpoint.cursor.tiebreaker"),
        (EXAMPLE.replace(b'"timestamp+pk"', b'"offset"'), "checkpoint.cursor.kind"),
        (EXAMPLE.replace(b'"2026-04-07T01:25:00Z"', b'"soon"'), "lease.expires_at"),
        (EXAMPLE.replace(b'"2026-04-07T01:25:00Z"', b'"2026-04-07T01:25:00"'), "lease.expires_at"),
    ],
)
def test_what_is_no_state_document_of_ours_is_refused_by_name(body: bytes, said: str) -> None:
    with pytest.raises(StateCorrupt) as refused:
        read(body)
    assert said in str(refused.value)
    assert WHERE in str(refused.value)
    assert refused.value.next_step


def test_another_pollers_document_is_refused() -> None:
    with pytest.raises(StateCorrupt, match="belongs to the poller 'orders', not to 'invoices'") as refused:
        read(EXAMPLE, poller_name="invoices")
    assert "poller reset-to-checkpoint invoices FILE" in refused.value.next_step


@given(st.binary(max_size=60))
def test_no_bytes_make_reading_fail_in_any_other_way(body: bytes) -> None:
    try:
        state = read(body, poller_name=None)
    except StateCorrupt:
        return
    raise AssertionError(f"random bytes were read as {state}")


@given(st.integers(0, len(EXAMPLE) - 1), st.binary(min_size=1, max_size=3))
def test_a_damaged_example_is_read_or_refused_but_never_crashes(at: int, junk: bytes) -> None:
    try:
        state = read(EXAMPLE[:at] + junk + EXAMPLE[at + len(junk) :], poller_name=None)
    except StateCorrupt:
        return
    encode(state)


# --- limits ----------------------------------------------------------------------------------------------------------


def nested(levels: int) -> bytes:
    return EXAMPLE.replace(b'"version": 1', b'"x": ' + b"[" * levels + b"]" * levels + b', "version": 1')


@pytest.mark.guarantee(
    "Hostile and broken input",
    "Any content of a state document's blob is read, or is an error that names the fix",
)
@pytest.mark.parametrize(
    ("body", "said"),
    [
        (nested(64), "nested deeper than 64 levels"),
        (nested(300), "nested deeper than 64 levels"),
        (
            EXAMPLE.replace(b'"version": 1', b'"x": "' + b"x" * LARGEST_BODY + b'", "version": 1'),
            "larger than 1,048,576",
        ),
        (EXAMPLE.replace(b"42", b"1" + b"0" * 300), "integer of more than 100 digits"),
        (EXAMPLE.replace(b"42", b"9007199254740993"), "lease.fencing_token"),
        (EXAMPLE.replace(b"42", b'42, "fencing_token": 43'), "names a field twice"),
        (EXAMPLE.replace(b'"orders"', b'"' + b"o" * 2000 + b'"'), "poller_name"),
        (EXAMPLE.replace(b"funcapp/instance-abc123", b"o" * 2000), "lease.owner_id"),
        # Written with its indents it would be larger than what is read.
        (EXAMPLE.replace(b'"version": 1', b'"x": [' + b"1," * 300_000 + b'1], "version": 1'), "cannot be written back"),
    ],
)
def test_what_is_beyond_the_limits_is_refused_in_words(body: bytes, said: str) -> None:
    with pytest.raises(StateCorrupt, match=r"reset-to-checkpoint") as refused:
        read(body, poller_name=None)
    assert said in str(refused.value)
    assert len(str(refused.value)) < 3000


def test_what_is_within_the_limits_is_read_and_written() -> None:
    assert encode(read(encode(read(nested(62))))) == encode(read(nested(62)))


def test_what_is_known_of_the_bound_keeps_a_document_in_its_limit() -> None:
    state = example().model_copy(update={"bound": {"open": ["x" * 100] * 20_000}})
    assert read(encode(state)) == example()


@pytest.mark.guarantee("Hostile and broken input", "No document is written that is too large to be read again")
def test_a_document_that_could_not_be_read_again_is_not_written() -> None:
    with pytest.raises(StoreError, match="would have") as refused:
        encode(example().model_copy(update={"source": {"query": "x" * LARGEST_BODY}}))
    assert "Nothing was written" in refused.value.next_step
