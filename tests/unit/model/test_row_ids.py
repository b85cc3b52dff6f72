"""Ids of keys: hashes of the database's text of their values."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poller.model.cursor import KeyValue
from poller.model.row_ids import id_of_values

Values = Sequence[KeyValue | None]
VALUES = st.lists(st.none() | st.text() | st.integers(), max_size=4)


def id_of(values: Values) -> str:
    return id_of_values({f"c{number}": value for number, value in enumerate(values)})


def texts(values: Values) -> list[str | None]:
    return [None if value is None else str(value) for value in values]


@given(VALUES, VALUES)
def test_ids_are_equal_where_the_texts_are(one: Values, other: Values) -> None:
    assert (id_of(one) == id_of(other)) == (texts(one) == texts(other))


@given(VALUES)
def test_an_id_is_16_hexadecimal_digits_whatever_the_names(values: Values) -> None:
    renamed = {f"Name {number}": value for number, value in enumerate(values)}
    assert re.fullmatch("[0-9a-f]{16}", id_of(values))
    assert id_of_values(renamed) == id_of(values)


@given(st.text(), st.text(min_size=1))
def test_where_one_value_ends_counts(first: str, second: str) -> None:
    assert id_of([first, second]) != id_of([first + second, ""])
    assert id_of([first, second]) != id_of([first + second])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["a", "bc"], ["ab", "c"]),
        ([None], [""]),
        ([None], ["null"]),
        ([None], []),
        (["a", None], [None, "a"]),
        (['a", "b'], ["a", "b"]),
        (["a "], ["a"]),
        (["A"], ["a"]),
        (["\ud800"], ["?"]),
    ],
)
def test_other_values_have_another_id(one: Values, other: Values) -> None:
    assert id_of(one) != id_of(other)


def test_a_number_and_its_text_are_the_same() -> None:
    assert id_of([1]) == id_of(["1"])


def test_an_id_never_changes_from_version_to_version() -> None:
    assert id_of([17, None, "é"]) == "e2e4494373899bbc"
