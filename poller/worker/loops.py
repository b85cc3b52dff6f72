"""One thread per poller: once, until no row is left, or for ever on its schedule; stopping without losing the batch.

What ends a loop is decided here; what a tick does is the runner's business.
"""

from __future__ import annotations

import queue
import threading
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Generic, Literal, Protocol, TypeAlias, TypeVar, get_args

from poller.config import PollerOptions
from poller.delivery.result import Outcome, TickResult
from poller.errors import ConfigError, FingerprintMismatch, PollerError
from poller.handler.call import Handler
from poller.model.redact import said, shortened
from poller.model.schedule import Schedule
from poller.observability import PollerEvent, TickFailed
from poller.ports import Event, Runtime

Mode: TypeAlias = Literal["once", "until_idle", "forever"]

LONGEST_BACKOFF = 300.0
"""After failures the next tick waits, doubling, up to so many seconds."""
LONGEST_TRACE = 20_000
"""At most so many characters of a traceback are kept."""
LONGEST_WAIT = 10.0
"""A poller that backs off is looked at again after so many seconds: `poller resume` ends the wait."""
_GO_ON = frozenset({"delivered", "held_elsewhere", "lease_lost", "commit_unknown", "handler_failed", "backing_off"})
"""Outcomes after which `until_idle` ticks again: there may be more, the next tick will know more, or a call that failed
is made again."""


class Ticking(Protocol):
    """What a loop asks of a poller; `poller.Poller` is one."""

    @property
    def name(self) -> str: ...
    @property
    def options(self) -> PollerOptions: ...
    @property
    def runtime(self) -> Runtime: ...
    @property
    def handler(self) -> Handler: ...
    def tick(self, handler: Handler | None = None, *, stop: Event | None = None) -> TickResult: ...
    def emit(self, event: PollerEvent) -> None: ...


P = TypeVar("P", bound=Ticking)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended(Generic[P]):
    """How one poller ended.

    Attributes:
        poller: which.
        outcome: of its last tick, where that ended it; None where `stop` or an exception did.
        result: that tick's; None where `outcome` is.
        error: why it ended before its work was done, in one line; None where all is well.
        exception: what was raised, where that ended it.
        trace: the last traceback of an exception that is no `PollerError`, secrets removed; for debugging.
    """

    poller: P
    outcome: Outcome | None = None
    error: str | None = None
    result: TickResult | None = field(default=None, repr=False)
    exception: BaseException | None = field(default=None, repr=False)
    trace: str | None = field(default=None, repr=False)

    @property
    def ok(self) -> bool:
        """Whether it did what it was asked to."""
        return self.error is None


def run(
    pollers: Iterable[P],
    mode: Mode = "forever",
    stop: Event | None = None,
    *,
    handler: Handler | None = None,
    before: Callable[[P], None] | None = None,
    ended: Callable[[Ended[P]], None] | None = None,
) -> list[Ended[P]]:
    """Run pollers, each on a thread of its own, and return when all have ended. One poller's error ends no other.

    Args:
        pollers: each is run once, however often it is named. They stay open.
        mode: "once": one tick of each. "until_idle": until no row is left; a call that failed is made again when its
            time has come. Rows that are aside until later, or wait for a person, are not waited for: `Ended.result`
            counts them. What only a person can end (paused, halted, blocked) ends it, as does an exception.
            "forever": on each poller's schedule until `stop`; a tick that raised is tried again, after a pause that
            doubles up to 5 minutes. A poller whose configuration is wrong ends
            all the same, and one whose checkpoint belongs to another source ends once no other works: only an operator
            can fix that.
        stop: when it is set, no further batch starts; those in hand are finished and committed.
        handler: called with each batch of each poller; default: the configured ones.
        before: called with each poller on its thread, before its first tick.
        ended: called as each poller ends, on the calling thread: the others may go on for days.
    Returns: how each ended, in the order of `pollers`.
    Raises: ConfigError (`mode`); what `ended` raises. Whatever is raised here, KeyboardInterrupt included, sets `stop`.
    """
    if mode not in get_args(Mode):
        raise ConfigError(f"mode: {mode!r} is none of {', '.join(get_args(Mode))}.", key="mode")
    stop = threading.Event() if stop is None else stop
    chosen = list(dict.fromkeys(pollers))
    working = set(chosen)
    ends: queue.Queue[Ended[P]] = queue.Queue()
    known: dict[P, Ended[P]] = {}
    try:
        for poller in chosen:
            _Loop(poller, mode, stop, working, handler, before).start(ends.put)
        for _ in chosen:
            end = ends.get()
            known[end.poller] = end
            if ended is not None:
                ended(end)
    except BaseException:
        stop.set()  # nobody is left to hear how the others end
        raise
    return [known[poller] for poller in chosen]


