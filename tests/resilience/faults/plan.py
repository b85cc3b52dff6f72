"""Which request gets which fault. A plan is asked once per request, in order of arrival, and never by two
threads at once.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Protocol

from tests.resilience.faults import fault as kinds
from tests.resilience.faults.fault import Fault
from tests.resilience.faults.request import STATE, Request


class Plan(Protocol):
    """Anything that decides over a request: an instance of the classes below, or a function."""

    def __call__(self, request: Request, /) -> Fault | None:
        """The fault of this request; None lets it pass."""


@dataclass(frozen=True, slots=True)
class Match:
    """A condition on requests: one of `methods`, a part of the path, and (if not None) whether it creates a
    blob.
    """

    methods: tuple[str, ...] = ()
    path_contains: str = ""
    create: bool | None = None

    def __call__(self, request: Request) -> bool:
        return (
            (not self.methods or request.method in self.methods)
            and self.path_contains in request.path
            and (self.create is None or request.is_create is self.create)
        )


STATE_WRITES = Match(("PUT",), STATE)
STATE_READS = Match(("GET",), STATE)
STATE_REQUESTS = Match(("GET", "PUT"), STATE)


@dataclass(frozen=True, slots=True)
class NoFaults:
    """Every request passes."""

    def __call__(self, request: Request, /) -> Fault | None:
        return None


@dataclass(frozen=True, slots=True)
class Always:
    """Every matching request gets this fault: an outage of one kind, for as long as the plan is in force."""

    fault: Fault
    match: Match = Match()

    def __call__(self, request: Request, /) -> Fault | None:
        return self.fault if self.match(request) else None


class Script:
    """The n-th matching request gets the n-th step; None lets it pass, and so do all after the last step.

    `Script([None, reset_after()])`: the second write of a state document is applied and its connection reset.
    """

    def __init__(self, steps: Iterable[Fault | None], match: Match = STATE_WRITES) -> None:
        self.steps = list(steps)
        self.match = match
        self.used = 0

    def __call__(self, request: Request, /) -> Fault | None:
        if self.used >= len(self.steps) or not self.match(request):
            return None
        self.used += 1
        return self.steps[self.used - 1]

    @property
    def left(self) -> list[Fault | None]:
        """The steps that no request has come for yet. A test asserts that it is empty, else it proved
        nothing.
        """
        return self.steps[self.used :]

    def __repr__(self) -> str:
        return f"Script({self.steps!r}, {self.match!r})"


class FirstOf:
    """The first fault that any of the plans has for the request; later plans are not asked then."""

    def __init__(self, *plans: Plan) -> None:
        self.plans = plans

    def __call__(self, request: Request, /) -> Fault | None:
        return next((fault for plan in self.plans if (fault := plan(request)) is not None), None)

    def __repr__(self) -> str:
        return f"FirstOf({', '.join(map(repr, self.plans))})"


MIXED: Mapping[str, float] = {
    "reset_before": 0.04,
    "reset_after": 0.04,
    "drop_before": 0.02,
    "drop_after": 0.04,
    "error_before": 0.03,
    "error_after": 0.04,
    "busy": 0.02,
    "throttled": 0.02,
    "late": 0.04,
    "duplicate": 0.03,
    "duplicate_second": 0.02,
    "truncated": 0.03,
    "silence_after": 0.005,
    "black_hole": 0.005,
    "dribble": 0.01,
    "hold_before": 0.02,
    "hold_after": 0.02,
}
"""Probabilities for a soak: about four in ten writes meet something. The silent ones cost the client a read
timeout.
"""

_READ_ONLY = frozenset({"truncated"})
_WRITE_ONLY = frozenset({"late", "duplicate", "duplicate_second"})


class Seeded:
    """Random faults, the same for the same seed whatever the interleaving of clients and the names of
    containers.

    The n-th request of one method to one blob (its name without the container) is decided by the seed and
    these three alone. `pace` is the longest delay, in seconds, of the faults that have one. `repr` and
    `to_json` say all that is needed to play it again.
    """

    def __init__(
        self,
        seed: int,
        rates: Mapping[str, float] = MIXED,
        match: Match = STATE_REQUESTS,
        pace: float = 0.2,
    ) -> None:
        unknown = set(rates) - set(_MAKERS)
        if unknown or not 0 <= sum(rates.values()) <= 1:
            raise ValueError(f"rates must be of {sorted(_MAKERS)} and sum up to at most 1; unknown: {sorted(unknown)}")
        self.seed = seed
        self.rates = dict(rates)
        self.match = match
        self.pace = pace
        self.given: Counter[str] = Counter()
        self._seen: Counter[tuple[str, str]] = Counter()

    def __call__(self, request: Request, /) -> Fault | None:
        if not self.match(request):
            return None
        stream = (request.method, request.blob)
        self._seen[stream] += 1
        return self._decide(request.method, request.blob, self._seen[stream])

    def _decide(self, method: str, blob: str, n: int) -> Fault | None:
        chance = random.Random(f"{self.seed}/{method}/{blob}/{n}")
        point = chance.random()
        for name, rate in self.rates.items():
            point -= rate
            if point < 0:
                if name in (_WRITE_ONLY if method != "PUT" else _READ_ONLY):
                    return None
                self.given[name] += 1
                return _MAKERS[name](chance, self.pace)
        return None

    def to_json(self) -> str:
        """The plan as text, for a failing test's message."""
        data = {"seed": self.seed, "rates": self.rates, "match": asdict(self.match), "pace": self.pace}
        return json.dumps(data)

    def __repr__(self) -> str:
        return f"Seeded({self.seed!r}, {self.rates!r}, {self.match!r}, {self.pace!r})"


_MAKERS: Mapping[str, Callable[[random.Random, float], Fault]] = {
    "reset_before": lambda chance, pace: kinds.reset_before(),
    "reset_after": lambda chance, pace: kinds.reset_after(),
    "drop_before": lambda chance, pace: kinds.drop_before(),
    "drop_after": lambda chance, pace: kinds.drop_after(),
    "error_before": lambda chance, pace: kinds.error_before(chance.choice((500, 502, 504))),
    "error_after": lambda chance, pace: kinds.error_after(chance.choice((500, 503, 408))),
    "busy": lambda chance, pace: kinds.error_before(503, retry_after=chance.choice((None, 1))),
    "throttled": lambda chance, pace: kinds.error_before(
        chance.choice((408, 429)), retry_after=chance.choice((None, 1))
    ),
    "late": lambda chance, pace: kinds.late(
        seconds=chance.uniform(0, pace), answer=chance.choice(("reset", "close", "error"))
    ),
    "duplicate": lambda chance, pace: kinds.duplicate(),
    "duplicate_second": lambda chance, pace: kinds.duplicate(second_answer=True),
    "truncated": lambda chance, pace: kinds.truncated(chance.random()),
    "silence_after": lambda chance, pace: kinds.silence_after(),
    "black_hole": lambda chance, pace: kinds.black_hole(),
    "dribble": lambda chance, pace: kinds.dribble(chance.uniform(0, pace / 100)),
    "hold_before": lambda chance, pace: kinds.hold_before(seconds=chance.uniform(0, pace)),
    "hold_after": lambda chance, pace: kinds.hold_after(seconds=chance.uniform(0, pace)),
}
