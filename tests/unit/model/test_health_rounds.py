"""Random lives of a poller, and what an oracle that knows everything says of its picture, which is made of looks."""

from __future__ import annotations

import bisect
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from poller.model.conditions import view
from poller.model.memory import PollerMemory, remembered
from poller.model.schedule import Schedule
from poller.model.view import PollerFacts, PollerLimits

SCHEDULES = ("*/5 * * * * *", "*/30 * * * * *", "0 */5 * * * *", "0 0 * * * *", "0 0 2 * * *", "0 */5 8-16 * * 1-5")
NUMBERS, TIMES = "numbers", "times"


@dataclass
class Row:
    """`stamped`: its cursor. `committed`: when its transaction ended; None while it is open."""

    stamped: float
    committed: float | None
    readable: float | None = None
    """The first moment at which it was below the bound, which the world notes."""


@dataclass
class World:
    """A table, a poller and those who work on it; moments are seconds since `start`."""

    dice: random.Random
    start: datetime
    limits: PollerLimits
    kind: str
    pace: float
    now: float = 0.0
    delay: float = 0.0
    """The usual distance of the bound."""
    rows: list[Row] = field(default_factory=list)
    open_since: float | None = None
    batch: int = 1
    call: float = 0.0
    """How long a call of the handler takes."""
    alive: bool = True
    fails: bool = False
    exists: bool = False
    paused: bool = False
    created: float | None = None
    committed: float | None = None
    changed: float | None = None
    retry: float | None = None
    failures: int = 0
    lease: tuple[float, float] | None = None
    """Since when, and the end of what it does now."""
    dead_lease_until: float | None = None
    due: float = 0.0
    aside: list[float] = field(default_factory=list)
    """When each may be tried again."""

    def at(self, seconds: float) -> datetime:
        return self.start + timedelta(seconds=seconds)

    def next_due(self, seconds: float) -> float:
        return (self.limits.following(self.at(seconds)) - self.start).total_seconds()

    # --- what happens

    def bound(self) -> float:
        usual = self.now - self.delay
        return usual if self.open_since is None else min(usual, self.open_since)

    def readable(self) -> list[Row]:
        """In the order of the cursor."""
        below = self.bound()
        end = bisect.bisect_right(self.rows, below, key=lambda row: row.stamped)
        return [row for row in self.rows[:end] if row.committed is not None]

    def note(self) -> None:
        for row in self.readable():
            row.readable = self.now if row.readable is None else row.readable

    def step(self) -> None:
        self.now += self.pace
        self.note()
        self._work()

    def _work(self) -> None:
        if self.dead_lease_until is not None and self.now >= self.dead_lease_until:
            self.dead_lease_until = None
        if self.lease is not None:
            if not self.alive:
                self.lease, self.dead_lease_until = None, self.now + self.limits.ttl
            elif self.now >= self.lease[1]:
                self._called()
            return
        if self.now < self.due:
            return
        self.due = self.next_due(self.now)
        if not self.alive or self.paused or self.dead_lease_until is not None:
            return
        if not self.exists:
            self.exists, self.created, self.committed = True, self.now, self.now
        if self.retry is not None and self.retry > self.now:
            return
        if self.readable() or any(at <= self.now for at in self.aside):
            self.lease = self.now, self.now + self.call

    def _called(self) -> None:
        assert self.lease is not None
        tries = [at for at in self.aside if at <= self.now]
        if self.fails:
            self.failures += 1
            wait = min(300.0, 5.0 * 2**self.failures)
            self.retry, self.lease = self.now + wait, None
            return
        if tries:
            self.aside.remove(min(tries))
        else:
            for row in self.readable()[: self.batch]:
                self.rows.remove(row)
            self.committed, self.failures, self.retry = self.now, 0, None
        left = self.readable() or any(at <= self.now for at in self.aside)
        self.lease = (self.lease[0], self.now + self.call) if left else None

    # --- what a look finds

    def facts(self) -> PollerFacts:
        waiting = [row for row in self.rows if row.committed is not None]
        age = self.now - waiting[0].stamped if waiting and self.kind == TIMES else None
        held = self.open_since is not None and self.now - self.open_since > 2
        due = [at for at in self.aside if at <= self.now] if self.exists else []
        committed = None if self.committed in {None, self.created} else self.committed
        return PollerFacts(
            name="orders",
            now=self.at(self.now),
            document="there" if self.exists else "none",
            created_at=self.moment(self.created),
            committed_at=self.moment(committed),
            changed_at=self.moment(self.changed),
            paused=self.paused,
            worker=None if self.lease is None else "vm3/ace0",
            lease_live=self.lease is not None or self.dead_lease_until is not None,
            lease_since=None if self.lease is None else self.moment(self.lease[0]),
            heartbeat_age=0.0,
            attempts=self.failures + (self.lease is not None),
            failures=self.failures,
            error_type="OSError" if self.failures else None,
            retry_at=self.moment(self.retry),
            aside=len(self.aside),
            aside_due=len(due),
            aside_due_since=self.moment(min(due, default=None)),
            readable=bool(self.readable()),
            pending=len(waiting),
            age=age,
            distance=0.0 if held else self.now - self.bound(),
            held_by="backend 77" if held else None,
        )

    def moment(self, seconds: float | None) -> datetime | None:
        return None if seconds is None else self.at(seconds)

    # --- what is true

    def truth(self, shift: float = 0.0) -> tuple[float | None, float | None]:
        """For how long, by the schedule, the oldest row that may be read has waited; and for how long that was so and
        nothing made progress. `shift`: as if it had become readable so many seconds later."""
        known = [row.readable for row in self.readable() if row.readable is not None]
        if not known:
            return None, None
        since = known[0] + shift
        if not self.exists:
            return (self._overdue(since),) * 2
        since = max(known[0], self.created or 0.0) + shift
        return self._overdue(since) or 0.0, self._overdue(max(since, self._progress() + max(0.0, shift))) or 0.0

    def not_retried(self, shift: float) -> float | None:
        """For how long a row set aside could have been tried again, and nothing made progress."""
        due = [at for at in self.aside if at <= self.now]
        if not due or not self.exists or self.lease is not None:
            return None
        return self._overdue(max(min(due), self._progress()) + shift)

    def _progress(self) -> float:
        return max(at for at in (self.committed, self.changed, self.created) if at is not None)

    def _overdue(self, since: float) -> float | None:
        due = self.next_due(since)
        return self.now - due if due <= self.now else None

    def busy(self) -> bool:
        return self.lease is not None and not self.failures


