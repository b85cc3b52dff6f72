"""Many pollers in one process: once, until no row is left, or for ever on their schedules; stopping without losing the
batch.

One loop, on the calling thread, decides whose turn it is (`turns`); turns are had on the threads of a `Crew`, so that
1,000 pollers that rest need none. What a poller does with its turn is its `Course`; what a tick does is the runner's
business.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Generic, Protocol, get_args, runtime_checkable

from poller.errors import ConfigError, PollerError
from poller.handler.call import Handler
from poller.ports import Event, Runtime, Source
from poller.runtime import SystemRuntime
from poller.worker.alive import AliveFile
from poller.worker.course import Course, Mode
from poller.worker.crew import Crew
from poller.worker.ends import Ended, P, Ticking
from poller.worker.replicas import Replicas
from poller.worker.slices import TurnStop
from poller.worker.turns import Turns

logger = logging.getLogger("poller")

SLICE = timedelta(seconds=30)
"""The default of `[run] slice`."""
LONGEST_REST = 30.0
"""Seconds after which the loop looks at the clock again: it may be set, and the machine may sleep."""
CLOCK_WAS_SET = 2.0
"""Seconds by which the wall clock may fall behind the other, from one look to the next, before it counts as set."""
_STOP_STEP = 10.0
"""Seconds: so long at most a thread that waits for `stop` outlives the loop."""


class Hourly(Protocol):
    """Work beside the ticks; `poller.admin.hourly_prune.HourlyPrunes` is one."""

    def left(self) -> float:
        """Seconds until it is due."""
        ...

    def run(self, stop: Event) -> object:
        """Do it, until `stop` is set. Raises nothing."""
        ...


def default_slots() -> int:
    """The default of `[run] max_concurrent`: the processors that this process may use, and 4."""
    usable = getattr(os, "sched_getaffinity", None)
    return (len(usable(0)) if usable is not None else os.cpu_count() or 1) + 4


def run(
    pollers: Iterable[P],
    mode: Mode = "forever",
    stop: Event | None = None,
    *,
    handler: Handler | None = None,
    before: Callable[[P], None] | None = None,
    ended: Callable[[Ended[P]], None] | None = None,
    max_concurrent: int | None = None,
    slice: timedelta = SLICE,  # noqa: A002 - as the option is called
    replicas: Replicas | None = None,
    alive: AliveFile | None = None,
    hourly: Hourly | None = None,
) -> list[Ended[P]]:
    """Run pollers, and return when all have ended. One poller's error ends no other, and none keeps others waiting.

    Args:
        pollers: each is run once, however often it is named. They stay open.
        mode: "once": one tick of each. "until_idle": until no row is left; a call that failed is made again when its
            time has come. Rows that are aside until later, or wait for a person, are not waited for: `Ended.result`
            counts them. What only a person can end (paused, halted, blocked) ends it, as does an exception.
            "forever": on each poller's schedule until `stop`; a tick that raised is tried again, after a pause that
            doubles up to 5 minutes. A poller whose configuration is wrong ends
            all the same, and one whose checkpoint belongs to another source ends once no other works: only an operator
            can fix that.
        stop: when it is set, no further batch starts; those in hand are finished and committed. A handler that hangs,
            and has lost its lease for that, is left behind.
        handler: called with each batch of each poller; default: the configured ones.
        before: called with each poller on its thread, before its first tick.
        ended: called as each poller ends, on the calling thread: the others may go on for days.
        max_concurrent: the most ticks at once, at most half of them (at least one) on one database server, those that
            wait in their handlers not counted; with no more pollers than that each may tick at any time. Default: the
            number of processors and 4.
        slice: how long a tick goes on while others wait for a turn. One that does not end then goes on beside them, at
            most four for each of `max_concurrent`. Not with "once".
        replicas: other processes that run the same pollers, to share the looks with; only with "forever".
        alive: touched while the loop goes round.
        hourly: done beside the ticks when it is due, on a thread of its own that nothing waits for; only with
            "forever".
    Returns: how each ended, in the order of `pollers`.
    Raises: ConfigError (`mode`, `max_concurrent`); what `ended` raises. Whatever is raised here, KeyboardInterrupt
        included, sets `stop`.
    """
    if mode not in get_args(Mode):
        raise ConfigError(f"mode: {mode!r} is none of {', '.join(get_args(Mode))}.", key="mode")
    slots = default_slots() if max_concurrent is None else max_concurrent
    if slots < 1:
        raise ConfigError(f"max_concurrent: {slots} is less than 1.", key="max_concurrent")
    chosen = list(dict.fromkeys(pollers))
    runtime = chosen[0].runtime if chosen else SystemRuntime()
    watched, stop = stop is not None, stop or runtime.event()
    loop = _Loop(
        {poller: Course(poller, mode, handler, before) for poller in chosen},
        stop,
        watched=watched,
        runtime=runtime,
        slots=slots,
        seconds=float("inf") if mode == "once" else slice.total_seconds(),
        replicas=replicas if mode == "forever" else None,
        alive=alive,
        hourly=hourly if mode == "forever" else None,
    )
    try:
        known = loop.run(ended)
    except BaseException:
        stop.set()  # no caller is left to hear how the others end
        raise
    finally:
        loop.close()
    return [known[poller] for poller in chosen]


class _Loop(Generic[P]):
    """The one loop. Its own thread has all of it but `_arrived`, which the others add to."""

    def __init__(
        self,
        courses: dict[P, Course[P]],
        stop: Event,
        *,
        watched: bool,
        runtime: Runtime,
        slots: int,
        seconds: float,
        replicas: Replicas | None,
        alive: AliveFile | None,
        hourly: Hourly | None,
    ) -> None:
        self._courses = courses
        self._working = set(courses)
        """The pollers that may still do something: not those that wait for their source to be put right."""
        self._stop = stop
        self._watched = watched
        self._runtime = runtime
        self._replicas = replicas
        self._alive = alive
        self._hourly = hourly
        self._hourly_at_work = False
        self._crew = Crew(runtime)
        self._stops: dict[P, TurnStop] = {}
        self._until: dict[P, float] = {}
        """The moment at which each one that has a turn counts as hung, on the monotonic clock: the other may be set
        meanwhile."""
        self._turns = Turns[P](
            slots,
            slice=seconds,
            draw=lambda: runtime.jitter(0.0, 1.0),
            postponed=self._postponed,
            in_handler=lambda poller: self._stops[poller].in_handler,
        )
        self._lock = threading.Lock()
        self._arrived: list[tuple[P, Ended[P] | datetime]] = []
        self._woken = runtime.event()
        self._over = self._leaves = False
        self._wall = 0.0

    # --- the loop --------------------------------------------------------------------------------------------------

    def run(self, ended: Callable[[Ended[P]], None] | None) -> dict[P, Ended[P]]:
        """How each ended."""
        known: dict[P, Ended[P]] = {}
        now = self._now()
        self._wall = now - self._runtime.monotonic()
        for poller in self._courses:
            self._turns.join(poller, server_of(poller), now, longest=_longest(poller))
        if self._replicas is not None:
            looks = sum(60 / course.interval() for course in self._courses.values())
            self._replicas.begin([poller.name for poller in self._courses], looks)
        if self._watched:
            self._crew.do(self._watch_stop, "poller-stop")
        while self._courses:
            for end in self._round():
                del self._courses[end.poller]
                known[end.poller] = end
                if ended is not None:
                    ended(end)
            if self._courses:
                self._rest()
        return known

    def close(self) -> None:
        """Let the threads end that have nothing to do, and others know that this process leaves."""
        self._over = True
        self._crew.close()
        if self._replicas is not None:
            self._replicas.end()
        if self._alive is not None:
            self._alive.remove()

    def _round(self) -> list[Ended[P]]:
        """Take in who is done, give turns, ask for some back; who ended meanwhile."""
        if self._alive is not None:
            self._alive.touch()
        back = [(poller, result) for poller, result in self._taken() if poller in self._until]
        ends = [end for poller, result in back if (end := self._is_back(poller, result)) is not None]
        if self._stop.is_set():
            if self._replicas is not None and not self._leaves:
                self._leaves = True
                with suppress(RuntimeError):  # no room for a thread: `close` does it
                    self._crew.do(self._replicas.end, "poller-replicas")
            ends += [self._leave(poller, self._courses[poller].stopped()) for poller in self._turns.resting()]
            ends += [self._leave(poller, self._courses[poller].abandoned()) for poller in self._hung()]
            return ends
        if not self._working:
            waiting = [poller for poller in self._turns.resting() if self._courses[poller].mismatch is not None]
            ends += [self._leave(poller, self._courses[poller].stopped()) for poller in waiting]
        self._notice_the_clock()
        now = self._now()
        for poller in self._turns.let_go(now):
            logger.warning("%s: its tick should have ended; others no longer wait for it", poller.name)
        while (next_one := self._turns.start(now)) is not None:
            self._begin(next_one)
        for poller in self._turns.to_yield(now):
            self._stops[poller].set()
        if self._replicas is not None:
            self._replicas.keep(self._crew, self._overdue)
        if self._hourly is not None and not self._hourly_at_work and self._hourly.left() <= 0:
            self._do(self._hourly)
        return ends

    def _do(self, hourly: Hourly) -> None:
        def work() -> None:
            try:
                hourly.run(self._stop)
            finally:
                self._hourly_at_work = False

        self._hourly_at_work = True
        try:
            self._crew.do(work, "poller-hourly")
        except RuntimeError:  # no room for a thread: a later round tries
            self._hourly_at_work = False

    def _rest(self) -> None:
        """Wait until a turn is over, or time changes something."""
        left, now = LONGEST_REST, self._now()
        if self._alive is not None:
            left = min(left, self._alive.left())
        if self._stop.is_set():
            left = max(0.0, min([left, *(until - self._runtime.monotonic() for until in self._until.values())]))
        else:
            moment = self._turns.next_moment(now)
            left = left if moment is None else min(left, moment - now)
            left = left if self._replicas is None else min(left, self._replicas.left())
        with self._lock:
            if self._arrived:
                return
            self._woken = self._runtime.event()
            if self._stop.is_set() and self._turns.resting():
                return
        if left > 0:
            self._woken.wait(left)

    # --- turns -----------------------------------------------------------------------------------------------------

    def _begin(self, poller: P) -> None:
        course = self._courses[poller]
        stop = self._stops[poller] = TurnStop(self._stop, self._runtime.event())
        self._until[poller] = self._runtime.monotonic() + _longest(poller)
        try:
            self._crew.do(lambda: self._arrive((poller, course.turn(stop))), f"poller-{poller.name}")
        except RuntimeError as error:  # no room for a thread
            self._arrive((poller, course.not_begun(error)))

    def _is_back(self, poller: P, result: Ended[P] | datetime) -> Ended[P] | None:
        """Its turn is over."""
        self._stops.pop(poller, None)
        del self._until[poller]
        if isinstance(result, Ended):
            return self._leave(poller, result)
        if self._courses[poller].mismatch is None:
            self._working.add(poller)
        else:
            self._working.discard(poller)
        self._turns.put_back(poller, result.timestamp())
        return None

    def _leave(self, poller: P, end: Ended[P]) -> Ended[P]:
        self._working.discard(poller)
        self._until.pop(poller, None)
        self._turns.leave(poller)
        return end

    def _hung(self) -> list[P]:
        """Those whose turn lasts for longer than it may: their leases have expired, and nothing can be committed."""
        now = self._runtime.monotonic()
        return [poller for poller, until in self._until.items() if now >= until]

    def _postponed(self, poller: P) -> float | None:
        """The moment of the next check, if another process is the one to check."""
        course = self._courses[poller]
        if self._replicas is None or not course.scheduled:
            return None
        if self._replicas.wants(poller.name, course.interval):
            return None
        return course.next_scheduled().timestamp()

    def _overdue(self) -> list[str]:
        """The pollers that another process should look at: this one has not come to it, or failed."""
        now = self._now()
        late = {
            poller: due
            for poller, due in self._turns.overdue(now)
            if now >= due + min(max(self._courses[poller].interval(), LEAST_LATE), MOST_LATE)
        }
        failing = [poller for poller, course in self._courses.items() if course.failures]
        return [poller.name for poller in dict.fromkeys([*sorted(late, key=late.__getitem__), *failing])]

    # --- threads and clocks ----------------------------------------------------------------------------------------

    def _arrive(self, *done: tuple[P, Ended[P] | datetime]) -> None:
        """On a thread of the crew: a turn is over, or there is something to look at."""
        with self._lock:
            self._arrived += done
            woken = self._woken
        woken.set()

    def _taken(self) -> list[tuple[P, Ended[P] | datetime]]:
        with self._lock:
            taken, self._arrived = self._arrived, []
        return taken

    def _watch_stop(self) -> None:
        """A signal handler sets `stop` on the loop's own thread, where nothing must be locked: so another waits."""
        while not self._over:
            if self._stop.wait(_STOP_STEP):
                self._arrive()
                return

    def _now(self) -> float:
        return self._runtime.utcnow().timestamp()

    def _notice_the_clock(self) -> None:
        """Where the wall clock was set back, the schedules' next moments are others; where it was set ahead, moments
        have passed, and are made up for."""
        wall = self._now() - self._runtime.monotonic()
        if wall < self._wall - CLOCK_WAS_SET:
            self._turns.clock_was_set(self._now(), self._moment)
        self._wall = wall

    def _moment(self, poller: P) -> float:
        return self._courses[poller].clock_was_set().timestamp()


LEAST_LATE, MOST_LATE = 5.0, 60.0
"""Seconds: a poller is overdue after one interval of its schedule, but not before and not after these."""


@runtime_checkable
class _WithSource(Protocol):
    @property
    def source(self) -> Source: ...


def server_of(poller: Ticking) -> str:
    """Which database server its ticks wait for: host and port, an embedded file by its path; its own name where that is
    not known. Opens nothing."""
    if not isinstance(poller, _WithSource):
        return f"of {poller.name}"
    try:
        database = poller.source.describe().database
    except PollerError:
        return f"of {poller.name}"
    if database.host is None:
        return f"{database.dialect} {database.database}"
    return f"{database.dialect} {database.host}:{database.port}"


def _longest(poller: Ticking) -> float:
    """Seconds after which a tick has hung, for all that is known: it may take `tick_timeout`, and one call more."""
    options = poller.options
    return (options.tick_timeout + options.handler_limit + options.lease_ttl).total_seconds() + 60.0
