"""The runner: ticks of one poller, one at a time, with their events and errors; and late rows that a recheck found,
delivered under the lease, batch by batch, while the checkpoint does not move."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from poller import forks
from poller.errors import CaptureGap, LeaseHeld, PollerError
from poller.handler.call import Handler, check_handler
from poller.model import aside, backoff
from poller.model.document import State
from poller.observability.events import BUSY_HERE, CaptureGapMet, TickFailed, TickFinished
from poller.observability.otel import span
from poller.ports import Bound, Event, Page, wants_exact_values
from poller.tick.context import Context
from poller.tick.errands import errand, look_around, stopped
from poller.tick.idle_writes import begin
from poller.tick.leased import LeasedDelivery, Purpose
from poller.tick.recheck import PATIENCE, Recheck, look_again, look_back
from poller.tick.replay import Replay, replay
from poller.tick.result import TickResult
from poller.tick.sizes import rows_that_fit
from poller.tick.tick import Tick

logger = logging.getLogger("poller")
LATE = Purpose("late", run="recheck-")
"""Rows behind the checkpoint."""


class Runner:
    """Ticks of one poller. `tick` may be called from any thread, but only one runs at a time."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._ticks = 0
        self._reset_after_fork()
        forks.in_child(self._reset_after_fork)

    def _reset_after_fork(self) -> None:
        """In a child process too: a tick that runs is the parent's."""
        self._busy = self.context.runtime.lock()

    def tick(self, handler: Handler, *, stop: Event | None = None, wait: bool = False) -> TickResult:
        """See `Poller.tick`."""
        check_handler(handler)
        ours = self._busy  # the handler may fork: a copy of it lets go of this one, not of the child's
        if not ours.acquire(blocking=wait):
            busy = TickResult(outcome="held_elsewhere", error=BUSY_HERE)
            return self._finished(busy)
        with span("poller.tick", name=self.context.name):
            try:
                self._read_for(handler)
                result = self._settled(handler, stop)
            finally:
                ours.release()
            self._finished(result)
        self._recheck_at_times(result)
        return result

    def unfinished(self) -> str | None:
        """See `Poller.unfinished`."""
        file, ours = self.context.file, self._busy
        if not ours.acquire(blocking=False):
            return None
        try:
            copy = file.read()
            if copy is None and self.context.schedule.may_rest:
                begin(self.context)
        finally:
            ours.release()
        if copy is None or not copy.availability(file.timing, self.context.runtime.monotonic()).free:
            return None
        return self._reason(copy.state, copy.tag)

    def _reason(self, state: State, tag: str) -> str | None:
        """What its document says that there is to do before its schedule's next moment. A tick may fail to write that a
        moment was made up for, so the next one that is missed is another reason, though the document is the same."""
        context = self.context
        now, limits = context.file.clock.now(), context.options.limits
        if state.control.paused or state.control.halted or backoff.waits_until(state, now, limits.backoff) is not None:
            return None
        wall = context.runtime.utcnow()
        if context.schedule.owed(state.looked_at, wall):
            return f"{tag} {context.schedule.next_after(wall):%Y-%m-%dT%H:%M:%S}"
        if state.unfinished or aside.due(aside.after_reset(state), now, limits=limits) is not None:
            return tag
        return None

    def _finished(self, result: TickResult) -> TickResult:
        facts = result.as_json()
        facts["cursor"] = None if result.cursor is None else str(result.cursor)
        self.context.emit(TickFinished(poller=self.context.name, at=self.context.runtime.utcnow(), **facts))
        return result

    def _settled(self, handler: Handler, stop: Event | None) -> TickResult:
        """A tick, and a moment for the records that it left under way."""
        context = self.context
        try:
            return Tick(context, handler, stop or context.runtime.event()).run()
        except PollerError as error:
            at, kind = context.runtime.utcnow(), type(error).__name__
            if isinstance(error, CaptureGap):
                context.emit(CaptureGapMet(poller=context.name, at=at, change=error.change, reason=error.message))
            context.emit(TickFailed(poller=context.name, at=at, error_type=kind, error=str(error)))
            raise
        finally:
            context.settle()

    def _read_for(self, handler: Handler) -> None:
        """Have the source read values as the handler wants them."""
        self.context.source.exact = wants_exact_values(handler)

    def close(self) -> None:
        """Let go of the handler's processes and its event loop. It may tick again afterwards."""
        self.context.executors.close()

    def recheck(self, since: timedelta | None = None, handler: Handler | None = None) -> Recheck:
        """See `Poller.recheck`; `handler`: the one that is to get what is found, if it is known."""
        with self.alone():
            if handler is not None:
                self._read_for(handler)
            return look_back(self.context, since)

    def redeliver(self, found: Recheck, handler: Handler, *, by: str | None = None, reason: str | None = None) -> None:
        """See `Poller.redeliver`."""
        check_handler(handler)
        with self.alone():
            self._read_for(handler)
            redeliver(self.context, found, handler, by=by, reason=reason)

    def replay(self, wanted: Replay, handler: Handler, *, by: str, reason: str | None = None) -> None:
        """See `poller.tick.replay.replay`."""
        check_handler(handler)
        with self.alone():
            self._read_for(handler)
            replay(self.context, wanted, handler, by=by, reason=reason)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """No tick runs in this process meanwhile: a source serves one thread at a time. Raises: LeaseHeld."""
        ours = self._busy
        if not ours.acquire(blocking=False):
            raise LeaseHeld(
                "A batch or a change of this poller still runs in this process.", next_step="Try again later."
            )
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