def lived(seed: int, kind: str) -> Iterator[tuple[World, str, bool]]:
    """The moments of a random life at which somebody looks: the world, the picture's word, and whether it is well."""
    dice = random.Random(f"{kind} {seed}")
    schedule = dice.choice(SCHEDULES)
    slow = schedule in SCHEDULES[3:]
    limits = PollerLimits(
        following=Schedule(schedule).next_after,
        ttl=dice.choice((15.0, 60.0)),
        handler_timeout=dice.choice((30.0, 270.0, 1800.0)),
        max_lag=dice.choice((None, None, 60.0, 600.0, 7200.0)),
    )
    start = datetime(2026, 3, 27, dice.randrange(24), dice.randrange(60), tzinfo=UTC)
    pace = 30.0 if slow else 5.0
    world = World(
        dice, start, limits, kind, pace, delay=dice.choice((0.0, 0.0, 5.0, 600.0)), batch=dice.choice((1, 5, 100))
    )
    world.call = dice.choice((0.0, 5.0, 60.0, min(250.0, limits.handler_timeout)))
    if dice.random() < 0.3:
        years = dice.choice((86_400.0, 3e8))
        world.rows = [Row(number - years, -years / 2) for number in range(dice.choice((1, 50, 500)))]
    world.alive = dice.random() < 0.8
    rate = dice.choice((0.0005, 0.01, 0.2))
    ends = 2 * 86_400.0 if slow else 3 * 3600.0
    world.note()
    seen, _ = remembered(None, world.facts())
    looked = 0.0
    number = 0
    while world.now < ends:
        world.step()
        if dice.random() < rate * (0.2 if slow else 1):
            number += 1
            stamped = world.now - dice.random() * pace
            world.rows.append(Row(stamped, None if world.open_since is not None and dice.random() < 0.5 else world.now))
        meddle(world, dice)
        if world.now - looked >= 3 * pace:
            looked = world.now
            seen, facts = remembered(seen, world.facts())
            seen = PollerMemory.model_validate_json(seen.model_dump_json())
            found = view(facts, limits, seen.moments())
            yield world, found.word, found.healthy


