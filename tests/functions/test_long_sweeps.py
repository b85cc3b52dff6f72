"""Many nightly pollers of timers, all of which missed their moment; some have much to do. Time is passed in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import azure.functions as func
import pytest

from poller import Batch, Poller
from poller.functions import UnsuccessfulTick, on_timer
from poller.stores import MemoryStore
from tests.functions import host
from tests.integration.runner.fakes import Table, row
from tests.integration.worker.clock import Clock

DAY, FIVE_MINUTES = 24 * 3600.0, 300.0


class Night:
    """The app of some pollers, whose batches of one row take so many seconds.

    Attributes:
        seen: of each poller, when which row came. sweeps: how many seconds each sweep took.
    """

    def __init__(self) -> None:
        self.clock = Clock()
        self.store = MemoryStore(self.clock)
        self.app = func.FunctionApp()
        self.seen: dict[str, list[tuple[float, int]]] = defaultdict(list)
        self.rows: dict[str, int] = {}
        self.sweeps: list[float] = []

    def add(self, name: str, rows: int, *, seconds: float, **options: Any) -> None:
        """One more poller, which has missed a night with so many rows when sweeps begin."""
        source = Table(self.clock, [])
        self.rows[name] = rows
        poller = Poller(
            name,
            app_name="shop",
            source=source,
            store=self.store,
            runtime=self.clock,
            observers=[],
            **{"schedule": "0 0 2 * * *", "batch_size": 1, "read_ahead": 0, **options},
        )

        def handle(batch: Batch) -> None:
            self.seen[name] += [(self.clock.passed, one["id"]) for one in batch]
            self.clock.sleep(seconds)

        on_timer(self.app, poller, name=name)(handle)
        poller.tick(handle)
        source.rows += [row(number) for number in range(1, rows + 1)]

    def missed(self) -> Night:
        """It is the night after, five minutes past two."""
        self.clock.sleep(DAY + 2 * 3600 + FIVE_MINUTES - self.clock.passed)
        return self

    def sweep(self, *, times: int = 1) -> None:
        """As the host calls it, every five minutes, but not before the last call has returned."""
        (name,) = [one for one in self.worker.functions if one.endswith("_sweep")]
        for _ in range(times):
            began = self.clock.passed
            self.worker.invoke(name)
            self.sweeps.append(self.clock.passed - began)
            self.clock.sleep(max(0.0, FIVE_MINUTES - self.sweeps[-1]))

    @cached_property
    def worker(self) -> host.Worker:
        """The one that the host calls."""
        return host.Worker(self.app)

    def delivered(self, name: str) -> bool:
        """Whether each of its rows came, in order and once."""
        return [number for _, number in self.seen[name]] == list(range(1, self.rows[name] + 1))


@pytest.fixture
def night(monkeypatch: pytest.MonkeyPatch) -> Iterator[Night]:
    monkeypatch.setenv("AzureFunctionsJobHost__functionTimeout", "01:00:00")
    made = Night()
    yield made
    made.clock.close()


@pytest.mark.guarantee(
    "One worker at a time",
    "In a sweep of timers no poller with much to do delays another, nor the next sweep",
)
def test_many_long_ticks_delay_no_other_poller(night: Night) -> None:
    for number in range(12):
        night.add(f"long-{number}", 50, seconds=10)
    for number in range(6):
        night.add(f"short-{number}", 1, seconds=0.1)
    began = night.missed().clock.passed
    night.sweep()
    for name in night.rows:
        assert night.seen[name][0][0] - began < 120, name
    night.sweep(times=10)
    assert all(night.delivered(name) for name in night.rows)
    assert max(night.sweeps) < FIVE_MINUTES - 30


def test_a_call_that_takes_long_delays_no_other_poller(night: Night) -> None:
    for number in range(12):
        night.add(f"slow-{number}", 1, seconds=200, lease_ttl="60s")
    night.add("short", 1, seconds=0.1)
    began = night.missed().clock.passed
    night.sweep()
    ((at, _),) = night.seen["short"]
    assert at - began < 100
    assert all(night.delivered(name) for name in night.rows)


@pytest.mark.parametrize("most", [30.0, 1800.0])
def test_a_sweep_ends_before_the_next_one(night: Night, most: float) -> None:
    """However long a tick may take, and before the host ends one that may not take so long."""
    night.add("long", 1000, seconds=5, tick_timeout=f"{most:g}s", handler_timeout="20s")
    night.missed().sweep(times=3)
    assert max(night.sweeps) <= min(most, 240.0)
    assert len(night.seen["long"]) >= 3 * (min(most, 240.0) / 5 - 2)


def test_a_limit_of_calls_holds_for_a_sweep_too(night: Night) -> None:
    night.add("limited", 3, seconds=1, max_batches_per_tick=1)
    night.missed()
    for calls in (1, 2, 3):
        night.sweep()
        assert len(night.seen["limited"]) == calls


def test_a_handler_that_hangs_is_left_behind_and_fails_the_sweep(night: Night) -> None:
    night.add("hangs", 1, seconds=1000, tick_timeout="30s", handler_timeout="20s")
    night.add("works", 100, seconds=5)
    night.missed()
    with pytest.raises(UnsuccessfulTick, match="poller hangs: lease_lost: its tick does not end"):
        night.sweep()
    night.sweep(times=3)
    assert night.delivered("works")
