"""`poller.ports.Runtime` inside the simulation: this process's wrong clocks, its actors, the schedule's chance."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from tests.resilience.simulation.world import Actor, Process, SimEvent, SimLock, World

EPOCH = datetime(2026, 4, 7, tzinfo=UTC)
"""True time 0."""


class SimTask:
    """An actor that was spawned."""

    def __init__(self, world: World, actor: Actor) -> None:
        self._world = world
        self._actor = actor

    def join(self, timeout: float | None = None) -> None:
        self._world.point(self._actor.process)
        if self.is_alive():
            me = self._world.me()
            self._actor.joiners.append(me)
            self._world.wait(timeout)
            self._actor.joiners.remove(me)

    def is_alive(self) -> bool:
        return not self._actor.greenlet.dead


class SimRuntime:
    """Every call is a point at which the process may die and the caller may be held up."""

    def __init__(self, world: World, process: Process) -> None:
        self.world = world
        self.process = process

    def monotonic(self) -> float:
        value = self.process.clock(self.world.now)
        if self.world.current is not None:
            self.world.current.known = value
        self.world.point(self.process)
        return value

    def utcnow(self) -> datetime:
        if self.process.dead:
            self.world.point(self.process)
        return EPOCH + timedelta(seconds=self.world.now + self.process.skew)

    def sleep(self, seconds: float) -> None:
        self.world.point(self.process)
        self.world.wait(seconds / self.process.rate)

    def event(self) -> SimEvent:
        return SimEvent(self.world, self.process)

    def lock(self) -> SimLock:
        return SimLock(self.world, self.process)

    def spawn(self, target: Callable[[], None], name: str) -> SimTask:
        self.world.point(self.process)
        return SimTask(self.world, self.world.start(self.process, target, name.removeprefix("poller-")))

    def jitter(self, low: float, high: float) -> float:
        return self.world.rng.uniform(low, high)

    def new_id(self) -> str:
        self.world.point(self.process)
        return f"{self.world.rng.getrandbits(128):032x}"
