"""Counter-examples to the first text of the rules of failing rows (docs/failures.md), in the few steps that matter."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from poller.model import aside, backoff, handover, judging, transitions
from poller.model.aside import Limits, RowFacts
from poller.model.cursor import Cursor
from poller.model.document import DeliveryError, OperatorChange, State
from poller.model.handover import Mode, Plan
from poller.model.put import Landing, Put, written
from poller.model.verdict import Report

NOW = datetime(2026, 4, 7, 2, 0, tzinfo=UTC)
ERROR = DeliveryError(type="ValueError", at=NOW)
LIMITS = Limits(max_attempts=2, max_aside=2, max_quarantined=3)


def row(stamp: int, key: str = "", pk: int | None = None) -> RowFacts:
    pk = stamp if pk is None else pk
    cursor = Cursor(kind="integer+pk", value=str(stamp), tiebreaker={"id": pk})
    return RowFacts(id=f"{pk}@{stamp}", pk=str(pk), key=key or f"k{pk}", cursor=cursor)


def planned(
    state: State,
    rows: Sequence[RowFacts],
    *,
    mode: Mode = "quarantine",
    limits: Limits = LIMITS,
    entering: bool = False,
    asks: bool = True,
) -> Plan:
    def reach(cursor: Cursor) -> int:
        if not asks and cursor not in [one.cursor for one in rows]:
            return 0  # as of a source that cannot say where a row stood that has gone
        return sum(1 for one in rows if int(one.cursor.value) <= int(cursor.value))

    places = {cursor.place: reach(cursor) for cursor in handover.concerned(state, rows)}
    return handover.plan(state, rows, places, mode=mode, limits=limits, entering=entering)


def after(
    state: State,
    rows: Sequence[RowFacts],
    report: Report | None = None,
    *,
    mode: Mode = "quarantine",
    limits: Limits = LIMITS,
    meanwhile: bool = False,
) -> State:
    """The document after a tenure's one call of these rows; `meanwhile`: somebody resumed while it ran."""
    chosen = planned(state, rows, mode=mode, limits=limits, entering=True)
    state = handover.entered(transitions.acquire(state, owner_id="p", ttl=60, now=NOW), chosen, None)
    verdict = judging.judge(state, chosen, report or Report(), mode=mode, limits=limits, jitter=1.0)
    if meanwhile:
        state = transitions.resume(state, change=OperatorChange(id="r", kind="resume", by="ann"), now=NOW)
    landing = Landing(chosen, verdict, "b", ERROR if verdict.failed else None)
    return written(state, Put([landing], release=True), limits=limits, columns=(), now=NOW)


def fresh() -> State:
    return State(poller_name="orders")


RAISED = Report("raised")


def test_a_batch_of_one_is_the_row_alone_from_its_first_failure() -> None:
    once = after(fresh(), [row(1)], RAISED, mode="halt")
    assert (once.delivery.failures, once.delivery.attempts, once.control.halted) == (1, 0, False)
    assert after(once, [row(1)], RAISED, mode="halt").control.halted


def test_a_resume_while_the_call_runs_counts() -> None:
    once = after(fresh(), [row(1)], RAISED, mode="halt")
    resumed = after(once, [row(1)], RAISED, mode="halt", meanwhile=True)
    assert (resumed.delivery.failures, resumed.control.halted) == (1, False)


def test_a_row_named_beside_others_has_not_failed_alone() -> None:
    rows = [row(stamp) for stamp in range(1, 5)]
    state = after(after(fresh(), rows, RAISED, mode="halt"), rows, RAISED, mode="halt")
    state = after(state, rows, Report(failed=("2@2",)), mode="halt")
    assert (state.checkpoint.cursor, state.delivery.failures) == (row(1).cursor, 0)
    state = after(state, rows[1:], RAISED, mode="halt")
    assert (state.delivery.failures, state.control.halted) == (1, False)
    assert after(state, rows[1:], RAISED, mode="halt").control.halted


def test_a_rejected_row_in_mid_batch_is_no_head_until_it_is_passed() -> None:
    """An earlier row of its key that is set aside afterwards would wait behind it for a person, for ever."""
    first, second = row(1, "k"), row(2, "k")
    state = after(fresh(), [first, second], Report("rejected", rejected=(second.id,)))
    assert state.checkpoint.cursor is None
    assert [one.at for one in state.quarantine] == [None]
    state = after(state, [first, second], RAISED)
    assert [one.at for one in (*state.aside, *state.quarantine)] == [1, None]
    due = aside.due(state, NOW + timedelta(minutes=9), limits=LIMITS)
    assert due is not None
    assert due.id == first.id
    state = after(state, [second, row(3)])
    assert [one.at for one in state.quarantine] == [2]


