"""How far a table may be pruned, by the state documents of its readers."""

from __future__ import annotations

import pytest

from poller.model.cursor import Cursor
from poller.model.document import Checkpoint, State
from poller.model.pruning import TableReader, limit_of, reader_of


def state(value: str | None, *, key: bool = True) -> State:
    cursor = None
    if value is not None:
        cursor = Cursor(kind="integer+pk", value=value, tiebreaker={"id": int(value)} if key else None)
    return State(poller_name="orders", checkpoint=Checkpoint(cursor=cursor))


@pytest.mark.parametrize(
    ("value", "key", "unique", "begins", "done"),
    [
        ("7", True, True, None, 7),
        ("7", True, False, None, 6),
        ("7", False, True, None, 6),
        (None, True, True, None, None),
        (None, True, True, "5", 4),
    ],
)
def test_rows_are_done_up_to_the_checkpoint(
    value: str | None, key: bool, unique: bool, begins: str | None, done: int | None
) -> None:
    assert reader_of("shop/orders", state(value, key=key), unique=unique, begins=begins).done == done


def test_the_limit_is_the_reader_that_is_the_farthest_behind() -> None:
    ahead, behind, first = TableReader("a", 9), TableReader("b", 0), TableReader("c", None)
    assert limit_of([ahead, behind]) == behind
    assert limit_of([ahead, first, behind]) == first
