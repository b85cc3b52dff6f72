"""What one schedule is made of, drawn from a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass

from poller.model.handover import Mode
from tests.resilience.quarantine.handler import Outage
from tests.resilience.quarantine.people import DEEDS, Deed
from tests.resilience.quarantine.world import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One schedule.

    Attributes:
        seed: everything that is not said here.
        mode, max_attempts, max_aside, max_quarantined, batch_size, max_batches: how the poller is configured.
        processes, older: how many, and how many of them are of a version that knows none of this.
        rows, kinds, keys: how many rows come, of which kinds, over how many ordering keys. 0 keys: each its own.
        changes, deletes: how many rows are written again, or go. heals: how many bad rows are put right meanwhile.
        trouble: for how many seconds all this happens.
        kills, stops: of processes, at any step; a stopped one wakes up after its lease.
        outages, outage: how many; what the handler does then.
        overstays: how likely a call outlasts its lease. lost_answers: of PUTs, how likely. stalls: see `World.stalls`.
        deeds: what people do.
    """

    seed: int
    mode: Mode = "quarantine"
    max_attempts: int = 2
    max_aside: int = 2
    max_quarantined: int = 6
    batch_size: int = 4
    max_batches: int = 0
    processes: int = 2
    older: int = 0
    rows: int = 8
    kinds: tuple[Kind, ...] = ("ok",)
    keys: int = 0
    changes: int = 0
    deletes: int = 0
    heals: int = 0
    trouble: float = 60.0
    kills: int = 0
    stops: int = 0
    outages: int = 0
    outage: Outage = "raised"
    overstays: float = 0.0
    lost_answers: float = 0.0
    stalls: float = 0.03
    deeds: tuple[Deed, ...] = ()


def draw(seed: int) -> Plan:
    """The plan of a seed. One in 20 mixes versions while a bad row is searched for, another one resets while processes
    that settle records are held up."""
    rng = random.Random(f"plan {seed}")
    pick = rng.choice
    if seed % 20 == 9:
        return Plan(
            seed=seed,
            mode=pick(("quarantine", "block", "halt")),
            max_attempts=pick((2, 3)),
            batch_size=8,
            older=1,
            rows=rng.randint(6, 14),
            kinds=("ok", "ok", "ok", "ok", pick(("bad", "crash", "crash"))),
            kills=pick((0, 2, 4)),
            deeds=tuple(rng.choices(("reset", "older reset"), k=pick((0, 1, 3)))),
        )
    if seed % 20 == 13:
        return Plan(
            seed=seed,
            rows=rng.randint(2, 6),
            kinds=("ok",),
            max_attempts=3,
            max_quarantined=100,
            processes=3,
            outages=6,
            outage="named",
            trouble=120.0,
            stalls=0.3,
            deeds=tuple(rng.choices(("reset", "break"), k=4)),
        )
    good: Kind = "ok"
    bad: list[Kind] = rng.sample(["bad", "named", "crash", "later", "reject", "rejects"], rng.randint(1, 3))
    mode: Mode = pick(("quarantine", "quarantine", "quarantine", "quarantine", "block", "halt"))
    return Plan(
        seed=seed,
        mode=mode,
        max_attempts=pick((1, 2, 2, 3)),
        max_aside=pick((1, 2, 3)),
        max_quarantined=pick((2, 4, 8, 100)),
        batch_size=pick((1, 2, 4, 8)),
        max_batches=pick((0, 0, 1, 2)),
        processes=pick((1, 2, 2, 3)),
        older=pick((0, 0, 0, 0, 1)),
        rows=rng.randint(1, 14),
        kinds=(good,) * rng.randint(1, 6) + tuple(bad),
        keys=pick((0, 1, 2, 3)),
        changes=pick((0, 0, 2, 5)),
        deletes=pick((0, 0, 0, 2)),
        heals=pick((0, 0, 1, 2)),
        trouble=rng.uniform(20, 80),
        kills=pick((0, 0, 1, 3)),
        stops=pick((0, 0, 1, 2)),
        outages=pick((0, 0, 0, 1, 2)),
        outage=pick(("raised", "raised", "later", "named")),
        overstays=pick((0.0, 0.0, 0.05)),
        lost_answers=pick((0.0, 0.1)),
        deeds=tuple(rng.choices(DEEDS, k=pick((0, 0, 1, 2)))),
    )