def tick_failed(poller: str, at: datetime, error: Exception) -> TickFailed:
    """The event of an error that the runner did not emit."""
    return TickFailed(poller=poller, at=at, error_type=type(error).__name__, error=_sentence(error))


@dataclass(slots=True)
class _Loop(Generic[P]):
    """The ticks of one poller. `working`: the pollers of this call that may still do something, shared by its loops."""

    poller: P
    mode: Mode
    stop: Event
    working: set[P]
    handler: Handler | None
    before: Callable[[P], None] | None
    _trace: str | None = None
    _mismatch: FingerprintMismatch | None = None

    def start(self, ended: Callable[[Ended[P]], None]) -> None:
        """Begin; `ended` is called when no more ticks will come."""
        threading.Thread(
            target=lambda: ended(self._to_its_end()), name=f"poller-{self.poller.name}", daemon=True
        ).start()

    def _to_its_end(self) -> Ended[P]:
        try:
            return self._run()
        except BaseException as error:  # noqa: BLE001 - one poller's fault must not take the others down
            if not isinstance(error, PollerError):
                self._trace = _trace(error)
            return self._ended(error=_sentence(error), exception=error)
        finally:
            self.working.discard(self.poller)

    def _run(self) -> Ended[P]:
        if self.handler is None:
            try:
                _ = self.poller.handler  # before anything is read: a handler that cannot be imported is an error now
            except ConfigError as error:
                self._emit_failure(error)
                raise
        if self.before is not None:
            self.before(self.poller)
        if self.mode == "once":
            return self._after(self._tick())
        return self._until_idle() if self.mode == "until_idle" else self._forever()

    def _tick(self) -> TickResult:
        return self.poller.tick(self.handler, stop=self.stop)

    def _until_idle(self) -> Ended[P]:
        while not self.stop.is_set():
            result = self._tick()
            if self.stop.is_set():
                break
            if result.outcome not in _GO_ON:
                return self._after(result)
            if result.outcome != "delivered":
                self.stop.wait(self._pause(result))
        return self._ended(error="stopped before nothing was left")

    def _pause(self, result: TickResult) -> float:
        """Seconds until `until_idle` ticks again. A server's clock that differs from this machine's makes it look too
        early, or up to `LONGEST_WAIT` late."""
        runtime = self.poller.runtime
        least = min(1.0, self.poller.options.lease_ttl.total_seconds() / 6)
        pause = runtime.jitter(least / 2, least)
        if result.retry_at is None:
            return pause
        return max(pause, min(LONGEST_WAIT, (result.retry_at - runtime.utcnow()).total_seconds()))

    def _forever(self) -> Ended[P]:
        schedule = Schedule(self.poller.options.schedule)
        failures = 0
        while self._wait(schedule, failures):
            try:
                self._tick()
                failures, self._mismatch = 0, None
                self.working.add(self.poller)
            except ConfigError:
                raise  # no later tick can fix it
            except FingerprintMismatch as error:
                # Only an operator can fix it, and the document shows when that was done. While others work here the
                # process is there to see it; else it ends, and says why.
                failures, self._mismatch = failures + 1, error
                self.working.discard(self.poller)
            except PollerError:
                failures += 1  # the runner has emitted it
            except Exception as error:  # noqa: BLE001 - reported; the next tick may go well
                failures += 1
                self._trace = _trace(error)
                self._emit_failure(error)
        if self._mismatch is not None:
            raise self._mismatch
        return self._ended()

    def _wait(self, schedule: Schedule, failures: int) -> bool:
        """Until the schedule's next moment, later after failures; False when it is time to stop, and where every poller
        of this call waits for its source to be put right."""
        runtime = self.poller.runtime
        longest = min(LONGEST_BACKOFF, 2.0 ** min(failures, 30)) if failures else 0.0
        target = schedule.next_after(runtime.utcnow() + timedelta(seconds=runtime.jitter(longest / 2, longest)))
        # In short steps: the wall clock may be set, and the machine may sleep.
        while (left := (target - runtime.utcnow()).total_seconds()) > 0:
            if (self._mismatch is not None and not self.working) or self.stop.wait(min(left, 30.0)):
                return False
        return not self.stop.is_set()

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


def _sentence(error: BaseException) -> str:
    return str(error) if isinstance(error, PollerError) else f"{type(error).__name__}: {said(error)}"


def _trace(error: BaseException) -> str:
    return shortened("".join(traceback.format_exception(error)), LONGEST_TRACE)
