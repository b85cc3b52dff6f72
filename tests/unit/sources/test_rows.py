"""From a driver's records to rows: by code that is compiled for the columns, whatever these are called."""

from __future__ import annotations

from typing import Any

import pytest

from poller.sources.rows import JsonValues, LazyCursors, LazyRows, ReadPlan, Records, changeable

NAMES = (
    "id",
    "records",
    "v0",
    "_",
    "class",
    "",
    'a"] = 1; b["',
    "a': __import__('os').abort(), 'b",
    "{records}\n# \\",
    "grün \U0001f600 \ud800",
    "ID",
)

NUMBER, LISTS = 23, 1007
"""Codes of a driver's types."""


def rows_of(records: Records, names: tuple[str, ...], *codes: int) -> list[dict[str, Any]]:
    made: list[Any] = list(lazy_rows(records, names, *codes))
    return made


def lazy_rows(records: Records, names: tuple[str, ...], *codes: int) -> LazyRows:
    described = [(name, code) for name, code in zip(names, codes, strict=False)]
    return LazyRows(records, names, changeable(records, len(names), described, {NUMBER}), JsonValues())


def test_a_columns_name_is_never_read_as_code() -> None:
    records = [tuple(range(len(NAMES))), tuple(range(10, 10 + len(NAMES)))]
    assert rows_of(records, NAMES) == [dict(zip(NAMES, record, strict=True)) for record in records]


@pytest.mark.parametrize("extra", [0, 1, 3])
def test_columns_after_the_users_are_left_out(extra: int) -> None:
    records = [(1, "a", *("helper",) * extra), (2, "b", *("helper",) * extra)]
    assert rows_of(records, ("id", "name")) == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]


def test_the_same_columns_in_records_of_another_width() -> None:
    assert rows_of([(1, 2)], ("id",)) == rows_of([(1, 2, 3)], ("id",)) == rows_of([[1]], ("id",)) == [{"id": 1}]


def test_a_record_of_another_width_is_never_cut() -> None:
    with pytest.raises(ValueError, match="unpack"):
        rows_of([(1, 2), (1, 2, 3)], ("id", "name"))


def test_as_many_columns_as_a_table_can_have() -> None:
    names = tuple(f"column {i}" for i in range(4_096))
    (row,) = rows_of([tuple(range(4_096))], names)
    assert list(row) == list(names)
    assert list(row.values()) == list(range(4_096))


def test_rows_are_plain_dicts_of_their_own() -> None:
    one, other = rows_of([(1, []), (1, [])], ("id", "tags"))
    assert type(one) is dict
    one["id"] = 2
    one["tags"].append("x")
    assert other == {"id": 1, "tags": []}


@pytest.mark.parametrize("codes", [(), (NUMBER, LISTS), (NUMBER, NUMBER)])
def test_who_changes_a_row_changes_no_other(codes: tuple[int, ...]) -> None:
    """Nor the row as it is made again; whatever the driver says of a column's type."""
    rows = lazy_rows([(1, [{"a": []}]), (2, None), (3, ([],))], ("id", "tags"), *codes)
    for made in (*rows, *rows[:2], rows[0], rows[-1]):
        for part in made["tags"] or ():
            part.clear()
        made.clear()
    as_read = [{"id": 1, "tags": [{"a": []}]}, {"id": 2, "tags": None}, {"id": 3, "tags": ([],)}]
    assert rows == as_read
    assert rows[1:] == as_read[1:]
    assert [rows[at] for at in (0, 1, -1)] == as_read


def test_no_records_make_no_rows() -> None:
    assert rows_of([], ("id",)) == []


def test_the_longest_cursor_is_no_shorter_than_any() -> None:
    """By it the room of a document is judged, without a cursor for each row."""
    records = [(-5, 'a"\n', "2026-01-05"), (12_345, "ü" * 3, "2026-01-05T10:00:00"), (7, "plain", "2026")]
    cursors = LazyCursors(records, ReadPlan("timestamp+pk", "t", 2, [("id", 0), ("name", 1)], width=3))
    assert cursors.longest().size() >= max(cursor.size() for cursor in cursors)
    assert cursors[:1].longest() == cursors[0]
