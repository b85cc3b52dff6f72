"""The runner: ticks of one poller, one at a time, with their events and errors."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

from poller import forks
from poller.config import PollerOptions
from poller.delivery.context import BoundWatch, Context
from poller.delivery.recheck import PATIENCE, Recheck, look_back, redeliver
from poller.delivery.result import TickResult
from poller.delivery.tick import Tick
from poller.errors import LeaseHeld, PollerError, SourceError
from poller.handler.call import Handler, ThreadExecutor, check_handler
from poller.handler.subprocess import ProcessExecutor
from poller.journal.audit import AuditTrail
from poller.journal.delivery_log import DeliveryLog
from poller.lease.state_file import StateFile
from poller.model.cursor import Cursor
from poller.observability import Emitter, Observer, TickFailed, TickFinished
from poller.observability.otel import span
from poller.ports import Event, Lag, Runtime, Source, StateStore

logger = logging.getLogger("poller")

PENDING_CAP = 10_000
"""Rows pending are counted up to here."""
AUDIT_SETTLES = 2.0
"""A tick waits so many seconds at most, at its end, for records of the audit trail that are under way, and as long
again for notes for rechecks."""
LAG_EVERY = 30.0
"""A tick that stops early asks for the lag at most once in so many seconds (sources.md, "Lag")."""


class Runner:
    """Ticks of one poller. `tick` may be called from any thread, but only one runs at a time.

    Args:
        name, app_name: which poller; they name its document.
        source, store, runtime: the ports.
        options: how it works.
        observers: each is given every event.

    Attributes:
        context: what its ticks share.
    """

    def __init__(
        self,
        name: str,
        *,
        app_name: str,
        source: Source,
        store: StateStore,
        options: PollerOptions,
        observers: Sequence[Observer] = (),
        runtime: Runtime,
    ) -> None:
        emit = Emitter(observers)
        file = StateFile(store, app_name=app_name, poller_name=name, runtime=runtime, timing=options.timing, emit=emit)
        self.context = Context(
            name=name,
            app_name=app_name,
            source=source,
            file=file,
            audit=AuditTrail(
                store, app_name=app_name, poller_name=name, runtime=runtime, emit=emit, now=file.clock.now
            ),
            options=options,
            executor=ProcessExecutor(runtime) if options.isolation == "process" else ThreadExecutor(),
            runtime=runtime,
            emit=emit,
            watch=BoundWatch(emit),
            lag=self._lag,
            seen=DeliveryLog(
                store, app_name=app_name, poller_name=name, window=options.audit_window, runtime=runtime, emit=emit
            ),
        )
        self._ticks = 0
        self._begin_anew()
        forks.in_child(self._begin_anew)
        self._lag_known: Lag | None = None
        self._lag_asked_early = float("-inf")

    def _begin_anew(self) -> None:
        """In a child process too: a tick that runs is the parent's."""
        self._busy = self.context.runtime.lock()

    def tick(self, handler: Handler, *, stop: Event | None = None) -> TickResult:
        """Deliver what is there, and say how it went.

        Args:
            handler: called with each batch.
            stop: when set, no further batch starts; the one in hand is finished and committed (protocol 10).

        Raises: ConfigError (a handler that is a generator), StoreUnavailable, StoreDenied, StateCorrupt,
            FingerprintMismatch, SourceUnavailable, SourceError. What the handler raises is an outcome, never that.
        """
        check_handler(handler)
        ours = self._busy  # the handler may fork: a copy of it lets go of this one, not of the child's
        if not ours.acquire(blocking=False):
            busy = TickResult(outcome="held_elsewhere", error="a batch of this poller still runs in this process")
            return self._finished(busy)
        try:
            result = self._settled(handler, stop)
        finally:
            ours.release()
        self._recheck_at_times(self._finished(result))
        return result

    def _finished(self, result: TickResult) -> TickResult:
        facts = result.as_json()
        facts["cursor"] = None if result.cursor is None else str(result.cursor)
        self.context.emit(TickFinished(poller=self.context.name, at=self.context.runtime.utcnow(), **facts))
        return result

    def _settled(self, handler: Handler, stop: Event | None) -> TickResult:
        """A tick, and a moment for the records that it left under way."""
        context = self.context
        try:
            with span("poller.tick", name=context.name):
                return Tick(context, handler, stop or context.runtime.event()).run()
        except PollerError as error:
            at, kind = context.runtime.utcnow(), type(error).__name__
            context.emit(TickFailed(poller=context.name, at=at, error_type=kind, error=str(error)))
            raise
        finally:
            context.audit.settle(AUDIT_SETTLES)
            context.seen.settle(AUDIT_SETTLES)

    def close(self) -> None:
        """Let go of the handler's process. It may tick again afterwards."""
        self.context.executor.close()

    def recheck(self, since: timedelta | None = None) -> Recheck:
        """See `Poller.recheck`."""
        with self.alone():
            return look_back(self.context, since)

    def redeliver(self, found: Recheck, handler: Handler, *, by: str | None = None, reason: str | None = None) -> None:
        """See `Poller.redeliver`."""
        check_handler(handler)
        with self.alone():
            redeliver(self.context, found, handler, by=by, reason=reason)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """No tick runs in this process meanwhile: a source serves one thread at a time. Raises: LeaseHeld."""
        ours = self._busy
        if not ours.acquire(blocking=False):
            raise LeaseHeld("A batch of this poller still runs in this process.", next_step="Try again later.")
        try:
            yield
        finally:
            ours.release()

    def _recheck_at_times(self, result: TickResult) -> None:
        """Every `recheck_every` ticks, where all went well, in what is left of `tick_timeout`; what it cannot do it
        logs, for a tick has succeeded."""
        name, options = self.context.name, self.context.options
        self._ticks += 1
        if not options.recheck_every or self._ticks % options.recheck_every or not result.ok:
            return
        left = options.tick_timeout.total_seconds() - result.duration_seconds
        if left <= 0:
            logger.info("%s: no time was left in this tick to look back for late rows", name)
            return
        try:
            with self.alone():
                look_back(self.context, patience=min(PATIENCE, left))
        except PollerError as error:
            logger.warning("%s: the look back for late rows failed: %s", name, error)

    def _lag(self, after: Cursor | None, fresh: bool) -> Lag | None:
        """How far behind, or None where the database does not tell now. Not `fresh`: a tick that stopped early asks at
        most every 30 s (sources.md, "Lag"); what a tick that went well was told before is no answer to the first."""
        if not fresh:
            now = self.context.runtime.monotonic()
            if now - self._lag_asked_early < LAG_EVERY:
                return self._lag_known
            self._lag_asked_early = now
        try:
            self._lag_known = self.context.source.lag(after, cap=PENDING_CAP)
        except SourceError as error:
            logger.debug("%s: the lag is not known: %s", self.context.name, error)
            self._lag_known = None
        return self._lag_known
