"""From a driver's records to rows: by code that is compiled for the columns, whatever these are called."""

from __future__ import annotations

import pytest

from poller.sources.reading.rows import rows_of

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


def test_no_records_make_no_rows() -> None:
    assert rows_of([], ("id",)) == []
