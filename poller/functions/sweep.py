"""What the timers of an app left: rows, because a worker was killed or had no time, a call that failed, a moment that
was missed. Their schedules' next moments may be a night off, so one further timer looks every five minutes.

A look is one conditional GET of a poller's document; if that says that there is something to do, the sweep ticks,
under the poller's own lease. It looks only at pollers whose schedule has pauses of more than five minutes: of the
others the next tick is the retry.
"""

from __future__ import annotations

import contextvars
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

from poller.errors import PollerError
from poller.functions.outcome import raise_on_failure
from poller.handler.call import Handler
from poller.model.schedule import schedule_of
from poller.observability.events import raised
from poller.poller import Poller
from poller.worker.course import asks_for_no_more

logger = logging.getLogger("poller")

SCHEDULE = "30 2-59/5 * * * *"
"""Not at the moments at which most schedules fall due: their own timers are at work then."""
AT_ONCE = 4
"""So many pollers are looked at side by side."""
BEGINS_WITHIN = 10.0
"""No tick begins later than so many seconds after the sweep: the host ends an invocation at `functionTimeout`, and only
some 15 s lie between that and `tick_timeout`. Whose turn did not come is looked at by the next sweep."""


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
        ends = runtime.monotonic() + BEGINS_WITHIN
        shuffled = sorted(self._pollers, key=lambda _: runtime.jitter(0.0, 1.0))
        failures: list[Exception] = []

        def serve(poller: Poller) -> None:
            try:
                if runtime.monotonic() < ends:
                    self._serve(poller)
            except Exception as error:  # noqa: BLE001 - raised once all were served
                failures.append(error)

        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="poller-sweep") as pool:
            for poller in shuffled:
                pool.submit(_here(serve), poller)
        for other in failures[1:]:
            logger.error("%s", other if isinstance(other, PollerError) else type(other).__name__)
        if failures:
            raise failures[0]

    def _serve(self, poller: Poller) -> None:
        found = poller.unfinished()
        if found is None or found == self._nothing_at.get(poller):
            return
        logger.info("%s: rows are left, or a moment of its schedule was missed: it ticks now.", poller.name)
        before = raised.set(True)
        try:
            result = poller.tick(self._pollers[poller])
        finally:
            raised.reset(before)
        if asks_for_no_more(result):
            self._nothing_at[poller] = found
        raise_on_failure(poller, result)


def _here(job: Callable[[Poller], None]) -> Callable[[Poller], None]:
    """The job in this thread's context, by which the host knows the log lines of an invocation."""
    context = contextvars.copy_context()
    return lambda poller: context.copy().run(job, poller)
