"""The history in the state document: five minutes an entry, at most sixty, and no row ever depends on it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from poller.model.document import State, decode, encode, size
from poller.model.history import SLOT, noted
from poller.model.history_entry import LONGEST_OWNER, MOST_ENTRIES
from poller.model.limits import HELD_EVERYWHERE
from tests.unit.model.example import example

NOW = datetime(2026, 4, 7, 2, 3, 4, tzinfo=UTC)


def after(state: State, *, now: datetime = NOW, rows: int = 10, seconds: float = 0.5, lag: float | None = 1.0) -> State:
    last = None if lag is None else now - timedelta(seconds=lag)
    return noted(state, rows=rows, batches=1, handler_seconds=seconds, last=last, now=now)


def test_commits_of_five_minutes_are_one_entry() -> None:
    state = after(after(example(), lag=7), now=NOW + timedelta(seconds=90), rows=5, seconds=0.25, lag=2)
    assert [entry.model_dump(mode="json") for entry in state.history] == [
        {
            "at": "2026-04-07T02:00:00.000000Z",
            "rows": 15,
            "batches": 2,
            "handler_seconds": 0.75,
            "lag_seconds": 7.0,
            "token": 42,
            "owner": "funcapp/instance-abc123",
        }
    ]


def test_the_sixty_newest_entries_are_kept_oldest_first() -> None:
    state = example()
    for number in range(MOST_ENTRIES + 3):
        state = after(state, now=NOW + number * SLOT, rows=number)
    assert [entry.rows for entry in state.history] == list(range(3, MOST_ENTRIES + 3))


def test_a_clock_that_went_back_makes_no_entry_in_the_past() -> None:
    state = after(after(example()), now=NOW - timedelta(hours=2), rows=1)
    assert [entry.rows for entry in state.history] == [11]


def test_a_cursor_that_is_no_time_has_no_lag_and_the_future_none() -> None:
    assert after(example(), lag=None).history[-1].lag_seconds is None
    assert after(example(), lag=-60).history[-1].lag_seconds == 0.0


def test_each_entry_is_a_line_and_comes_back_as_it_was() -> None:
    state = after(after(example()), now=NOW + SLOT)
    body = encode(state)
    assert sum(line.lstrip().startswith(b'{"at"') for line in body.splitlines()) == 2
    assert decode(body, location="document") == state
    assert "history" not in json.loads(encode(example()))


@pytest.mark.parametrize(
    "damaged", [7, "x", {"at": 1}, [None], [{"at": "?"}], [{"at": "2026-04-07T02:00:00Z", "rows": -1}], None]
)
def test_a_history_that_cannot_be_read_stops_no_poller(damaged: Any) -> None:
    data = json.loads(encode(after(example()))) | {"history": damaged}
    assert decode(json.dumps(data).encode(), location="document") == example()


def test_what_others_add_to_an_entry_survives() -> None:
    data = json.loads(encode(after(example())))
    data["history"][0]["x_other"] = [1, None]
    state = after(decode(json.dumps(data).encode(), location="document"), rows=1)
    assert json.loads(encode(state))["history"][0]["x_other"] == [1, None]


def test_it_is_bounded_and_left_out_where_the_document_is_full() -> None:
    owner = example().lease.model_copy(update={"owner_id": "o" * 1000})
    state = example().model_copy(update={"lease": owner})
    for number in range(MOST_ENTRIES):
        state = after(state, now=NOW + number * SLOT)
    assert len(state.history[0].owner) == LONGEST_OWNER
    assert len(encode(state)) - size(state) < 20_000
    metadata = {"x": "y" * (HELD_EVERYWHERE - size(state) - 100)}
    full = state.model_copy(update={"checkpoint": state.checkpoint.model_copy(update={"metadata": metadata})})
    assert size(full) <= len(encode(full)) <= HELD_EVERYWHERE
    assert "history" not in json.loads(encode(full))
