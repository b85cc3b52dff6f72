"""Several processes that run the same pollers: one looks at each, and whatever happens to it another does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from poller import Handler, TickResult
from poller.config import PollerOptions
from poller.errors import SourceUnavailable
from poller.observability import PollerEvent
from poller.ports import Event
from poller.stores import MemoryStore
from poller.worker import Replicas, run
from tests.integration.runner.clockwork import Clockwork

POLLERS = [f"p{number}" for number in range(60)]


class Look:
    """A poller of one process, whose ticks are counted. `fails`: whether its ticks there raise."""

    options = PollerOptions(schedule="*/10 * * * * *")

    def __init__(self, name: str, process: Process) -> None:
        self.name, self.runtime, self._process = name, process.runtime, process

    @property
    def handler(self) -> Handler:
        return lambda batch: None

    def tick(self, handler: Handler | None = None, *, stop: Event | None = None) -> TickResult:
        self._process.looks.append((self.runtime.monotonic(), self.name))
        if self.name in self._process.failing:
            raise SourceUnavailable("The database is out of reach for this process.")
        if self.name in self._process.hanging:
            self.runtime.sleep(100_000)
        return TickResult(outcome="idle")

    def emit(self, event: PollerEvent) -> None:
        raise AssertionError(event)


class Dice(Clockwork):
    """Chance that differs from draw to draw, and is the same in every run."""

    def __init__(self) -> None:
        super().__init__()
        self._drawn = 0

    def jitter(self, low: float, high: float) -> float:
        self._drawn = (self._drawn * 1_103_515_245 + 12_345) % 2**31
        return low + (high - low) * (self._drawn / 2**31)


class Process:
    """`poller run`. `looks`: when it looked at which poller."""

    def __init__(self, runtime: Dice, store: MemoryStore, *, slots: int = 100) -> None:
        self.runtime = runtime
        self.looks: list[tuple[float, str]] = []
        self.failing: set[str] = set()
        self.hanging: set[str] = set()
        self.stop = runtime.event()
        self.replicas = Replicas(store, "shop", runtime=runtime)
        runtime.start(
            lambda: run(
                [Look(name, self) for name in POLLERS],
                "forever",
                self.stop,
                max_concurrent=slots,
                replicas=self.replicas,
            )
        )

    def looked(self, since: float) -> Counter[str]:
        return Counter(name for at, name in self.looks if at >= since)


@pytest.fixture
def runtime() -> Dice:
    return Dice()


@pytest.fixture
def start(runtime: Dice) -> Callable[..., Process]:
    store = MemoryStore(runtime)
    return lambda **options: Process(runtime, store, **options)


Start = Callable[..., Process]


@pytest.mark.guarantee(
    "One worker at a time",
    "Processes that run the same pollers share the looks; a hint that is wrong, old, garbage or unreadable keeps no "
    "poller from being looked at",
)
def test_four_processes_look_little_more_than_one(runtime: Dice, start: Start) -> None:
    processes = [start() for _ in range(4)]
    runtime.sleep(60)
    runtime.sleep(600)
    looks = sum((process.looked(60) for process in processes), Counter[str]())
    assert all(looks[name] >= 58 for name in POLLERS), "each at every moment of its schedule"
    assert sum(looks.values()) < 1.3 * 60 * len(POLLERS), "alone it would be 60 each, unshared 240"


def test_a_process_that_ends_is_replaced_within_a_look(runtime: Dice, start: Start) -> None:
    first, second = start(), start()
    runtime.sleep(60)
    second.stop.set()
    runtime.sleep(30)
    looks = first.looked(runtime.monotonic() - 11)
    assert all(looks[name] for name in POLLERS)


def test_what_fails_in_one_process_another_takes(runtime: Dice, start: Start) -> None:
    """Its network, its credential: the others reach the database."""
    processes = [start() for _ in range(3)]
    runtime.sleep(60)
    processes[0].failing = set(POLLERS)
    runtime.sleep(60)
    looks = processes[1].looked(109) + processes[2].looked(109)
    assert all(looks[name] for name in POLLERS)


def test_what_waits_too_long_in_one_process_another_takes(runtime: Dice, start: Start) -> None:
    """Two slots, and two ticks that hang: the others are overdue there."""
    processes = [start(slots=2), start(), start()]
    runtime.sleep(60)
    processes[0].hanging = set(POLLERS)
    runtime.sleep(75)
    looks = processes[1].looked(124) + processes[2].looked(124)
    assert sum(looks[name] == 0 for name in POLLERS) <= 2


def test_who_stops_is_replaced_while_its_last_tick_still_runs(runtime: Dice, start: Start) -> None:
    first, second = start(), start()
    runtime.sleep(60)
    second.hanging = set(POLLERS)
    runtime.sleep(10)
    second.stop.set()
    runtime.sleep(30)
    looks = first.looked(runtime.monotonic() - 11)
    assert all(looks[name] for name in POLLERS)
