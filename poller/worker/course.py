"""What one poller does with its turns, and when the next one is due. What a tick does is the runner's business.

A row that comes is seldom the last. So after one the source is looked at again `FIRST` seconds later, and while nothing
comes each pause is twice as long as the one before. Where a pause would end after the schedule's next moment that one
counts, so the schedule bounds what a quiet table costs. `LONGEST` seconds after the last row nothing but the schedule
counts: pauses that double from 20 ms are about eleven looks in that minute. A row that waits for nothing but `settle`
is looked for when it is old enough. One that an open transaction holds back counts as none: how long that lasts is not
known.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Generic, Literal, Protocol, TypeAlias, runtime_checkable

from poller.errors import ConfigError, FingerprintMismatch, PollerError
from poller.handler.call import Handler
from poller.model.schedule import BETWEEN, schedule_of
from poller.tick.result import TickResult
from poller.worker.ends import Ended, P, Ticking, sentence, tick_failed, trace_of
from poller.worker.slices import TurnStop

logger = logging.getLogger("poller")

Mode: TypeAlias = Literal["once", "until_idle", "forever"]

LONGEST_BACKOFF = 300.0
"""The most seconds that the next tick waits after failures, doubling."""
LONGEST_WAIT = 10.0
"""Seconds after which a poller that backs off is checked again: `poller resume` ends the wait."""
LONGEST_YOUNG = 3.0
"""Seconds that `until_idle` waits for rows that are only too young: the clock has yet to pass their second."""
_YOUNG_PAUSE = 0.25
_GO_ON = frozenset({"delivered", "held_elsewhere", "lease_lost", "commit_unknown", "handler_failed", "backing_off"})
"""Outcomes after which `until_idle` ticks again: there may be more, the next tick will know more, or a call that failed
is made again."""
FIRST = 0.02
"""Seconds from a row to the next look."""
LONGEST = 60.0
"""Seconds after the last row after which no look is made but those of the schedule."""
_SLACK = 1.0
"""Seconds for which a row that should be old enough is still waited for: bound and age are of two moments."""


@runtime_checkable
class _Leaving(Protocol):
    """A poller that knows whether its next tick should not wait for its schedule."""

    def unfinished(self) -> str | None: ...


def _leaving(poller: Ticking) -> _Leaving | None:
    return poller if isinstance(poller, _Leaving) else None


class Course(Generic[P]):
    """One poller's turns, one at a time, each on whatever thread.

    Attributes:
        failures: how many ticks in a row raised.
        mismatch: the error, while its checkpoint belongs to another source.
        scheduled: whether the next turn is due by its schedule, and not because rows came or were left, or a tick
            failed.

    Where the schedule's next moment is more than `BETWEEN` off, the poller is looked at meanwhile, that often and when
    the process starts: its document says whether rows are left, or a moment was missed. The process that left them was
    killed, or failed, and they must not wait for the next night.
    """

    def __init__(
        self, poller: P, mode: Mode, handler: Handler | None = None, before: Callable[[P], None] | None = None
    ) -> None:
        self.poller = poller
        self.failures = 0
        self.mismatch: FingerprintMismatch | None = None
        self.scheduled = False
        self._mode = mode
        self._handler = handler
        self._before = before
        self._opened = False
        self._trace: str | None = None
        self._young_since: float | None = None
        self._schedule = schedule_of(poller.options.schedule)
        self._leaving = _leaving(poller)
        self._moment: datetime | None = None
        """When its schedule falls due, or its pause ends: a turn before that is for what was left or missed."""
        self._nothing_at: str | None = None
        """What `unfinished` said though there was nothing to do."""
        self._awake: Awake | None = None
        """Set while looks come sooner than its schedule."""

    # --- turns -----------------------------------------------------------------------------------------------------

    def turn(self, stop: TurnStop) -> Ended[P] | datetime:
        """Have one, and say when the next is due, or how it ended. Raises nothing."""
        try:
            return self._turn(stop)
        except BaseException as error:  # noqa: BLE001 - one poller's fault must not take the others down
            if not isinstance(error, PollerError):
                self._trace = trace_of(error)
            return self._ended(error=sentence(error), exception=error)

    def not_begun(self, error: Exception) -> Ended[P] | datetime:
        """There was no room for a turn."""
        if self._mode != "forever":
            return self._ended(error=sentence(error), exception=error)
        self._failed(error)
        return self._again()

    def stopped(self) -> Ended[P]:
        """Everything stops before its next turn."""
        if self._mode == "once":
            return self._ended(error="stopped before its tick")
        if self._mode == "until_idle":
            return self._ended(error="stopped before nothing was left")
        if self.mismatch is not None:
            return self._ended(error=sentence(self.mismatch), exception=self.mismatch)
        return self._ended()

    def abandoned(self) -> Ended[P]:
        """Everything stops, and its turn does not end."""
        return self._ended(error="abandoned: its tick did not end in time; what it had in hand comes again")

    def next_scheduled(self) -> datetime:
        """The schedule's next moment, now."""
        self.scheduled = True
        return self._until(self._schedule.next_after(self.poller.runtime.utcnow()))

    def clock_was_set(self) -> datetime:
        """When its next turn is due, now that the clock was set back: how much of a pause is left is not known."""
        if self._mode == "forever" and self.scheduled:
            return self.next_scheduled()
        self._moment = self.poller.runtime.utcnow()
        return self._moment

    def interval(self) -> float:
        """Seconds between the schedule's next two moments."""
        first = self._schedule.next_after(self.poller.runtime.utcnow())
        return (self._schedule.next_after(first) - first).total_seconds()

    # --- one turn --------------------------------------------------------------------------------------------------

    def _turn(self, stop: TurnStop) -> Ended[P] | datetime:
        if not self._opened:
            self._open()
            self._opened = True
            if self._mode == "forever":
                return self._first()
        if self._mode == "once":
            return self._after(self._tick(stop))
        return self._until_idle(stop) if self._mode == "until_idle" else self._forever(stop)

    def _open(self) -> None:
        if self._handler is None:
            try:
                _ = self.poller.handler  # before anything is read: a handler that cannot be imported is an error now
            except ConfigError as error:
                self._emit_failure(error)
                raise
        if self._before is not None:
            self._before(self.poller)

    def _tick(self, stop: TurnStop) -> TickResult:
        return self.poller.tick(self._handler, stop=stop)

    def _until_idle(self, stop: TurnStop) -> Ended[P] | datetime:
        if stop.for_all:
            return self.stopped()
        result, now = self._tick(stop), self.poller.runtime.utcnow
        if stop.for_all:
            return self.stopped()
        if stop.cut and result.outcome in ("delivered", "idle"):
            return now()
        if self._too_young(result):
            return now() + timedelta(seconds=_YOUNG_PAUSE)
        if result.outcome not in _GO_ON:
            return self._after(result)
        return now() + timedelta(seconds=0.0 if result.outcome == "delivered" else self._pause(result))

    def _too_young(self, result: TickResult) -> bool:
        """True if rows wait for nothing but the bound, which no worker holds: a person who inserts a row and runs the
        poller in the same second must see it arrive. Not for ever: others may write all the time."""
        bound = result.bound
        if (
            result.outcome != "idle"
            or not result.pending
            or bound is None
            or not bound.kind.startswith(("exact", "obs"))
        ):
            self._young_since = None
            return False
        if bound.held_by is not None or bound.clock_went_back or bound.below_checkpoint:
            return False
        now = self.poller.runtime.monotonic()
        if self._young_since is None:
            self._young_since = now
        return now - self._young_since < LONGEST_YOUNG

    def _pause(self, result: TickResult) -> float:
        """Seconds until `until_idle` ticks again. A server's clock that differs from this machine's makes it look too
        early, or up to `LONGEST_WAIT` late."""
        runtime = self.poller.runtime
        least = min(1.0, self.poller.options.lease_ttl.total_seconds() / 6)
        pause = runtime.jitter(least / 2, least)
        if result.retry_at is None:
            return pause
        return max(pause, min(LONGEST_WAIT, (result.retry_at - runtime.utcnow()).total_seconds()))

    def _forever(self, stop: TurnStop) -> datetime:
        try:
            left = None
            if self._moment is not None and self.poller.runtime.utcnow() < self._moment:
                left = self._left()
                if left is None:
                    return self._until(self._moment)
            result = self._tick(stop)
            self.failures, self.mismatch = 0, None
            if left is not None and asks_for_no_more(result):
                self._nothing_at = left
            if (stop.cut or result.left) and not stop.for_all:
                self.scheduled, self._moment = False, None
                return self.poller.runtime.utcnow()
            return self._after_tick(result)
        except ConfigError:
            raise  # no later tick can fix it
        except FingerprintMismatch as error:
            # Only an operator can fix it, and the document shows when that was done. While others work here the
            # process is there to see it; else it ends, and says why.
            self.failures, self.mismatch = self.failures + 1, error
        except PollerError:
            self.failures += 1  # the runner has emitted it
        except Exception as error:  # noqa: BLE001 - reported; the next tick may go well
            self._failed(error)
        return self._again()

    def _first(self) -> datetime:
        """The first turn for ever: at a moment of its schedule, or at once, to look what was left or missed."""
        moment = self.next_scheduled()
        return moment if moment == self._moment else self.poller.runtime.utcnow()

    def _after_tick(self, result: TickResult) -> datetime:
        """The schedule's next moment, or before that the one that a row asks for, or the end of the pause after a call
        that failed."""
        runtime, moment = self.poller.runtime, self.next_scheduled()
        self._awake = self._wakes(result)
        if self._awake is not None:
            return self._sooner(self._awake.pause, moment)
        if result.retry_at is None or self._moment is None:
            return moment
        now, least = runtime.utcnow(), min(1.0, self.poller.options.lease_ttl.total_seconds() / 6)
        pause = max(least, (result.retry_at - now).total_seconds())
        if result.outcome == "backing_off" and result.retry_at <= now:
            pause = LONGEST_WAIT  # its time has not come by the store's clock: that differs from this machine's
        return self._sooner(pause, moment)

    def _wakes(self, result: TickResult) -> Awake | None:
        """The wait for its next turn, if that does not come by its schedule. One that rests means a time of day."""
        runtime = self.poller.runtime
        if self.poller.options.wake == "off" or self._schedule.rests(runtime.utcnow()):
            return None
        return after_look(self._awake, result, runtime.monotonic())

    def _sooner(self, pause: float, moment: datetime) -> datetime:
        """The end of a pause that begins now, if that is before `moment`, as the schedule says when the next turn is
        due."""
        again = self.poller.runtime.utcnow() + timedelta(seconds=pause)
        if self._moment is None or again >= self._moment:
            return moment
        self.scheduled = False
        return self._until(again)

    def _again(self) -> datetime:
        """After a tick that raised: when a pause is over, which doubles. Its schedule may fall due in the next night
        only, and the moment at which it failed is made up for."""
        runtime = self.poller.runtime
        self.scheduled, self._awake = False, None
        longest = min(LONGEST_BACKOFF, 2.0 ** min(self.failures, 30))
        return self._until(runtime.utcnow() + timedelta(seconds=runtime.jitter(longest / 2, longest)))

    def _until(self, moment: datetime) -> datetime:
        """The next turn: at that moment, or before, to look what was left or missed."""
        self._moment = moment
        return moment if self._leaving is None else min(moment, self.poller.runtime.utcnow() + BETWEEN)

    def _left(self) -> str | None:
        """What its document says was left or missed, if no worker holds the lease."""
        try:
            left = None if self._leaving is None else self._leaving.unfinished()
        except PollerError as error:
            logger.info("%s: whether rows are left, or a moment was missed, is not known: %s", self.poller.name, error)
            return None
        return None if left == self._nothing_at else left

    # --- how it went -----------------------------------------------------------------------------------------------

    def _failed(self, error: Exception) -> None:
        self.failures += 1
        self._trace = trace_of(error)
        self._emit_failure(error)

    def _emit_failure(self, error: Exception) -> None:
        self.poller.emit(tick_failed(self.poller.name, self.poller.runtime.utcnow(), error))

    def _after(self, result: TickResult) -> Ended[P]:
        """The end by a tick's result."""
        if result.ok:
            return self._ended(result=result)
        word = result.outcome.replace("_", " ")
        reason = result.error or word
        return self._ended(result=result, error=reason if reason.startswith(word) else f"{word}: {reason}")

    def _ended(
        self, *, result: TickResult | None = None, error: str | None = None, exception: BaseException | None = None
    ) -> Ended[P]:
        outcome = None if result is None else result.outcome
        return Ended(
            poller=self.poller, outcome=outcome, result=result, error=error, exception=exception, trace=self._trace
        )


