"""A cursor of a row is made without checks, and differs in nothing from one that was checked."""

from __future__ import annotations

import copy
import pickle

import pytest
from pydantic import ValidationError

from poller.model.cursor import Cursor

CHECKED = Cursor(kind="timestamp+pk", value="2026-01-05T10:00:00.000000Z", tiebreaker={"region": "eu", "id": 7})


def trusted() -> Cursor:
    return Cursor.trusted("timestamp+pk", "2026-01-05T10:00:00.000000Z", {"region": "eu", "id": 7})


def test_it_is_equal_and_written_alike() -> None:
    made = trusted()
    assert made == CHECKED
    assert made.model_dump() == CHECKED.model_dump()
    assert made.model_dump(exclude_unset=True) == CHECKED.model_dump(exclude_unset=True)
    assert made.model_dump_json() == CHECKED.model_dump_json()
    assert (made.model_fields_set, made.model_extra) == (CHECKED.model_fields_set, CHECKED.model_extra)
    assert (str(made), repr(made), made.size()) == (str(CHECKED), repr(CHECKED), CHECKED.size())


def test_it_is_copied_pickled_and_read_alike() -> None:
    made = trusted()
    assert pickle.loads(pickle.dumps(made)) == copy.copy(made) == copy.deepcopy(made) == CHECKED
    assert made.model_copy(update={"value": "x"}) == CHECKED.model_copy(update={"value": "x"})
    assert Cursor.model_validate_json(made.model_dump_json()) == CHECKED


def test_it_is_as_frozen() -> None:
    made = trusted()
    with pytest.raises(ValidationError):
        made.value = "x"  # type: ignore[misc]
    assert made == CHECKED


def test_two_share_nothing_that_changes() -> None:
    one, other = trusted(), trusted()
    one.model_fields_set.add("x")
    assert other == CHECKED
    assert other.model_fields_set == CHECKED.model_fields_set