def meddle(world: World, dice: random.Random) -> None:
    """What else happens, once in a while."""
    if dice.random() > 0.01:
        return
    what = dice.choice(
        ("open", "close", "close", "die", "live", "live", "pause", "resume", "fail", "mend", "aside", "call")
    )
    if what == "open" and world.open_since is None:
        world.open_since = world.now
    elif what == "close" and world.open_since is not None:
        world.open_since = None
        for row in world.rows:
            row.committed = world.now if row.committed is None else row.committed
    elif what in {"die", "live"}:
        world.alive = what == "live"
    elif what in {"pause", "resume"} and world.exists and world.paused != (what == "pause"):
        world.paused, world.changed = what == "pause", world.now
        world.retry, world.failures = None, 0
    elif what in {"fail", "mend"}:
        world.fails = what == "fail"
    elif what == "aside" and world.exists:
        world.aside.append(world.now + dice.random() * 300)
    elif what == "call":
        world.call = dice.choice((0.0, 5.0, 60.0, min(250.0, world.limits.handler_timeout)))


def complaint(world: World, kind: str, healthy: bool) -> str | None:
    """What an oracle has against a verdict; None where nothing."""
    slack = 4 * world.pace  # between two looks, and two moments of the world
    limits = world.limits
    least, most = world.truth(slack), world.truth(-slack)
    story = f"{kind} at {world.now:.0f} s, late and stalled {world.truth()}, {limits}"
    if world.paused:
        return None if healthy else f"a false alarm while paused: {story}"
    least_aside, most_aside = world.not_retried(slack), world.not_retried(-slack)
    if healthy and least_aside is not None and least_aside > limits.patience:
        return f"a missed alarm of rows set aside: {story}"
    if not healthy and most_aside is not None and most_aside + world.pace >= limits.patience:
        return None
    if limits.max_lag is not None:
        certain = least[0] if world.kind == TIMES else least[1]
        if healthy and certain is not None and certain > limits.max_lag:
            return f"a missed alarm: {story}"
        if not healthy and (most[0] is None or most[0] + world.pace < limits.max_lag):
            return f"a false alarm: {story}"
        return None
    if healthy and least[1] is not None and least[1] > limits.patience and not world.busy():
        return f"a missed alarm: {story}"
    if not healthy and (most[1] is None or most[1] + world.pace < limits.patience):
        return f"a false alarm: {story}"
    return None


@pytest.mark.guarantee(
    "Never silently dead",
    "A nightly poller, one of business hours, a first load, a pause, and rows above an open transaction raise no "
    "alarm, and nothing else is missed, by an oracle over random lives",
)
@pytest.mark.parametrize("kind", [TIMES, NUMBERS])
@pytest.mark.parametrize(
    "seeds",
    [
        range(3),
        pytest.param(range(3, 20), marks=pytest.mark.soak),
        pytest.param(range(20, 60), marks=pytest.mark.prove),
    ],
    ids=["a few", "more", "many"],
)
def test_an_oracle_agrees_with_every_verdict(kind: str, seeds: range) -> None:
    kinds = set()
    for seed in seeds:
        for world, verdict, healthy in lived(seed, kind):
            kinds.add(verdict)
            assert (said := complaint(world, verdict, healthy)) is None, f"seed {seed}: {said}"
    assert "working" in kinds
    if len(seeds) > 50:
        assert kinds >= {"behind", "late", "failing", "not_retried", "never_ran", "scheduled", "bound_held", "hung"}
