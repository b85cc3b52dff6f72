"""Which exit code stands for several pollers."""

from __future__ import annotations

from typing import Any, get_args

from hypothesis import given
from hypothesis import strategies as st

from poller.tick import Outcome
from poller.tick.result import SUCCESSES
from poller.worker import Ended
from poller_cli import exits


@given(st.lists(st.integers(0, 4)))
def test_the_first_of_4_2_1_3_0_that_occurred(codes: list[int]) -> None:
    code = exits.worst(codes)
    order = [4, 2, 1, 3, 0]
    assert code in ([*codes] or [0])
    assert all(order.index(code) <= order.index(other) for other in codes)


def test_a_code_outside_the_table_counts_as_a_failure() -> None:
    assert exits.worst([0, 77]) == 1
    assert exits.worst([3, -9]) == 1


def test_every_outcome_has_its_code() -> None:
    nobody: Any = None
    codes = {outcome: exits.of_end(Ended(poller=nobody, outcome=outcome)) for outcome in get_args(Outcome)}
    assert {outcome for outcome, code in codes.items() if code == 0} == SUCCESSES
    assert codes["paused"] == 3
    assert {codes[o] for o in get_args(Outcome) if o not in SUCCESSES and o != "paused"} == {1}