def asks_for_no_more(result: TickResult) -> bool:
    """True if another tick on the same version of the document would come to the same: it saw that no row is left, or a
    person must settle some first."""
    bound = result.bound
    if result.outcome == "blocked":
        return True
    if result.held_up:
        return False
    return result.outcome == "idle" and (bound is None or bound.value is not None or bound.kind == "none")


@dataclass(frozen=True, slots=True)
class Awake:
    """Between two looks beside the schedule. `since`: when the last row came; `pause`: seconds until the next look."""

    since: float
    pause: float


def after_look(before: Awake | None, result: TickResult, now: float) -> Awake | None:
    """The wait after a tick that came to `result`; None: until the schedule's next moment.

    `before`: what this returned after the last tick. `now`: seconds on a clock that only goes forward.
    """
    if result.outcome == "delivered" and result.rows:
        return Awake(now, FIRST)
    if result.outcome not in ("idle", "held_elsewhere"):
        return None
    ready = ready_in(result)
    if ready is not None:
        return Awake(now, max(FIRST, ready))
    if before is None or now + 2 * before.pause > before.since + LONGEST:
        return None
    return Awake(before.since, 2 * before.pause)


def ready_in(result: TickResult) -> float | None:
    """Seconds until the oldest row that waits is old enough; None if no row waits, or not for its age alone."""
    bound, age = result.bound, result.lag_seconds
    if result.outcome != "idle" or not result.pending or bound is None or age is None or bound.age_seconds is None:
        return None
    if bound.held_by is not None or bound.clock_went_back or bound.below_checkpoint:
        return None
    left = bound.age_seconds - age
    return left if left > -_SLACK else None
