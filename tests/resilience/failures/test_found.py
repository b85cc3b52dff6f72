"""Bugs that the schedules of failing rows found, each in the schedule that found it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.resilience.failures.plan import draw
from tests.resilience.failures.schedule import play
from tests.resilience.failures.versions import Kind


@pytest.mark.parametrize("seed", [4036, 4107, 4355])
def test_what_lanes_did_does_not_come_again_after_an_outage(seed: int) -> None:
    """The database did not answer while the last write was made, which asked it what lanes had done beyond the page."""
    plan = replace(
        draw(seed),
        lanes=3,
        mode="quarantine",
        operators=0,
        source_faults=0.2,
        rows=20,
        deletes=4,
        changes=8,
        asks=True,
        crashes=0,
        page_size=4,
    )
    assert play(plan).violation is None


def test_a_call_alone_keeps_what_lanes_did_above_it() -> None:
    """A row fails in a lane, then alone; a later row that another lane had done came again."""
    assert play(draw(645)).violation is None


def test_a_row_whose_record_is_not_taken_is_set_aside_next() -> None:
    """The store gave no usable answer to that write until it was too late, and the row is never passed without it."""
    kinds: tuple[Kind, ...] = ("ok", "named", "bad")
    plan = replace(draw(26), mode="quarantine", faults=0.35, outages=1, max_attempts=1, kinds=kinds, operators=0)
    report = play(plan)
    assert report.violation is None
    assert report.seen["held up without a record"]
