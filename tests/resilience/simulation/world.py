"""Virtual time, and who runs next.

Every thread of every simulated process is a greenlet, an *actor*. An actor runs until it waits: for a time, for an
event, for an answer of the store. Then the earliest waiter goes on, and among equals a seeded choice. No real time
passes and nothing runs in parallel, so a seed repeats to the letter.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from typing import TypeAlias, cast

from greenlet import GreenletExit, getcurrent, greenlet

Action: TypeAlias = Callable[[], None]


class Process:
    """A simulated process: actors that crash and stop together, and clocks of its own.

    Attributes:
        offset, rate: its monotonic clock shows `offset + rate * now`.
        skew: how many seconds its wall clock is ahead of true time.
        stopped_until: none of its actors runs before (SIGSTOP, or a C call that keeps the interpreter).
        held_up_until: until when it was stopped last, or one of its actors was held up.
        scope: which tick or command it is at.
        dies_at_step: it crashes at so many-th call into the simulation; 0: it does not.
    """

    def __init__(self, name: str, *, offset: float = 0.0, rate: float = 1.0, skew: float = 0.0) -> None:
        self.name = name
        self.offset = offset
        self.rate = rate
        self.skew = skew
        self.actors: list[Actor] = []
        self.dead = False
        self.stopped_until = 0.0
        self.held_up_until = 0.0
        self.scope = 0
        self.steps = 0
        self.dies_at_step = 0

    def clock(self, now: float) -> float:
        """What its monotonic clock shows at a true time."""
        return self.offset + self.rate * now


class Actor:
    """One thread of a process.

    Attributes:
        known: what it last read from its process's clock; None once it has waited since.
        scope: which tick it was started by; the process's first actor belongs to every tick.
    """

    __slots__ = ("greenlet", "joiners", "known", "name", "process", "scope", "ticket")

    def __init__(self, process: Process, name: str) -> None:
        self.process = process
        self.name = name
        self.ticket = 0
        self.scope = process.scope if process.actors else None
        self.known: float | None = None
        self.joiners: list[Actor] = []
        self.greenlet: greenlet


class World:
    """The scheduler. `now` is true time in seconds, known to nobody inside.

    Attributes:
        stall_rate: how likely an actor is held up at a call into the simulation; stall: for how long at most.
        violation: the first law that was broken, None while all hold.
        log: what happened, line by line; None where nobody will read it.
    """

    def __init__(self, rng: random.Random, *, logged: bool = False) -> None:
        self.rng = rng
        self.now = 0.0
        self.steps = 0
        self.stall_rate = 0.0
        self.stall = 0.0
        self.violation: str | None = None
        self.log: list[str] | None = [] if logged else None
        self.current: Actor | None = None
        self.processes: list[Process] = []
        self._queue: list[tuple[float, float, int, Actor | Action, int]] = []
        self._pushed = 0
        self._hub = getcurrent()
        self._doomed: list[Process] = []
        self.on_death: Callable[[Process], None] = lambda process: None

    # --- what is scheduled -----------------------------------------------------------------------------------------

    def at(self, when: float, action: Action) -> None:
        """Let something happen at a true time, whoever is alive then."""
        self._push(when, action, 0)

    def start(self, process: Process, target: Action, name: str) -> Actor:
        """A new actor, which begins in its turn."""
        actor = Actor(process, f"{process.name}/{name}")

        def run() -> None:
            try:
                target()
            except GreenletExit:
                pass
            except Exception as error:  # noqa: BLE001 - a thread that dies is a finding, not the simulation's end
                self.fail(f"{actor.name} died of {type(error).__name__}: {error}")
            for joiner in tuple(actor.joiners):
                self.wake(joiner)

        actor.greenlet = greenlet(run, parent=self._hub)
        if not process.actors:
            self.processes.append(process)
        process.actors.append(actor)
        self._push(self.now, actor, 0)
        return actor

    def wait(self, seconds: float | None) -> None:
        """The current actor waits for so long, or until it is woken; its knowledge of the time is stale afterwards."""
        actor = self.me()
        actor.ticket += 1
        if seconds is not None and seconds != float("inf"):
            self._push(self.now + max(0.0, seconds), actor, actor.ticket)
        self._hub.switch()
        actor.known = None

    def wake(self, actor: Actor) -> None:
        """Let a waiting actor go on, in its turn."""
        self._push(self.now, actor, actor.ticket)

    def point(self, process: Process) -> None:
        """A call into the simulation: here a process may die, and an actor may be held up."""
        if process.dead:
            raise GreenletExit
        process.steps += 1
        if process.steps == process.dies_at_step:
            self.kill(process)
            raise GreenletExit
        actor = self.current
        if actor is not None and self.stall_rate and self.rng.random() < self.stall_rate:
            known = actor.known
            self.wait(self.rng.random() * self.stall)
            process.held_up_until = max(process.held_up_until, self.now)
            actor.known = known

    def me(self) -> Actor:
        """The actor that runs now."""
        assert self.current is not None, "only an actor can do this"
        return self.current

    # --- what goes wrong -------------------------------------------------------------------------------------------

    def kill(self, process: Process) -> None:
        """SIGKILL: no actor of it does anything any more. What it has sent is on its way all the same."""
        if not process.dead:
            process.dead = True
            self._doomed.append(process)
            self.say(process.name, "KILLED")

    def stop(self, process: Process, seconds: float) -> None:
        """SIGSTOP and, so much later, SIGCONT. Its clocks go on."""
        process.stopped_until = max(process.stopped_until, self.now + seconds)
        process.held_up_until = max(process.held_up_until, process.stopped_until)
        self.say(process.name, "STOPPED until %.3f", process.stopped_until)

    def fail(self, message: str) -> None:
        """A law is broken. The first one counts."""
        if self.violation is None:
            self.violation = message
            self.say("LAW", message)

    def say(self, who: str, text: str, *facts: object) -> None:
        """One line of the log."""
        if self.log is not None:
            self.log.append(f"{self.now:10.3f}  {who:<18} {text % facts if facts else text}")

    # --- the loop --------------------------------------------------------------------------------------------------

    def run(self, until: float, after_step: Action, done: Callable[[], bool]) -> bool:
        """Go on until a true time, or until `done`; whether it was. Stops at the first broken law."""
        queue = self._queue
        while queue and queue[0][0] <= until:
            when, _, _, item, ticket = heapq.heappop(queue)
            if isinstance(item, Actor):
                process = item.process
                if process.dead or item.ticket != ticket or item.greenlet.dead:
                    continue
                if process.stopped_until > when:
                    self._push(process.stopped_until, item, ticket)
                    continue
                self.now = when
                self.current = item
                item.greenlet.switch()
                self.current = None
            else:
                self.now = when
                item()
            self.steps += 1
            self._bury()
            after_step()
            if self.violation is not None:
                return False
            if done():
                return True
        self.now = max(self.now, until)
        return done()

    def end(self) -> None:
        """Unwind what is left."""
        for process in self.processes:
            self.kill(process)
        self._bury()

    def _bury(self) -> None:
        while self._doomed:
            process = self._doomed.pop()
            for actor in process.actors:
                if not actor.greenlet.dead:
                    actor.greenlet.throw(GreenletExit)
            self.on_death(process)

    def _push(self, when: float, item: Actor | Action, ticket: int) -> None:
        self._pushed += 1
        heapq.heappush(self._queue, (when, self.rng.random(), self._pushed, item, ticket))


class SimEvent:
    """`threading.Event` among actors."""

    def __init__(self, world: World, process: Process) -> None:
        self._world = world
        self._process = process
        self._set = False
        self._waiters: list[Actor] = []

    def set(self) -> None:
        self._world.point(self._process)
        self.fire()

    def fire(self) -> None:
        """Set it from outside, as a signal handler would."""
        self._set = True
        for actor in self._waiters:
            self._world.wake(actor)
        self._waiters.clear()

    def is_set(self) -> bool:
        return self._set

    def wait(self, timeout: float | None = None) -> bool:
        self._world.point(self._process)
        if self._set:
            return True
        actor = self._world.me()
        self._waiters.append(actor)
        self._world.wait(None if timeout is None else timeout / self._process.rate)
        if actor in self._waiters:
            self._waiters.remove(actor)
        return cast("bool", self._set)


class SimLock:
    """`threading.Lock` among actors: any waiter may get it, as with the real one."""

    def __init__(self, world: World, process: Process) -> None:
        self._world = world
        self._process = process
        self._taken = False
        self._waiters: list[Actor] = []

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        world = self._world
        world.point(self._process)
        end = None if timeout < 0 else world.now + timeout / self._process.rate
        while self._taken:
            if not blocking or (end is not None and world.now >= end):
                return False
            actor = world.me()
            self._waiters.append(actor)
            world.wait(None if end is None else end - world.now)
            if actor in self._waiters:
                self._waiters.remove(actor)
        self._taken = True
        return True

    def release(self) -> None:
        self._world.point(self._process)
        self._taken = False
        for actor in self._waiters:
            self._world.wake(actor)
        self._waiters.clear()
