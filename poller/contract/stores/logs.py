"""The laws of log documents."""

from __future__ import annotations

import json

import pytest

from poller.contract.stores.place import Place
from poller.model import limits
from poller.model.limits import LONGEST_LINE
from poller.ports import StateStore

_NAME = "audit/shop/orders.jsonl"


def test_a_log_that_nobody_began_is_empty(store: StateStore) -> None:
    assert store.lines(_NAME) == []
    assert store.lines(_NAME, limit=3) == []


def test_lines_come_back_in_order_across_roll_overs_and_processes(place: Place) -> None:
    for number in range(10):
        place.open().append(_NAME, f"line {number}")
    assert place.open().lines(_NAME) == [f"line {number}" for number in range(10)]
    assert list(place.open().names("")) == [_NAME]


def test_a_limit_gives_the_newest_lines_oldest_first(store: StateStore) -> None:
    for number in range(10):
        store.append(_NAME, f"line {number}")
    assert store.lines(_NAME, limit=5) == [f"line {number}" for number in range(5, 10)]
    assert store.lines(_NAME, limit=1) == ["line 9"]
    assert store.lines(_NAME, limit=100) == [f"line {number}" for number in range(10)]
    assert store.lines(_NAME, limit=0) == []


def test_lines_hold_any_json_text(place: Place) -> None:
    lines = [
        json.dumps({"who": 'O\'Brien "x" \\ % :a ? \U0001f680', "text": "a\nb\r\nc"}),
        json.dumps({"separators": "\u2028\u2029\x85"}, ensure_ascii=False),
        "",
        json.dumps({"big": "x" * 100_000}),
    ]
    for line in lines:
        place.open().append(_NAME, line)
    assert place.open().lines(_NAME) == lines


def test_a_trail_is_read_up_to_16_kib_a_line(store: StateStore) -> None:
    for line in ("first", "x" * 100_000, "last"):
        store.append(_NAME, line)
    assert store.lines(_NAME, limit=3) == ["first", "x" * LONGEST_LINE, "last"]


def test_a_trail_is_read_up_to_a_size_in_all(store: StateStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LARGEST_TRAIL", 4 * LONGEST_LINE)
    for number in range(7):
        store.append(_NAME, str(number) * 20_000)
    found = store.lines(_NAME, limit=7)
    assert found == [str(number) * LONGEST_LINE for number in range(7)][-len(found) :]
    assert 1 <= len(found) <= 4


def test_logs_are_apart_even_where_one_name_begins_with_the_other(store: StateStore) -> None:
    store.append("audit/shop/a.jsonl", "a")
    store.append("audit/shop/a.jsonl.old", "b")
    for _ in range(4):
        store.append("audit/shop/ab.jsonl", "c")
    assert store.lines("audit/shop/a.jsonl") == ["a"]
    assert list(store.names("audit/shop/a.jsonl")) == ["audit/shop/a.jsonl", "audit/shop/a.jsonl.old"]


def test_a_line_break_inside_a_line_is_refused_before_the_write(store: StateStore) -> None:
    with pytest.raises(ValueError, match="line break"):
        store.append(_NAME, "one\ntwo")
    assert store.lines(_NAME) == []
