"""What the timers of an app left: rows, because a worker was killed or had no time, a call that failed, a moment that
was missed. Their schedules' next moments may be a night off, so one further timer looks every five minutes.

A check is one conditional GET of a poller's document; if that says that there is something to do, the sweep ticks,
under the poller's own lease. It looks only at pollers whose schedule has pauses of more than five minutes: of the
others the next tick is the retry.

Pollers have their turns as in `poller.worker.run`: as many ticks at once as there are processors, and 4; one that goes
on for long lets others in. A sweep ends soon enough for the next one: what it leaves, that one goes on with.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Lock

from poller.config import PollerOptions
from poller.errors import PollerError
from poller.functions.outcome import raise_on_failure
from poller.handler.call import Handler
from poller.model.schedule import schedule_of
from poller.observability import PollerEvent
from poller.observability.events import raised
from poller.poller import Poller
from poller.ports import Event, Runtime, Source
from poller.tick.result import TickResult
from poller.worker import run
from poller.worker.course import asks_for_no_more
from poller.worker.slices import TurnStop

logger = logging.getLogger("poller")

SCHEDULE = "30 2-59/5 * * * *"
"""Not at the moments at which most schedules fall due: their own timers are at work then."""
LASTS = 240.0
"""Seconds after which a sweep begins no further batch, so that the next one comes in time; less for a poller whose
`tick_timeout` is less."""
_NOTHING = TickResult(outcome="idle")


class Sweep:
    """The pollers of one app whose schedules have long pauses."""

    def __init__(self) -> None:
        self._pollers: dict[Poller, Handler | None] = {}
        self._nothing_at: dict[Poller, str] = {}
        """What `unfinished` said though there was nothing to do."""
        self._busy = Lock()

    def __bool__(self) -> bool:
        """True if there is any."""
        return bool(self._pollers)

    def add(self, poller: Poller, handler: Handler | None) -> bool:
        """Look at this poller too, if its schedule has long pauses; True if it has. `handler`: as of `Poller.tick`."""
        if not schedule_of(poller.options.schedule).may_rest:
            return False
        self._pollers[poller] = handler
        return True

    def run(self) -> None:
        """Look at each, and tick if something was left or missed. One poller's failure keeps no other from its tick.

        Raises: the first failure, as a timer's tick raises it, after all others were served.
        """
        if not self._pollers or not self._busy.acquire(blocking=False):
            return  # the sweep before still runs
        try:
            self._run()
        finally:
            self._busy.release()

    def _run(self) -> None:
        runtime = next(iter(self._pollers)).runtime
        stop, over, began = runtime.event(), runtime.event(), runtime.monotonic()

        def end() -> None:
            if not over.wait(LASTS):
                stop.set()

        runtime.spawn(end, "poller-sweep")
        swept = [_Swept(poller, handler, self._nothing_at, began) for poller, handler in self._pollers.items()]
        try:
            ends = run(swept, "until_idle", stop)
        finally:
            over.set()
        failures = [error for one in ends if (error := one.exception or one.poller.hung()) is not None]
        for other in failures[1:]:
            logger.error("%s", other if isinstance(other, PollerError) else type(other).__name__)
        if failures:
            raise failures[0]


class _Swept:
    """A poller, as `run` sees it: it ticks only if something was left or missed, and again only if it let others in."""

    def __init__(self, poller: Poller, handler: Handler | None, nothing_at: dict[Poller, str], began: float) -> None:
        self._poller = poller
        self._handler = handler
        self._nothing_at = nothing_at
        self._began = began
        self._lasts = min(LASTS, poller.options.tick_timeout.total_seconds())
        self._is_over = self._is_at_work = False
        self.name: str = poller.name
        self.options: PollerOptions = poller.options
        self.runtime: Runtime = poller.runtime
        self.source: Source = poller.source

    @property
    def handler(self) -> Handler:
        """Its own, or the configured one. Raises: ConfigError."""
        return self._poller.handler if self._handler is None else self._handler

    def emit(self, event: PollerEvent) -> None:
        """See `Poller.emit`."""
        self._poller.emit(event)

    def tick(self, handler: Handler | None = None, *, stop: Event | None = None) -> TickResult:
        """Check, and tick if there is something to do. Raises: as a timer's tick."""
        poller, passed = self._poller, self.runtime.monotonic() - self._began
        if self._is_over or not isinstance(stop, TurnStop) or passed > self._lasts / 2:
            return _NOTHING  # a first call that begins so late may take too long: the next sweep makes it
        self._is_over = True
        found = poller.unfinished()
        if found is None or found == self._nothing_at.get(poller):
            return _NOTHING
        logger.info("%s: rows are left, or a moment of its schedule was missed: it ticks now.", poller.name)
        before, self._is_at_work = raised.set(True), True
        try:
            result = poller.tick(handler or self._handler, stop=_InTime(stop, self.runtime, self._began + self._lasts))
        finally:
            self._is_at_work = False
            raised.reset(before)
        if asks_for_no_more(result):
            self._nothing_at[poller] = found
        raise_on_failure(poller, result)
        self._is_over = not stop.cut
        return result if stop.cut else _NOTHING

    def hung(self) -> Exception | None:
        """What fails the sweep, if its tick was left behind: it has lost its lease."""
        try:
            if self._is_at_work:
                raise_on_failure(self._poller, TickResult(outcome="lease_lost", error="its tick does not end"))
        except Exception as error:  # noqa: BLE001 - raised once all were served
            return error
        return None


class _InTime:
    """The stop of one tick, a `PatientStop`: it is also set once another call might not end in time, judged by the
    longest one so far."""

    def __init__(self, turn: TurnStop, runtime: Runtime, ends: float) -> None:
        self._turn = turn
        self._runtime = runtime
        self._ends = ends
        self._last = runtime.monotonic()
        self._longest: float | None = None

    def set(self) -> None:
        """End after the batch in hand."""
        self._turn.set()

    def progressed(self) -> None:
        """A call was made."""
        now = self._runtime.monotonic()
        self._longest, self._last = max(self._longest or 0.0, now - self._last), now
        self._turn.progressed()

    def watch(self, in_handler: Callable[[], float]) -> None:
        """A tick begins."""
        self._turn.watch(in_handler)

    def is_set(self) -> bool:
        """True if no further batch may start."""
        late = self._longest is not None and self._runtime.monotonic() + self._longest >= self._ends
        return late or self._turn.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until no further batch may start."""
        return self.is_set() or self._turn.wait(timeout)
