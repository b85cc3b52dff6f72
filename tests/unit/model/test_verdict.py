"""A verdict is a value: it can be compared and printed, and holds all that the PUT after a call needs."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime

import pytest

from poller.model import aside, handover, judging, put, transitions, verdict
from poller.model.aside import Limits, RowFacts
from poller.model.backoff import Backoff
from poller.model.changes import to_pause
from poller.model.cursor import Cursor
from poller.model.document import DeliveryError, OperatorChange, State
from poller.model.handover import Mode, Plan
from poller.model.put import Above, Landing, Put
from poller.model.verdict import Report, Verdict

NOW = datetime(2026, 4, 7, 1, 23, 45, tzinfo=UTC)
LIMITS = Limits(max_attempts=3, max_aside=10, max_quarantined=100, backoff=Backoff(1.0, 300.0))
REPORTS = {
    "all done": Report(),
    "raised": Report("raised"),
    "one failed": Report(failed=("2",)),
    "one rejected": Report("rejected", rejected=("2",)),
    "later": Report("later", seconds=30.0),
    "a row that was not handed over": Report(failed=("99",)),
}


def row(number: int) -> RowFacts:
    cursor = Cursor(kind="integer+pk", value=str(number), tiebreaker={"id": number})
    return RowFacts(str(number), f"pk{number}", f"key{number}", cursor)


ROWS = (row(1), row(2), row(3))
PLAN = Plan(rows=ROWS, passes=ROWS)


def held() -> State:
    return transitions.acquire(State(poller_name="orders"), owner_id="vm1", ttl=60, now=NOW)


def judged(report: Report, mode: Mode, *, lane: bool = False, jitter: float = 0.25) -> Verdict:
    return judging.judge(held(), PLAN, report, mode=mode, limits=LIMITS, jitter=jitter, lane=lane)


def written(state: State, found: Verdict) -> State:
    landing = Landing(PLAN, found, "b", DeliveryError(type="ValueError") if found.failed else None)
    return put.written(state, Put([landing]), limits=LIMITS, columns=(), now=NOW)


@pytest.mark.parametrize("lane", [False, True], ids=["at the checkpoint", "in a lane"])
@pytest.mark.parametrize("mode", ["block", "halt", "quarantine"])
@pytest.mark.parametrize("report", REPORTS)
def test_the_same_call_gives_an_equal_verdict(report: str, mode: Mode, lane: bool) -> None:
    first, second = judged(REPORTS[report], mode, lane=lane), judged(REPORTS[report], mode, lane=lane)
    assert first == second
    assert repr(first) == repr(second)
    assert not [one.name for one in fields(first) if callable(getattr(first, one.name))]
    assert first != judged(REPORTS[report], mode, lane=lane, jitter=0.75)


@pytest.mark.parametrize("mode", ["block", "halt", "quarantine"])
@pytest.mark.parametrize("report", REPORTS)
def test_a_write_made_again_gives_the_same_delays_and_lists(report: str, mode: Mode) -> None:
    """An operator paused it while the first try was on its way."""
    found = judged(REPORTS[report], mode)
    record = OperatorChange(id="c", kind="pause", by="ada", at=NOW)
    once, again = written(held(), found), written(to_pause(held(), record, NOW), found)
    assert (once.delivery.retry_at, once.aside, once.quarantine) == (
        again.delivery.retry_at,
        again.aside,
        again.quarantine,
    )
    assert once.checkpoint == again.checkpoint


@pytest.mark.parametrize("mode", ["block", "halt", "quarantine"])
@pytest.mark.parametrize("report", REPORTS)
def test_a_lane_leaves_rows_behind_and_moves_no_checkpoint(report: str, mode: Mode) -> None:
    found = judged(REPORTS[report], mode, lane=True)
    ends = Put(above=Above([None]), failed=[Landing(PLAN, found, "b")])
    after = put.written(held(), ends, limits=LIMITS, columns=(), now=NOW)
    assert after.checkpoint.cursor is None
    assert after.checkpoint.position == 0
    assert {one.id for one in (*after.aside, *after.quarantine)} == {one.id for one in found.listed}
    assert all(one.at is None for one in (*after.aside, *after.quarantine)), "the checkpoint has not passed them"


@pytest.mark.parametrize("lane", [False, True], ids=["at the checkpoint", "in a lane"])
def test_a_row_without_a_record_stops_what_is_passed(lane: bool) -> None:
    report = Report(failed=("1", "3"))
    found = judging.judge(held(), PLAN, report, mode="quarantine", limits=LIMITS, jitter=0.0, lane=lane, unrecorded="3")
    assert (found.passes, found.delivered, [one.id for one in found.listed]) == (2, 1, ["1"])
    assert found.failed
    assert found.releases


@pytest.mark.parametrize(
    ("report", "lists"),
    [
        (Report(), ([], [])),
        (Report("raised"), (["2"], [])),
        (Report("later", seconds=5.0), (["2"], [])),
        (Report("rejected", rejected=("2",)), ([], ["2"])),
    ],
    ids=["done", "raised", "later", "rejected"],
)
def test_a_try_of_a_row_aside_is_a_verdict_too(report: Report, lists: tuple[list[str], list[str]]) -> None:
    state = aside.trying(aside.set_aside(held(), row(2), at=2, now=NOW), "2")
    found = judging.tried("2", report, jitter=0.5)
    assert found == judging.tried("2", report, jitter=0.5)
    after = verdict.apply(state, handover.Plan(), found, limits=LIMITS, now=NOW)
    assert ([one.id for one in after.aside], [one.id for one in after.quarantine]) == lists
    assert after.retrying is None


def test_batches_that_share_a_write_are_passed_in_order() -> None:
    first, second = (row(1), row(2)), (row(3),)
    landings = [
        Landing(Plan(rows=rows, passes=rows), Verdict(passes=len(rows), delivered=len(rows)), batch_id)
        for rows, batch_id in ((first, "a"), (second, "b"))
    ]
    together = Put(landings, release=True, drained=True)
    assert (together.to, together.gives_back, together.batch_id) == (row(3).cursor, True, "b")
    after = put.written(held(), together, limits=LIMITS, columns=(), now=NOW)
    assert (after.checkpoint.cursor, after.checkpoint.position) == (row(3).cursor, 3)
    assert (after.lease.owner_id, after.checkpoint.last_successful_batch_id) == (None, "b")
    alone = put.written(held(), Put(landings[:1]), limits=LIMITS, columns=(), now=NOW)
    assert (alone.lease.owner_id, alone.checkpoint.cursor) == ("vm1", row(2).cursor)


def test_an_error_without_a_time_gets_that_of_the_write() -> None:
    after = written(held(), judged(Report("raised"), "block"))
    assert after.delivery.last_error is not None
    assert after.delivery.last_error.at == NOW
