"""What one schedule is made of: drawn from a seed, or by Hypothesis."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, TypeVar

Meddling: TypeAlias = Literal["none", "deleted", "corrupted", "older"]
VARIANTS: dict[str, tuple[int, int | None]] = {
    "each": (1, 0),
    "grouped": (1, 4),
    "2 lanes": (2, None),
    "5 lanes": (5, None),
}
"""How many batches are handled at once, and committed together, as `lanes` and `uncommitted` (None: as drawn). Of each,
`make prove` plays 10,000 schedules, half of them here and half in `tests.resilience.failures`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One schedule. Times in seconds; `ttl` is the unit of most others, so that a long lease is no other schedule.

    Attributes:
        seed: everything that is not said here.
        processes, ttl, beats, other_ttl: how many pollers, their lease, how many beats in it; `other_ttl`: the second
            process is configured with half the lease, as in the middle of a deployment.
        rows, batch_size, max_batches, max_attempts: the work. read_ahead, page_size: how it is read; 0: its default.
        uncommitted: how many batches are committed together at most; 0: each by itself, or with lanes the default.
        lanes, keys: how many batches are handled at once; over how many ordering keys the rows are, 0: each its own.
        period, aligned: how often each ticks, in ttls; whether all in the same instant.
        trouble: for how many ttls things go wrong. Afterwards everything must come right by itself.
        faults, dribbles, latency, lateness, denied, outages: of the store; `faults`, `dribbles` (late answers) and
            `denied` are rates per request, `latency` and `lateness` are in ttls.
        timed: whether the store gives its time; without it an older copy may pass for a fresh release.
        drift: how wrong each clock's rate is at most. skew: of wall clocks.
        source_faults: rate of queries that fail. work: how long a row takes at most, in ttls.
        handler_fails, overstays, gil: rates per batch. stalls: rate per call.
        crashes, stops, terminations: how many of each. crash_at_step: crashes fall between two steps, not at a time.
        operators, breaks: how many interfere; whether all that each does is to break leases.
        touches: how often metadata is touched. meddling: what somebody does beside all rules.
        endless: rows arrive faster than they are worked off, until the operators got through.
        far: how many seconds longer a request of an operator takes, each way.
        week: after how many ttls a quiet document is written once more, in the place of a week; 0: never.
        cold: a fresh process must look twice before it knows which rows are safe to read.
    """

    seed: int
    processes: int = 2
    ttl: float = 3.0
    beats: int = 4
    other_ttl: bool = False
    rows: int = 8
    batch_size: int = 2
    max_batches: int = 0
    read_ahead: int = 1
    page_size: int = 0
    uncommitted: int = 0
    lanes: int = 1
    keys: int = 0
    max_attempts: int = 50
    period: float = 0.4
    aligned: bool = False
    trouble: float = 5.0
    faults: float = 0.0
    dribbles: float = 0.0
    latency: float = 0.01
    lateness: float = 2.0
    denied: float = 0.0
    outages: int = 0
    timed: bool = True
    drift: float = 0.0
    skew: float = 0.0
    source_faults: float = 0.0
    work: float = 0.1
    handler_fails: float = 0.0
    overstays: float = 0.0
    gil: float = 0.0
    stalls: float = 0.0
    crashes: int = 0
    crash_at_step: bool = True
    stops: int = 0
    terminations: int = 0
    operators: int = 0
    breaks: bool = False
    touches: int = 0
    meddling: Meddling = "none"
    endless: bool = False
    far: float = 0.0
    cold: bool = False
    week: float = 0.0


P = TypeVar("P", bound=Plan)


def draw(seed: int) -> Plan:
    """The plan of a seed. One in 25 has somebody meddle with the document, one in 50 is an endless drain, one in 20 a
    long handler between slow answers, and in another one operators break leases."""
    rng = random.Random(f"plan {seed}")
    pick = rng.choice
    if seed % 50 == 7:
        plan = Plan(
            seed=seed,
            processes=pick((1, 2)),
            rows=0,
            batch_size=pick((1, 3)),
            period=0.2,
            trouble=1.0,
            latency=pick((0.001, 0.003)),
            work=0.0,
            operators=pick((1, 2)),
            endless=True,
        )
        # Tenures shorter than a heartbeat, one right after the other, and operators whom each of them outruns.
        plan = replace(plan, max_batches=1, period=0.001, far=0.05) if rng.random() < 0.5 else plan
        return replace(plan, lanes=pick((1, 1, 2, 5)))
    if seed % 20 == 13:
        return Plan(
            seed=seed,
            processes=pick((2, 3)),
            ttl=3.0,
            rows=6,
            period=rng.uniform(0.1, 0.4),
            trouble=8.0,
            faults=0.05,
            dribbles=0.3,
            lateness=pick((2.0, 3.0)),
            overstays=0.8,
            drift=0.01,
            lanes=pick((1, 1, 2)),
        )
    if seed % 20 == 3:
        return Plan(
            seed=seed,
            processes=pick((2, 3)),
            ttl=pick((6.0, 15.0)),
            period=rng.uniform(0.05, 0.3),
            drift=0.01,
            work=0.2,
            overstays=0.3,
            gil=0.4,
            stops=2,
            operators=4,
            breaks=True,
            lanes=pick((1, 1, 2)),
        )
    meddling: Meddling = pick(("deleted", "corrupted", "older")) if seed % 25 == 24 else "none"
    return Plan(
        seed=seed,
        processes=pick((1, 2, 2, 2, 3) if meddling == "none" else (2, 3)),
        ttl=pick((3.0, 3.0, 6.0, 15.0, 60.0)),
        beats=pick((3, 4, 4)),
        other_ttl=rng.random() < 0.1,
        rows=rng.randint(1, 12),
        batch_size=rng.randint(1, 4),
        max_batches=pick((0, 0, 0, 1, 2)),
        max_attempts=pick((2, 5, 50)),
        period=rng.uniform(0.1, 0.7),
        aligned=rng.random() < 0.2,
        trouble=rng.uniform(2.0, 7.0),
        faults=pick((0.0, 0.05, 0.15, 0.3)),
        latency=pick((0.002, 0.01, 0.05, 0.15)),
        lateness=pick((0.5, 1.5, 3.0)),
        denied=pick((0.0, 0.0, 0.0, 0.02)),
        outages=pick((0, 0, 0, 1)),
        timed=meddling == "older" or rng.random() < 0.9,
        drift=pick((0.0, 0.001, 0.01)),
        skew=pick((0.0, 3.0, 100_000.0)),
        source_faults=pick((0.0, 0.0, 0.1)),
        work=pick((0.0, 0.05, 0.3) if meddling == "none" else (0.05, 0.5)),
        handler_fails=pick((0.0, 0.0, 0.2)),
        overstays=pick((0.0, 0.0, 0.2)),
        gil=pick((0.0, 0.0, 0.1) if meddling == "none" else (0.1, 0.6)),
        stalls=pick((0.0, 0.0, 0.02)),
        crashes=pick((0, 0, 1, 2, 4)),
        crash_at_step=rng.random() < 0.7,
        stops=pick((0, 0, 1, 2)),
        terminations=pick((0, 0, 0, 1)),
        operators=pick((0, 0, 1, 2)),
        touches=pick((0, 0, 0, 2)),
        meddling=meddling,
        cold=rng.random() < 0.15,
        read_ahead=pick((0, 1, 1)),
        page_size=pick((0, 2, 4)),
        uncommitted=pick((0, 0, 2, 4)),
        lanes=pick((1, 1, 2, 5)),
        keys=pick((0, 0, 2, 7)),
        week=pick((0.0, 0.0, 0.2, 1.0)),
    )


def varied(plan: P, variant: str) -> P:
    """The plan in one of `VARIANTS`."""
    lanes, uncommitted = VARIANTS[variant]
    return replace(plan, lanes=lanes, uncommitted=plan.uncommitted if uncommitted is None else uncommitted)
