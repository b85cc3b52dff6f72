"""One thread per poller: once, until nothing is left, or for ever on its schedule; stopping without losing the batch.

What ends a loop is decided here; what a tick does is the runner's business.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

from poller.app import Poller
from poller.delivery.result import TickResult
from poller.errors import ConfigError, FingerprintMismatch, PollerError
from poller.model.schedule import Schedule
from poller.observability import PollerEvent, TickFailed
from poller.ports import Event
from poller_cli import exits

Mode: TypeAlias = Literal["once", "until_idle", "forever"]

LONGEST_BACKOFF = 300.0
"""After failures the next tick waits, doubling, up to so many seconds."""
_GO_ON = frozenset({"delivered", "held_elsewhere", "lease_lost", "commit_unknown"})
"""Outcomes after which `--until-idle` ticks again: there may be more, or the next tick will know more."""


@dataclass(slots=True)
class Loop:
    """The ticks of one poller on a thread of their own.

    Args:
        first: called once on its thread, before the first tick.

    Attributes:
        well: names of the pollers of this process that may still do something, shared by all of them.
        code: what this poller contributes to the exit code, when it has ended.
        outcome: of its last tick, where that ended it.
        error: why it ended before it was asked to, for a person.
    """

    poller: Poller
    mode: Mode
    stop: Event
    emit: Callable[[PollerEvent], None]
    debug: bool = False
    first: Callable[[Poller], None] | None = None
    well: set[str] = field(default_factory=set)
    code: int = exits.DONE
    outcome: str | None = None
    error: str | None = None
    crash: BaseException | None = None
    _thread: threading.Thread = field(init=False)
    _mismatch: FingerprintMismatch | None = field(init=False, default=None)

    def start(self, ended: Callable[[Loop], None]) -> None:
        """Begin; `ended` is called with this loop when no more ticks will come."""

        def run() -> None:
            try:
                self._run()
            except PollerError as error:
                self.code, self.error = error.exit_code, str(error)
            except Exception as error:  # noqa: BLE001 - one poller's fault must not take the others down
                self.code, self.error, self.crash = exits.FAILED, f"{type(error).__name__}: {error}", error
            finally:
                self.well.discard(self.poller.name)
                ended(self)

        self._thread = threading.Thread(target=run, name=f"poller-{self.poller.name}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            _ = self.poller.handler  # before anything is read: a handler that cannot be imported is an error now
        except ConfigError as error:
            self.emit(tick_failed(self.poller.name, self.poller.runtime.utcnow(), error))
            raise
        if self.first is not None:
            self.first(self.poller)
        if self.mode == "once":
            self._conclude(self.poller.tick(stop=self.stop))
        elif self.mode == "until_idle":
            self._until_idle()
        else:
            self._forever()

    def _conclude(self, result: TickResult) -> None:
        self.code, self.outcome = exits.of_outcome(result.outcome), result.outcome
        if self.code != exits.DONE:
            word = result.outcome.replace("_", " ")
            told = result.error or word
            self.error = told if told.startswith(word) else f"{word}: {told}"

    def _until_idle(self) -> None:
        pause = min(1.0, self.poller.options.lease_ttl.total_seconds() / 6)
        while not self.stop.is_set():
            result = self.poller.tick(stop=self.stop)
            if self.stop.is_set():
                break
            if result.outcome not in _GO_ON:
                return self._conclude(result)
            if result.outcome != "delivered":
                self.stop.wait(self.poller.runtime.jitter(pause / 2, pause))
        self.code, self.error = exits.FAILED, "stopped before nothing was left"
        return None

    def _forever(self) -> None:
        schedule = Schedule(self.poller.schedule)
        failures = 0
        while self._wait(schedule, failures):
            try:
                self.poller.tick(stop=self.stop)
                failures, self._mismatch = 0, None
                self.well.add(self.poller.name)
            except ConfigError:
                raise  # no later tick can fix it
            except FingerprintMismatch as error:
                # Only an operator can fix it, and the document tells when that was done. While others work here the
                # process is there to see it; else it ends, with an exit code that says so (design, "Exit codes").
                failures, self._mismatch = failures + 1, error
                self.well.discard(self.poller.name)
            except PollerError:
                failures += 1  # the runner has told it
            except Exception as error:  # noqa: BLE001 - reported; the next tick may go well
                failures += 1
                self.crash = error if self.debug else None
                self.emit(tick_failed(self.poller.name, self.poller.runtime.utcnow(), error))
        if self._mismatch is not None:
            raise self._mismatch

    def _wait(self, schedule: Schedule, failures: int) -> bool:
        """Until the schedule's next moment, later after failures; False when it is time to stop, and where every poller
        of this process waits for its source to be put right."""
        runtime = self.poller.runtime
        longest = min(LONGEST_BACKOFF, 2.0**failures) if failures else 0.0
        target = schedule.next_after(runtime.utcnow() + timedelta(seconds=runtime.jitter(longest / 2, longest)))
        # In short steps: the wall clock may be set, and the machine may sleep.
        while (left := (target - runtime.utcnow()).total_seconds()) > 0:
            if (self._mismatch is not None and not self.well) or self.stop.wait(min(left, 30.0)):
                return False
        return not self.stop.is_set()


def tick_failed(poller: str, at: datetime, error: Exception) -> TickFailed:
    """The event of an error that the runner could not tell."""
    kind = type(error).__name__
    told = str(error) if isinstance(error, PollerError) else f"{kind}: {error}"
    return TickFailed(poller=poller, at=at, error_type=kind, error=told)


def run_all(loops: list[Loop], told: Callable[[Loop], None]) -> int:
    """Run every loop to its end, and tell each as it ends; returns the exit code for all of them."""
    ended: queue.Queue[Loop] = queue.Queue()
    well = {loop.poller.name for loop in loops}
    for loop in loops:
        loop.well = well
        loop.start(ended.put)
    for _ in loops:
        told(ended.get())
    return exits.worst(loop.code for loop in loops)
