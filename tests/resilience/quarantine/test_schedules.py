"""No schedule breaks a law, and together they reach what they are to prove."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.resilience.quarantine.plan import draw
from tests.resilience.quarantine.schedule import many, play

pytestmark = pytest.mark.timeout(400)
"""Many schedules, on a machine with other work."""

SCHEDULES = 10_000
SHARE = 1_000
"""How many of them the ordinary suite and the soak run."""
TELLING = 400
"""How many of those it takes until everything that they are to prove has happened more than once or twice."""
REACHED = (
    *("backing off", "blocked", "delivered later", "quarantined", "superseded", "killed alone", "killed try"),
    *("bad", "named", "crash", "later", "reject", "rejects", "outage", "older version"),
    *("answer lost", "conflict", "redone", "fenced", "lost", "kill", "stop", "cancelled"),
    *(f"person {deed}" for deed in ("add", "break", "cancel", "discard", "older reset", "pause", "replay", "reset")),
)
"""What has to happen, and not just once, before the laws prove anything."""


def held(broken: list[tuple[int, str]]) -> None:
    failures = [f"{law}\nReplay it with: python -m tests.resilience.quarantine {seed}" for seed, law in broken]
    assert not failures, failures[0]


@pytest.mark.guarantee("Delivery", "A row that waits is neither lost nor doubled, and only a person discards it")
@pytest.mark.guarantee(
    "Delivery",
    "Later rows of an ordering key are not handled before the row that waits; other keys go on while there is room",
)
@pytest.mark.guarantee(
    "Delivery",
    "A row that fails, or kills its process, is found and never skipped: the checkpoint passes only rows that are "
    "handled, or listed as set aside or quarantined with their record written before ([failures.md](failures.md))",
)
def test_schedules_break_no_law_and_reach_what_they_prove() -> None:
    broken, seen = many(0, TELLING)
    held(broken)
    assert {name: seen[name] for name in REACHED if seen[name] < 3} == {}


@pytest.mark.soak
@pytest.mark.parametrize("first", range(TELLING, SHARE, 200))
def test_no_law_is_broken(first: int) -> None:
    held(many(first, first + 200)[0])


@pytest.mark.prove
@pytest.mark.parametrize("first", range(SHARE, SCHEDULES, 1_000))
def test_no_law_is_broken_in_any_schedule(first: int) -> None:
    held(many(first, first + 1_000)[0])


def test_a_seed_repeats_to_the_letter() -> None:
    for seed in (3, 12, 38, 127):
        logs = [play(draw(seed), logged=True).log for _ in range(2)]
        assert logs[0] == logs[1]
        assert logs[0]


def test_each_mode_and_kind_of_row_is_drawn() -> None:
    plans = [draw(seed) for seed in range(SHARE)]
    drawn = Counter(kind for plan in plans for kind in set(plan.kinds)) + Counter(plan.mode for plan in plans)
    assert all(drawn[name] > 50 for name in ("bad", "named", "crash", "block", "halt", "quarantine"))
