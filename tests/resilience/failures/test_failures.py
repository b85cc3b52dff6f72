"""Seeded schedules with rows that fail, in which no law may be broken, neither of the lease nor of failing rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace

import pytest

from tests.resilience.failures.people import DEEDS
from tests.resilience.failures.plan import FailurePlan, draw
from tests.resilience.failures.schedule import play
from tests.resilience.simulation.plan import VARIANTS, varied
from tests.resilience.simulation.schedule import Report

pytestmark = pytest.mark.timeout(400)
"""Many schedules, on a machine with other work."""

SCHEDULES = 5_000
"""Of each variant (`VARIANTS`)."""
TELLING = 75
"""How many the ordinary suite plays; in them everything that they are to prove happens more than once or twice."""
SHARE = 500
AT_ONCE = 50
"""So many take a few seconds."""
REACHED = (
    *("row_set_aside", "row_quarantined", "row_delivered_later", "handler_failed", "batch_committed"),
    *("backing_off", "blocked", "halted", "delivered", "idle", "paused"),
    *("lease_taken_over", "lease_lost", "write_resent", "write_resolved"),
    *("kind bad", "kind named", "kind crash", "kind later", "kind reject", "kind rejects"),
    *(
        "several batches by one write",
        "a lane's batch",
        "several lanes by one write",
        "done above the checkpoint",
        "waited in a lane, and was read again",
        "waited in a lane, and left the table",
        "searched",
        "named",
        "crash",
        "stop",
        "down raised",
        "down named",
        "down later",
        "flap",
    ),
    *(f"operator {kind}" for kind in ("pause", "resume", "reset", "break")),
    *(f"person {deed}" for deed in DEEDS),
)


def held(report: Report) -> None:
    """Assert that no law was broken; else say how to replay the schedule."""
    plan, drawn = report.plan, draw(report.plan.seed)
    changes = [
        f"{field.name}={getattr(plan, field.name)}"
        for field in fields(FailurePlan)
        if getattr(plan, field.name) != getattr(drawn, field.name)
    ]
    command = " ".join(["python -m tests.resilience.failures", str(plan.seed), *changes])
    assert report.violation is None, f"{report.violation}\nReplay it with: {command}"


@pytest.mark.guarantee("Delivery", "A row that waits is neither lost nor doubled, and only a person discards it")
@pytest.mark.guarantee(
    "Delivery",
    "Later rows of an ordering key are not handled before the row that waits; other keys go on while there is room",
)
@pytest.mark.guarantee(
    "Delivery",
    "A row that fails, or kills its process, is found and never skipped: the checkpoint passes only rows that are "
    "handled, or listed as set aside or quarantined with their record written before ([failures.md](../failures.md))",
)
@pytest.mark.guarantee(
    "Delivery",
    "A row that fails is passed only when the document lists it and its record stands; no other row is held up by it"
    " for good, none is quarantined without strikes, `Reject` or a person, and after outages and crashes every good "
    "row is delivered",
)
def test_schedules_break_no_law_and_reach_what_they_prove() -> None:
    """A law that is never put to the test proves nothing: each of these must have happened, and not just once."""
    seen: Counter[str] = Counter()
    plans = [draw(seed) for seed in range(TELLING)]
    for plan in (*plans, *(replace(plan, uncommitted=4, batch_size=1, latency=0.05) for plan in plans[:20])):
        report = play(plan)
        held(report)
        seen += report.seen
    assert {name: seen[name] for name in REACHED if seen[name] < 3} == {}


def test_a_row_that_kills_is_passed_while_another_is_tried() -> None:
    """With one call a tick, tries of a row aside and the batch take turns: the failure of a row that killed its process
    must not be forgotten in between."""
    held(play(varied(draw(1235), "5 lanes")))


def test_a_page_of_followers_has_its_turn_too() -> None:
    """With one call a tick, two rows aside whose tries fail for ever must not hold up a batch whose rows all wait for
    one of them: behind it stand rows that none of them holds up."""
    held(play(varied(draw(2699), "5 lanes")))


def test_rows_that_kill_do_not_hold_up_one_that_would_work() -> None:
    """Two rows that kill each process that tries them are always due when the next owner comes: the one that has been
    due for longest is tried, be it younger than they are."""
    held(play(varied(draw(2601), "2 lanes")))


def test_a_row_that_left_after_its_page_was_read_takes_up_room() -> None:
    """The law of the row that failed alone judges by what the page had, not by what the table has since."""
    held(play(varied(draw(3821), "5 lanes")))


def test_rows_behind_one_without_a_record_come_again() -> None:
    """By the law of rows that were reported done: the row is handed over alone next, and they come behind it."""
    held(play(varied(draw(4840), "2 lanes")))


def test_a_record_refused_and_then_too_late_is_missing() -> None:
    """By the law of the row that failed alone: its process had no time to write the record on the other one."""
    held(play(varied(draw(4737), "each")))


def test_nobody_waits_for_the_lock_of_one_who_was_put_aside() -> None:
    """The thread that says so may be put aside in between: it must not have the lock then."""
    held(play(varied(draw(420), "grouped")))


@pytest.mark.soak
@pytest.mark.parametrize("first", range(TELLING, SHARE, AT_ONCE))
def test_no_law_is_broken(first: int) -> None:
    for seed in range(first, min(first + AT_ONCE, SHARE)):
        held(play(draw(seed)))


@pytest.mark.prove
@pytest.mark.timeout(900)
@pytest.mark.parametrize("first", range(0, SCHEDULES, 500))
@pytest.mark.parametrize("variant", VARIANTS)
def test_no_law_is_broken_in_any_schedule(variant: str, first: int) -> None:
    for seed in range(first, first + 500):
        held(play(varied(draw(seed), variant)))


def test_a_seed_repeats_to_the_letter() -> None:
    for seed in (3, 7, 13):
        first, second = (play(draw(seed), logged=True) for _ in range(2))
        assert first.log == second.log
        assert first.log
