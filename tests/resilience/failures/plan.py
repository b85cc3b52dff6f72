"""What one schedule with rows that fail is made of."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from poller.model.handover import Mode
from tests.resilience.failures.versions import Kind
from tests.resilience.simulation.plan import Plan

Outage: TypeAlias = Literal["raised", "later", "named"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailurePlan(Plan):
    """One schedule: that of the simulation, and this.

    Attributes:
        mode, max_aside, max_quarantined: how the poller is configured. first, most: its backoff, in seconds.
        kinds: of which kinds the rows are. moves: whether a row that is written again may get another ordering key.
        flaps: how likely a call fails although every row of it is good.
        changes, deletes, heals: how many rows are written again, go, or are put right meanwhile.
        downs, down: how often what the handler calls is down; what it does then.
        people: how many cancel, discard, add or replay something.
        asks: whether the source can be asked where a row stands that the table has no more.
    """

    mode: Mode = "quarantine"
    max_aside: int = 2
    max_quarantined: int = 6
    first: float = 5.0
    most: float = 20.0
    kinds: tuple[Kind, ...] = ("ok",)
    moves: bool = False
    flaps: float = 0.0
    changes: int = 0
    deletes: int = 0
    heals: int = 0
    downs: int = 0
    down: Outage = "raised"
    people: int = 0
    asks: bool = True


def draw(seed: int) -> FailurePlan:
    """The plan of a seed. Two thirds of them are in the mode `quarantine`. In one of five, handlers are slow; in
    another one, people do something about rows."""
    rng = random.Random(f"failures {seed}")
    pick = rng.choice
    bad: list[Kind] = rng.sample(["bad", "named", "crash", "later", "reject", "rejects"], rng.randint(1, 3))
    good: list[Kind] = ["ok"] * rng.randint(1, 6)
    ttl = pick((3.0, 3.0, 6.0, 15.0))
    plan = FailurePlan(
        seed=seed,
        mode=pick(("quarantine", "quarantine", "quarantine", "quarantine", "block", "halt")),
        max_attempts=pick((1, 2, 2, 3)),
        max_aside=pick((1, 2, 3)),
        max_quarantined=pick((2, 4, 8, 100)),
        first=5.0,
        most=pick((5.0, 10.0, 20.0)),
        kinds=tuple(good + bad),
        keys=pick((0, 1, 2, 3)),
        flaps=pick((0.0, 0.0, 0.0, 0.1)),
        changes=pick((0, 0, 2, 5)),
        deletes=pick((0, 0, 0, 2)),
        heals=pick((0, 0, 1, 2)),
        downs=pick((0, 0, 0, 1, 2)),
        down=pick(("raised", "raised", "later", "named")),
        asks=rng.random() < 0.8,
        processes=pick((1, 2, 2, 3)),
        ttl=ttl,
        beats=pick((3, 4)),
        rows=rng.randint(1, 12),
        batch_size=pick((1, 2, 4, 8)),
        max_batches=pick((0, 0, 1, 2)),
        period=rng.uniform(2.0, 5.0) / ttl,
        aligned=rng.random() < 0.2,
        trouble=rng.uniform(20.0, 60.0) / ttl,
        faults=pick((0.0, 0.0, 0.05, 0.15)),
        latency=pick((0.002, 0.01, 0.05)),
        lateness=pick((0.5, 1.5, 3.0)),
        drift=pick((0.0, 0.001)),
        skew=pick((0.0, 3.0, 100_000.0)),
        source_faults=pick((0.0, 0.0, 0.1)),
        work=pick((0.0, 0.05)),
        overstays=pick((0.0, 0.0, 0.1)),
        gil=pick((0.0, 0.0, 0.05)),
        stalls=pick((0.0, 0.0, 0.0, 0.02)),
        crashes=pick((0, 0, 1, 2, 4)),
        crash_at_step=rng.random() < 0.7,
        stops=pick((0, 0, 1, 2)),
        terminations=pick((0, 0, 0, 1)),
        operators=pick((0, 0, 0, 1, 2)),
        breaks=rng.random() < 0.1,
        touches=pick((0, 0, 0, 2)),
        read_ahead=pick((0, 1, 1)),
        page_size=pick((0, 2, 4)),
        uncommitted=pick((0, 0, 2, 4)),
        lanes=pick((1, 1, 2, 5)),
        moves=pick((False, True)),
    )
    if seed % 10 in (2, 3):
        return replace(plan, people=pick((2, 3, 4)))
    return _slow(plan, rng) if seed % 10 in (4, 8) else plan


def _slow(plan: FailurePlan, rng: random.Random) -> FailurePlan:
    """The same with handlers so slow that rows wait in lanes for longer than they may be old, while others write and
    delete them; few of the rows fail, which would end the lanes."""
    pick, ttl = rng.choice, 15.0
    good: list[Kind] = ["ok"] * pick((4, 8, 16))
    return replace(
        plan,
        kinds=(*good, plan.kinds[-1]),
        ttl=ttl,
        period=rng.uniform(2.0, 5.0) / ttl,
        trouble=rng.uniform(40.0, 80.0) / ttl,
        work=pick((0.5, 0.9)),
        rows=rng.randint(8, 16),
        changes=rng.randint(8, 20),
        deletes=rng.randint(2, 6),
        batch_size=pick((1, 1, 2)),
        max_batches=0,
        lanes=pick((2, 2, 5)),
        crashes=pick((0, 0, 1)),
    )