def redeliver(
    context: Context, found: Recheck, handler: Handler, *, by: str | None = None, reason: str | None = None
) -> None:
    """See `Poller.redeliver`. `found` keeps the rows that are still late; `found.redelivered` counts the rows of the
    batches that the handler took; a pause lets the batch in hand end."""
    if not found.rows:
        return

    def so_far() -> str:
        return f", after {found.redelivered} of {len(found.rows)} late rows"

    def record(delivery: LeasedDelivery) -> None:
        many = f"{found.redelivered} of {len(found.rows)} late row{'' if len(found.rows) == 1 else 's'} delivered"
        context.audit.add(
            "recheck",
            by=by or delivery.tenure.owner_id,
            reason=f"{many}: {reason}" if reason else many,
            before=None,
            after={"redelivered": found.redelivered},
        )

    with errand(context, handler, LATE, so_far=so_far, record=record) as (delivery, _):
        delivery.begin_writes()  # a look has an end of its own
        if context.delivery_log.window is not None:  # else the rows are the caller's own: nothing tells late ones
            look_again(context, found)
        begin = 0
        while begin < len(found.rows):
            if begin:
                look_around(delivery.tenure)
            if delivery.tenure.paused:
                raise stopped(context, f"paused{so_far()}")
            begin = _deliver(context, delivery, found, begin)


def _deliver(context: Context, delivery: LeasedDelivery, found: Recheck, begin: int) -> int:
    """One batch; it is recorded as delivered before it counts. Returns where the next one begins."""
    options = context.options
    end = min(begin + options.batch_size, len(found.rows))
    if options.batch_bytes is not None:
        end = begin + rows_that_fit(options.batch_bytes, found.rows[begin:end])
    rows, cursors = found.rows[begin:end], found.cursors[begin:end]
    batch = delivery.batch(Page(rows, cursors, Bound("none", reason="late rows")), None)
    if not delivery.begin(batch):
        limit = context.options.handler_limit.total_seconds()
        raise PollerError(
            f"A batch of late rows took longer than handler_timeout ({limit:g} s): its lease was no longer renewed, "
            f"and no other was begun after {found.redelivered} of {len(found.rows)} rows.",
            next_step=f"Raise handler_timeout of {context.name} or lower its batch_size, and run the same again.",
        )
    error = delivery.run(batch).error
    if error is not None:
        raise error
    delivery.tenure.check()
    context.delivery_log.add_now(context.runtime.utcnow(), None, cursors, covers=False)
    found.redelivered += len(cursors)
    return end
