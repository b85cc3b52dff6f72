"""Seeded schedules in which no law may be broken, and the proof that they are what they claim to be."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from poller.errors import WriteConflict
from poller.ports import Written
from tests.resilience.simulation.laws import Sent
from tests.resilience.simulation.plan import VARIANTS, Plan, draw, varied
from tests.resilience.simulation.schedule import Report, play
from tests.resilience.simulation.store import Server
from tests.support.documents import hold_to_schemas

pytestmark = pytest.mark.timeout(400)
"""Many schedules, on a machine with other work."""

ROOT = Path(__file__).resolve().parents[3]
SCHEDULES = 5_000
"""Of each variant (`VARIANTS`)."""
REACHED = (
    *(
        "batch_committed",
        "commit_unknown",
        "handler_failed",
        "handler_timed_out",
        "stale_commit_refused",
        "yielded_to_operator",
    ),
    *("lease_acquired", "lease_lost", "lease_released", "lease_renewed", "lease_taken_over"),
    *("write_redone", "write_resent", "write_resolved"),
    *("delivered", "idle", "held_elsewhere", "paused", "halted", "lease_lost"),
    *("StoreUnavailable", "StoreDenied", "StateCorrupt", "SourceUnavailable"),
    *("a batch alone", "a lane's batch"),
    *("crash", "stop", "terminate", "gil", "overstay", "touch", "deleted, traced", "corrupted", "older"),
    *("rewritten", "began"),
    *(f"operator {kind}" for kind in ("pause", "resume", "reset", "break", "rebind", "rescue")),
)
SHARE = 500
"""How many the ordinary suite and the soak run, each in the variant that it draws."""
AT_ONCE = 50
"""So many take a few seconds."""
FIRST = 150
"""How many of those the ordinary suite runs."""
TELLING = (167, 174, 191, 199, 207, 240, 249, 259, 314, 324, 390, 440, 457)
"""What it runs besides: with these everything that they are to prove has happened more than once or twice."""


def held(report: Report) -> None:
    """Assert that no law was broken; else say how to replay the schedule."""
    plan = report.plan
    changes = [
        f"{field.name}={getattr(plan, field.name)}"
        for field in fields(Plan)
        if getattr(plan, field.name) != getattr(draw(plan.seed), field.name)
    ]
    command = " ".join(["python -m tests.resilience.simulation", str(plan.seed), *changes])
    assert report.violation is None, f"{report.violation}\nReplay it with: {command}"


@pytest.mark.soak
@pytest.mark.parametrize("first", range(FIRST, SHARE, AT_ONCE))
def test_no_law_is_broken(first: int) -> None:
    for seed in range(first, min(first + AT_ONCE, SHARE)):
        held(play(draw(seed)))


@pytest.mark.guarantee(
    "Delivery",
    "Every row is handled at least once: the checkpoint never passes a row whose handler did not succeed",
)
def test_schedules_break_no_law_and_reach_what_they_prove() -> None:
    """A law that is never put to the test proves nothing: each of these must have happened, and not just once."""
    seen: Counter[str] = Counter()
    for seed in (*range(FIRST), *TELLING):
        report = play(draw(seed))
        held(report)
        seen += report.seen
    assert {name: seen[name] for name in REACHED if seen[name] < 3} == {}


def test_no_idle_write_follows_one_whose_outcome_is_unknown() -> None:
    """What the bound saw was sent, and no answer came: that the schedule was looked at waits for the next tick."""
    held(play(varied(draw(1839), "each")))


@pytest.mark.parametrize("seed", [2872, 3395])
def test_a_late_release_is_stamped_anew_behind_anothers_write(seed: int) -> None:
    """A pause, or a touch, between the release and its second stamp."""
    held(play(varied(draw(seed), "2 lanes")))


@pytest.mark.prove
@pytest.mark.timeout(900)
@pytest.mark.parametrize("first", range(0, SCHEDULES, 500))
@pytest.mark.parametrize("variant", VARIANTS)
def test_no_law_is_broken_in_any_schedule(variant: str, first: int) -> None:
    for seed in range(first, first + 500):
        held(play(varied(draw(seed), variant)))


def rates(most: float) -> st.SearchStrategy[float]:
    return st.just(0.0) | st.floats(0.0, most)


PLANS = st.builds(
    Plan,
    seed=st.integers(0, 2**32),
    processes=st.integers(1, 4),
    ttl=st.sampled_from((3.0, 6.0, 15.0, 60.0)),
    beats=st.integers(3, 5),
    other_ttl=st.booleans(),
    rows=st.integers(0, 15),
    batch_size=st.integers(1, 5),
    max_batches=st.integers(0, 3),
    max_attempts=st.integers(1, 60),
    read_ahead=st.integers(0, 1),
    page_size=st.integers(0, 8),
    uncommitted=st.integers(0, 5),
    lanes=st.sampled_from((1, 1, 2, 5)),
    keys=st.integers(0, 4),
    period=st.floats(0.05, 1.0),
    aligned=st.booleans(),
    trouble=st.floats(0.5, 8.0),
    faults=rates(0.4),
    dribbles=rates(0.3),
    latency=st.floats(0.001, 0.2),
    lateness=st.floats(0.0, 4.0),
    denied=rates(0.05),
    outages=st.integers(0, 2),
    timed=st.booleans(),
    drift=rates(0.01),
    skew=rates(1_000_000.0),
    source_faults=rates(0.3),
    work=rates(0.5),
    handler_fails=rates(0.4),
    overstays=rates(0.5),
    gil=rates(0.3),
    stalls=rates(0.1),
    crashes=st.integers(0, 6),
    crash_at_step=st.booleans(),
    stops=st.integers(0, 4),
    terminations=st.integers(0, 2),
    operators=st.integers(0, 3),
    breaks=st.booleans(),
    touches=st.integers(0, 4),
    cold=st.booleans(),
    week=st.sampled_from((0.0, 0.1, 1.0, 3.0)),
    meddling=st.sampled_from(("none", "none", "none", "deleted", "corrupted")),
)
QUIET = (HealthCheck.too_slow, HealthCheck.data_too_large)


@settings(max_examples=60, deadline=None, derandomize=True, database=None, suppress_health_check=QUIET)
@given(plan=PLANS)
def test_no_plan_that_hypothesis_finds_breaks_a_law(plan: Plan) -> None:
    held(play(plan))


@pytest.mark.prove
@pytest.mark.timeout(600)
@settings(max_examples=5_000, deadline=None, suppress_health_check=QUIET, phases=(Phase.generate, Phase.shrink))
@given(plan=PLANS)
def test_no_plan_of_many_that_hypothesis_finds_breaks_a_law(plan: Plan) -> None:
    held(play(plan))


def test_what_a_schedule_writes_holds_to_the_schemas(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[tuple[str, bytes]] = []
    apply = Server.apply

    def noted(server: Server, sent: Sent) -> Written | WriteConflict:
        written.append((sent.name, sent.body))
        return apply(server, sent)

    monkeypatch.setattr(Server, "apply", noted)
    for seed in range(40):
        held(play(draw(seed)))
    hold_to_schemas(written)
    assert len({body for name, body in written if name.startswith("state/")}) > 500


@pytest.mark.soak
def test_a_seed_repeats_to_the_letter() -> None:
    for seed in (3, 7, 13, 24):
        first, second = (play(draw(seed), logged=True) for _ in range(2))
        assert first.log == second.log
        assert first.log


def test_a_replay_repeats_in_another_process_under_any_hash_seed() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-m", "tests.resilience.simulation", "104", "processes=3"],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(outputs) == 1
    assert b"all laws held" in outputs.pop()
