"""The laws of documents."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from poller.contract.stores.place import Place
from poller.errors import StoreError, WriteConflict
from poller.model.limits import LARGEST_BODY
from poller.ports import Found, Missing, StateStore, Unchanged

_NAME = "state/shop/orders.json"


def _found(store: StateStore, name: str = _NAME) -> Found:
    answer = store.read(name)
    assert isinstance(answer, Found)
    return answer


def test_a_document_that_nobody_wrote_is_missing(store: StateStore) -> None:
    assert isinstance(store.read(_NAME), Missing)
    assert isinstance(store.read(_NAME, unless="a tag"), Missing)
    assert list(store.names("")) == []


def test_what_was_written_is_read_by_others_byte_for_byte(place: Place) -> None:
    body = json.dumps({"name": "Zürich 東京 \U0001f680 ' \" \\ %s :x ?", "lines": "a\r\nb\tc"}, indent=2).encode()
    written = place.open().write(_NAME, body, if_tag=None)
    answer = _found(place.open())
    assert (answer.body, answer.tag) == (body, written.tag)


def test_text_beyond_ascii_survives_unescaped(place: Place) -> None:
    body = json.dumps({"name": "Zürich 東京 \U0001f680\u2028"}, ensure_ascii=False).encode()
    place.open().write(_NAME, body, if_tag=None)
    assert _found(place.open()).body == body


def test_a_document_is_created_only_where_none_exists(store: StateStore) -> None:
    store.write(_NAME, b"first", if_tag=None)
    with pytest.raises(WriteConflict) as conflict:
        store.write(_NAME, b"second", if_tag=None)
    assert conflict.value.document == _NAME
    assert _NAME in str(conflict.value)
    assert _found(store).body == b"first"


def test_a_write_with_the_current_tag_replaces_and_gives_a_new_tag(store: StateStore) -> None:
    first = store.write(_NAME, b"1", if_tag=None)
    second = store.write(_NAME, b"2", if_tag=first.tag)
    third = store.write(_NAME, b"2", if_tag=second.tag)  # the same bytes are a new version all the same
    assert len({first.tag, second.tag, third.tag}) == 3
    answer = _found(store)
    assert (answer.body, answer.tag) == (b"2", third.tag)


def test_a_write_with_a_stale_tag_changes_nothing(store: StateStore) -> None:
    first = store.write(_NAME, b"1", if_tag=None)
    second = store.write(_NAME, b"2", if_tag=first.tag)
    with pytest.raises(WriteConflict):
        store.write(_NAME, b"3", if_tag=first.tag)
    answer = _found(store)
    assert (answer.body, answer.tag) == (b"2", second.tag)


def test_a_tag_of_another_document_is_no_tag_here(store: StateStore) -> None:
    store.write(_NAME, b"1", if_tag=None)
    other = store.write("state/shop/others.json", b"2", if_tag=None)
    with pytest.raises(WriteConflict):
        store.write(_NAME, b"3", if_tag=other.tag)
    assert _found(store).body == b"1"


def test_a_conditional_write_never_creates(store: StateStore) -> None:
    with pytest.raises(WriteConflict):
        store.write(_NAME, b"1", if_tag='"0x8DAAAAAAAAAAAAA"')
    assert isinstance(store.read(_NAME), Missing)
    store.write("state/shop/others.json", b"1", if_tag=None)
    with pytest.raises(WriteConflict):
        store.write(_NAME, b"1", if_tag='"0x8DAAAAAAAAAAAAA"')
    assert isinstance(store.read(_NAME), Missing)


def test_a_deleted_document_refuses_its_tag_and_can_be_made_anew(place: Place) -> None:
    store = place.open()
    old = store.write(_NAME, b"1", if_tag=None)
    place.delete(_NAME)
    assert isinstance(store.read(_NAME, unless=old.tag), Missing)
    with pytest.raises(WriteConflict):
        store.write(_NAME, b"2", if_tag=old.tag)
    new = store.write(_NAME, b"3", if_tag=None)
    assert new.tag != old.tag
    assert _found(store).body == b"3"


def test_a_document_with_the_current_tag_is_removed(place: Place) -> None:
    store = place.open()
    written = store.write(_NAME, b"1", if_tag=None)
    store.write("state/shop/others.json", b"2", if_tag=None)
    place.open().remove(_NAME, if_tag=written.tag)
    assert isinstance(store.read(_NAME), Missing)
    assert list(store.names("")) == ["state/shop/others.json"]
    store.write(_NAME, b"3", if_tag=None)
    assert _found(store).body == b"3"


def test_a_removal_with_a_stale_tag_removes_nothing(store: StateStore) -> None:
    with pytest.raises(WriteConflict):
        store.remove(_NAME, if_tag='"0x8DAAAAAAAAAAAAA"')
    first = store.write(_NAME, b"1", if_tag=None)
    second = store.write(_NAME, b"2", if_tag=first.tag)
    with pytest.raises(WriteConflict) as conflict:
        store.remove(_NAME, if_tag=first.tag)
    assert conflict.value.document == _NAME
    assert _found(store).tag == second.tag
    store.remove(_NAME, if_tag=second.tag)
    with pytest.raises(WriteConflict):
        store.remove(_NAME, if_tag=second.tag)


def test_reading_says_unchanged_while_the_tag_is_the_same(place: Place) -> None:
    store, other = place.open(), place.open()
    first = store.write(_NAME, b"1", if_tag=None)
    assert isinstance(store.read(_NAME, unless=first.tag), Unchanged)
    second = other.write(_NAME, b"2", if_tag=first.tag)
    answer = store.read(_NAME, unless=first.tag)
    assert isinstance(answer, Found)
    assert (answer.body, answer.tag) == (b"2", second.tag)
    assert isinstance(store.read(_NAME, unless=second.tag), Unchanged)


def test_every_answer_carries_the_servers_time(place: Place) -> None:
    store = place.open()
    missing = store.read(_NAME)
    written = store.write(_NAME, b"1", if_tag=None)
    answer = _found(store)
    unchanged = store.read(_NAME, unless=answer.tag)
    times = []
    # Services of this machine: their clock is ours, in UTC. An hour would be a time zone taken for UTC.
    for time in (missing.server_time, written.server_time, answer.server_time, unchanged.server_time):
        assert time is not None
        assert time.utcoffset() == timedelta(0)
        assert abs(datetime.now(UTC) - time) < timedelta(minutes=10)
        times.append(time)
    assert times == sorted(times)
    assert answer.modified_at is not None
    assert written.modified_at is not None
    assert timedelta(0) <= written.modified_at - answer.modified_at <= place.late
    assert answer.server_time is not None
    assert answer.modified_at <= answer.server_time


def test_a_document_of_a_megabyte_is_kept_whole(place: Place) -> None:
    store = place.open()
    body = json.dumps({"rows": ["é" * 50] * 10_000}, ensure_ascii=False).encode()
    assert len(body) > 1_000_000
    first = store.write(_NAME, body, if_tag=None)
    assert _found(store).body == body
    changed = body[: min(len(body), place.replaces - 1)] + b"!"
    store.write(_NAME, changed, if_tag=first.tag)
    assert _found(store).body == changed


def test_an_empty_document_is_found_and_is_empty(store: StateStore) -> None:
    first = store.write(_NAME, b"", if_tag=None)
    answer = _found(store)
    assert (answer.body, answer.tag) == (b"", first.tag)
    assert isinstance(store.read(_NAME, unless=first.tag), Unchanged)


@pytest.mark.parametrize(
    "name",
    ["a b/c d.json", "100%/a%20b.json", "q\"uote's/`x`.json", "a?b#c&d=e.json", "a+b.json", "ü/東京/\U0001f680.json",
     "a_b.json", "semi;colon--.json", "[a]{b}.json"],
)  # fmt: skip
def test_names_are_taken_literally(place: Place, name: str) -> None:
    store = place.open()
    store.write("axb.json", b"other", if_tag=None)
    written = store.write(name, b"1", if_tag=None)
    store.write(name, b"2", if_tag=written.tag)
    assert _found(place.open(), name).body == b"2"
    assert list(store.names(name)) == [name]
    assert name in store.locate(name)
    place.delete(name)
    assert isinstance(store.read(name), Missing)


def test_names_that_differ_in_case_or_accent_are_two_documents(store: StateStore) -> None:
    for name in ("state/a.json", "state/A.json", "state/á.json"):
        store.write(name, name.encode(), if_tag=None)
    assert {_found(store, name).body.decode() for name in store.names("state/")} == {
        "state/a.json",
        "state/A.json",
        "state/á.json",
    }
    assert list(store.names("state/A")) == ["state/A.json"]


def test_names_are_listed_in_order_by_their_beginning(store: StateStore) -> None:
    for name in ("state/shop/b.json", "state/shop/a.json", "state/shop2/a.json", "backups/shop/a/1.json"):
        store.write(name, b"{}", if_tag=None)
    store.append("audit/shop/a.jsonl", "{}")
    assert list(store.names("state/shop/")) == ["state/shop/a.json", "state/shop/b.json"]
    assert list(store.names("state/shop")) == ["state/shop/a.json", "state/shop/b.json", "state/shop2/a.json"]
    assert list(store.names("audit/")) == ["audit/shop/a.jsonl"]
    assert len(list(store.names(""))) == 5
    assert list(store.names("state/shop/c")) == []


def test_a_closed_store_can_be_used_again(store: StateStore) -> None:
    store.write(_NAME, b"1", if_tag=None)
    store.close()
    assert _found(store).body == b"1"
    store.close()
    store.close()


def test_of_a_document_too_large_only_the_beginning_is_read(place: Place) -> None:
    body = b"x" * (LARGEST_BODY + 5_000_000)
    if place.refuses:
        with pytest.raises(StoreError, match="too large"):
            place.open().write(_NAME, body, if_tag=None)
        assert isinstance(place.open().read(_NAME), Missing)
        return
    place.open().write(_NAME, body, if_tag=None)
    assert _found(place.open()).body == body[: LARGEST_BODY + 1]