def test_a_row_listed_ahead_that_has_gone_holds_nothing_up() -> None:
    """With the list full, the rows behind it could not follow, and it would never be passed."""
    state = fresh()
    for stamp in (1, 2, 3):
        state = aside.add(state, row(stamp, "k"), now=NOW)
    chosen = planned(state, [row(5, "k")])
    assert [one.id for one in chosen.rows] == ["5@5"]
    state = after(state, [row(5, "k")])
    assert [one.at for one in state.aside] == [1, 2, 3]
    assert state.checkpoint.position == 4


def test_a_row_that_went_is_behind_those_listed_before_it() -> None:
    """Also where the source cannot say where it stood: else it would be tried before the earlier rows of its key."""
    state = fresh()
    for stamp in (1, 2, 3):
        state = aside.add(state, row(stamp, "k"), now=NOW)
    chosen = planned(state, [row(1, "k"), row(2, "k"), row(9)], asks=False)
    assert chosen.gone == (("3@3", 2),)


def test_a_newer_version_makes_no_room_beyond_the_limit() -> None:
    """Else each report that names many rows could be followed by another."""
    rows = [row(stamp) for stamp in range(1, 9)]
    state = after(fresh(), rows, Report(failed=tuple(one.id for one in rows)))
    assert len(state.aside) == 8 > LIMITS.max_quarantined
    assert len(planned(state, [row(9, pk=1), row(10), row(11)]).rows) == 1


def test_a_row_that_failed_alone_has_room_before_its_followers() -> None:
    state = after(fresh(), [row(1, "k")], RAISED)
    state = after(state, [row(2, "k")])
    state = after(state, [row(3, "other"), row(4, "k"), row(5, "k")][:1], RAISED)
    assert [one.id for one in state.aside] == ["1@1", "2@2", "3@3"]
    one = Limits(max_attempts=2, max_aside=2, max_quarantined=2)
    state = after(fresh(), [row(1, "k")], RAISED, limits=one)
    state = after(state, [row(3), row(4, "k")], RAISED, limits=one)
    assert [each.id for each in state.aside] == ["1@1", "3@3"]
    assert state.checkpoint.cursor == row(3).cursor


def test_an_added_row_takes_the_place_of_its_older_version() -> None:
    state = after(fresh(), [row(1, pk=7)], RAISED)
    assert [one.id for one in aside.add(state, row(2, pk=7), now=NOW).aside] == ["7@2"]


def test_retry_later_holds_the_whole_poller_and_counts_nothing() -> None:
    state = after(fresh(), [row(1), row(2)], Report("later", seconds=30.0))
    assert backoff.waits_until(state, NOW, LIMITS.backoff) == NOW + timedelta(seconds=30)
    assert (state.delivery.attempts, state.delivery.failures, state.aside) == (0, 0, ())


def test_the_write_that_delivers_a_named_row_clears_its_error() -> None:
    state = after(fresh(), [row(1), row(2)], Report(failed=("2@2",)))
    assert state.delivery.last_error == ERROR
    assert aside.remove(state, "2@2").delivery.last_error is None


def test_the_error_of_a_row_that_still_blocks_is_kept() -> None:
    state = after(fresh(), [row(1), row(2)], Report(failed=("2@2",)))
    state = after(state, [row(3)], RAISED, mode="block")
    assert aside.remove(state, "2@2").delivery.last_error == ERROR


def test_a_killed_row_alone_is_known_from_a_killed_piece() -> None:
    rows = [row(stamp) for stamp in range(1, 5)]
    state = after(after(fresh(), rows, RAISED), rows, RAISED)
    killed: list[tuple[list[str], bool]] = []
    for _ in range(3):  # each owner is killed in its call
        chosen = planned(state, rows, entering=True)
        killed.append(([one.id for one in chosen.rows], chosen.killed))
        state = handover.entered(transitions.acquire(state, owner_id="p", ttl=60, now=NOW), chosen, None)
    assert killed == [(["1@1", "2@2"], False), (["1@1"], False), (["1@1"], True)]


def test_no_call_gets_more_rows_than_a_report_may_list() -> None:
    limits = Limits(max_quarantined=2000)
    rows = [row(stamp) for stamp in range(1, 1202)]
    assert len(planned(fresh(), rows, limits=limits).rows) == handover.MOST_LISTED
    state = after(fresh(), rows[:1], RAISED, limits=limits)
    assert len(planned(state, rows[1:], limits=limits).rows) == handover.MOST_LISTED - 1
    assert len(planned(state, rows[1:], mode="block", limits=limits).rows) == 1200
