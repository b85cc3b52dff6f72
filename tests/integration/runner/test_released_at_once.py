"""A released lease is free at once (protocol 3), also where the store's clock and this machine's differ; and what a
tick reports where the release does not count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from poller.lease import ServerClock
from poller.model.expiry import RELEASE_WINDOW
from poller.stores import MemoryStore
from tests.integration.runner.clockwork import MIDNIGHT, Clockwork
from tests.integration.runner.fakes import World, Worlds, row
from tests.integration.runner.wire import Wire, preceded


class Server:
    """A store's clock beside the runtime's: `ahead` of it by some seconds, each of its seconds `pace` of the runtime's,
    given whole or exactly."""

    def __init__(self, runtime: Clockwork, *, pace: float = 1.0, whole: bool = False) -> None:
        self.ahead = 0.0
        self._runtime = runtime
        self._pace = pace
        self._whole = whole

    def utcnow(self) -> datetime:
        now = MIDNIGHT + timedelta(seconds=self.ahead + self._runtime.monotonic() * self._pace)
        return now.replace(microsecond=0) if self._whole else now


def on(world: World, server: Server) -> World:
    """The same world on a store that has this clock."""
    world.store = MemoryStore(server)
    world.wire = Wire(world.store)
    world.worker = world.another()
    return world


def outcomes(world: World, ticks: int, *, every: float) -> Counter[str]:
    """A tick every so often, each with a new row."""
    counted: Counter[str] = Counter()
    for _ in range(ticks):
        world.table.rows += [row(len(world.table.rows) + 1)]
        counted[world.tick().outcome] += 1
        world.runtime.sleep(every)
    return counted


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("step", [-0.9, -1.5, -2.2, -2.5, -2.9, -3.5, -3600.0, 2.5, 3600.0])
def test_a_store_whose_clock_stepped_delivers_at_every_tick(worlds: Worlds, step: float, whole: bool) -> None:
    """A fail-over to a server whose clock stands a little elsewhere."""
    world = worlds()
    server = Server(world.runtime, whole=whole)
    on(world, server)
    assert outcomes(world, 3, every=10.3) == {"delivered": 3}
    server.ahead += step
    assert outcomes(world, 12, every=10.3) == {"delivered": 12}


@pytest.mark.parametrize("pace", [0.998, pytest.param(1.002, marks=pytest.mark.soak)])
def test_clocks_that_drift_apart_for_days_keep_no_tick_out(worlds: Worlds, pace: float) -> None:
    """Whole seconds, as `Date` has them: the drift of weeks, in 400 ticks."""
    world = worlds()
    on(world, Server(world.runtime, pace=pace, whole=True))
    assert outcomes(world, 400, every=10.1) == {"delivered": 400}


def test_a_released_lease_stays_within_the_window_at_any_second(worlds: Worlds) -> None:
    """The answer that corrects the estimate may come right behind a full second, the release right before one."""
    for hundredth in range(0, 100, 7):
        world = worlds()
        server = Server(world.runtime, whole=True)
        on(world, server)
        outcomes(world, 1, every=10)
        server.ahead -= 2.0 + hundredth / 100
        assert outcomes(world, 3, every=9.93) == {"delivered": 3}


def test_a_slow_answer_moves_the_estimate_by_what_it_proves(worlds: Worlds) -> None:
    """It left the server somewhere between the question and its arrival; only what lies outside of that is wrong."""
    world = worlds()
    clock = ServerClock(world.runtime)
    clock.saw(MIDNIGHT + timedelta(seconds=0.5))
    asked = world.runtime.monotonic()
    world.runtime.sleep(8)
    clock.saw(MIDNIGHT + timedelta(seconds=0.6), sent=asked)
    assert clock.now() == MIDNIGHT + timedelta(seconds=8.5), "the server may have answered at once"
    asked = world.runtime.monotonic()
    world.runtime.sleep(2)
    clock.saw(MIDNIGHT + timedelta(seconds=5.5), sent=asked)
    assert clock.now() == MIDNIGHT + timedelta(seconds=6.5), "it cannot have been 8.5 then: between the two bounds"


@pytest.mark.parametrize("whole", [False, True])
def test_one_slow_answer_costs_no_tick(worlds: Worlds, whole: bool) -> None:
    world = worlds()
    on(world, Server(world.runtime, whole=whole))
    outcomes(world, 2, every=10.2)
    world.wire.read_faults.append(preceded(lambda: world.runtime.sleep(4)))
    assert outcomes(world, 3, every=10.2) == {"delivered": 3}


def test_a_held_lease_stays_held_when_the_stores_clock_steps(worlds: Worlds) -> None:
    """Stamps follow the store; whether a lease is free, they do not say."""
    for step in (-2.5, -1.2, 1.2):
        world = worlds(rows=1)
        server = Server(world.runtime)
        on(world, server)
        rival = world.another()
        outcomes(world, 1, every=10)
        seen: list[str] = []

        def busy(_: object, server: Server = server, step: float = step, world: World = world) -> None:
            server.ahead += step
            for _ in range(3):
                world.runtime.sleep(RELEASE_WINDOW / 4)
                seen.append(world.tick(worker=rival).outcome)  # noqa: B023 - called in this round

        world.table.rows += [row(10)]
        assert world.tick(busy).outcome == "delivered"
        assert seen == ["held_elsewhere"] * 3


def test_why_and_how_long_a_release_does_not_count_is_reported(worlds: Callable[..., World]) -> None:
    world = worlds(rows=5)
    world.tick()
    kept = world.body
    world.runtime.sleep(100)
    world.put(kept)
    world.table.rows.append({"id": 9, "updated_at": "2026-05-01T00:00:00.000000Z", "total": 1})
    world.runtime.sleep(5)
    result = world.tick(worker=world.another())
    assert result.outcome == "held_elsewhere"
    assert result.error is not None
    assert "was given back" in result.error
    assert "for another 60 s" in result.error
    world.runtime.sleep(60)
    assert world.tick(worker=world.another()).outcome == "delivered"
