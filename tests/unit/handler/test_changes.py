"""Rows of a captured table as changes, and the newest of each row."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from poller import Batch, ConfigError
from poller.model.row_changes import RowChange

AT = datetime(2026, 4, 7, tzinfo=UTC)


def captured(number: int, op: str, row: dict[str, Any], old: dict[str, Any] | None = None) -> dict[str, Any]:
    return {**row, "_op": op, "_old": old, "_change": number, "_tx": "7", "_at": AT}


def row(id_: int | None, name: str | None) -> dict[str, Any]:
    return {"id": id_, "name": name}


NOTHING = row(None, None)
ROWS = [
    captured(1, "I", row(1, "a")),
    captured(2, "U", row(1, "b"), row(1, "a")),
    captured(3, "D", row(2, "c"), row(2, "c")),
    captured(4, "U", row(3, "d")),
]


def test_each_row_is_a_change_with_what_it_changed() -> None:
    batch = Batch.of_rows(ROWS)
    assert [(one.op, one.values, one.old, one.changed) for one in batch.changes] == [
        ("I", row(1, "a"), None, {"id", "name"}),
        ("U", row(1, "b"), row(1, "a"), {"name"}),
        ("D", row(2, "c"), row(2, "c"), frozenset()),
        ("U", row(3, "d"), None, None),
    ]


def test_a_changes_row_can_be_named_as_failed() -> None:
    batch = Batch.of_rows(ROWS)
    batch.fail(batch.changes[1].row, "no")
    assert [failure.position for failure in batch.failures] == [1]


def test_a_value_that_is_not_equal_to_itself_did_not_change() -> None:
    nan = float("nan")
    batch = Batch.of_rows([captured(1, "U", {"id": 1, "x": float("nan")}, {"id": 1, "x": nan})])
    assert batch.changes[0].changed == frozenset()


def test_changes_of_the_whole_table_have_no_row() -> None:
    batch = Batch.of_rows([captured(1, op, NOTHING) for op in "TBE"])
    assert [(one.op, one.values, one.changed) for one in batch.changes] == [(op, {}, frozenset()) for op in "TBE"]


def test_rows_of_a_table_that_is_not_captured_are_no_changes() -> None:
    batch = Batch.of_rows([row(1, "a")], poller_name="orders")
    looks: list[Callable[[], object]] = [lambda: batch.changes, lambda: batch.latest("id")]
    for look in looks:
        with pytest.raises(ConfigError, match=r"orders: batch\.changes") as refused:
            look()
        assert (refused.value.key, "capture = true" in str(refused.value)) == ("capture", True)


def test_an_operation_that_is_not_known_is_an_error() -> None:
    with pytest.raises(ValueError, match="_op"):
        _ = Batch.of_rows([captured(1, "?", row(1, "a"))]).changes


def numbers(changes: tuple[RowChange, ...]) -> list[int]:
    return [one.row["_change"] for one in changes]


def test_the_newest_change_of_each_row_remains_in_order() -> None:
    story = [
        captured(1, "I", row(1, "a")),
        captured(2, "I", row(2, "a")),
        captured(3, "D", row(1, "a"), row(1, "a")),
        captured(4, "U", row(2, "b"), row(2, "a")),
        captured(5, "I", row(1, "z")),
        captured(6, "D", row(2, "b"), row(2, "b")),
    ]
    newest = Batch.of_rows(story).latest("id")
    assert [(one.op, one.values) for one in newest] == [("I", row(1, "z")), ("D", row(2, "b"))]


def test_only_what_concerns_all_rows_remains_before_a_truncate() -> None:
    story = [
        captured(1, "B", NOTHING),
        captured(2, "R", row(1, "a")),
        captured(3, "T", NOTHING),
        captured(4, "I", row(1, "b")),
        captured(5, "E", NOTHING),
        captured(6, "U", row(1, "c"), row(1, "b")),
    ]
    assert numbers(Batch.of_rows(story).latest("id")) == [1, 3, 5, 6]


def test_a_key_may_have_several_columns_and_bytes() -> None:
    story = [captured(at, "I", {"a": key[0], "b": bytearray(key[1])}) for at, key in enumerate([(1, b"x"), (1, b"y")])]
    assert numbers(Batch.of_rows([*story, captured(9, "U", {"a": 1, "b": b"x"})]).latest("a", "b")) == [1, 9]


@pytest.mark.parametrize("names", [(), ("other",)])
def test_a_key_is_of_columns_that_rows_have(names: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"batch.latest\(\"id\"\)"):
        Batch.of_rows(ROWS).latest(*names)
