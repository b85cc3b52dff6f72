"""One tick: read the document, read rows, take the lease, deliver and commit batch by batch, give the lease back.

The order matters. Nothing is written until there are rows: an idle tick is one conditional GET. The lease is taken
after the rows were read, since the compare-and-swap that takes it proves that the checkpoint they were read from still
stands (protocol 4 and 5). The last batch's commit also gives the lease back, since one row more than the batch was read
(protocol 7).
"""

from __future__ import annotations

import logging

from poller.delivery import idle_writes
from poller.delivery.context import Context
from poller.delivery.failure import Failure
from poller.delivery.leased import POLL, Handled, LeasedDelivery
from poller.delivery.preflight import refusal_of
from poller.delivery.reader import Reader
from poller.delivery.result import Outcome, TickResult
from poller.errors import CommitError, LeaseLost, StoreError
from poller.handler.batch import Batch
from poller.handler.call import Handler, HandlerCancelled
from poller.lease.state_file import Conflict, Copy
from poller.model import escape, transitions
from poller.model.cursor import Cursor
from poller.model.document import DeliveryError
from poller.observability import BatchCommitted, HandlerFailed, PollerHalted
from poller.ports import Event, Page

logger = logging.getLogger("poller")

TAKEN = "another owner took the lease first"


class Tick:
    """One tick while it runs. Raises what `Poller.tick` says."""

    def __init__(self, context: Context, handler: Handler, stop: Event) -> None:
        self.context = context
        self.runtime = context.runtime
        self.options = context.options
        self.file = context.file
        self.emit = context.emit
        self.reader = Reader(context)
        self.handler = handler
        self.stop = stop
        self.began = self.runtime.monotonic()
        self.ends = self.began + context.options.tick_timeout.total_seconds()
        self.rows = 0
        self.batches = 0
        self.cursor: Cursor | None = None
        self.token: int | None = None
        self.longest = float("-inf")

    def run(self) -> TickResult:
        """Enter, and where there is something to do, drain."""
        entered = self._enter()
        if isinstance(entered, TickResult):
            return entered
        delivery, page = entered
        with delivery:
            return self._drain(delivery, page)

    # --- before the lease ------------------------------------------------------------------------------------------

    def _enter(self) -> TickResult | tuple[LeasedDelivery, Page]:
        """Read document and rows, and take the lease; tried once more where the document changed under us."""
        copy = self.file.read()
        for last in (False, True):
            copy = copy or self.file.read_unless_deleted()
            refusal = self._refusal(copy) if copy is not None else None
            if refusal is not None:
                return refusal
            if self.stop.is_set():
                return self._result("idle", lag=False)
            self.cursor = start = self.reader.start(copy)
            page = self.reader.page(start, None if copy is None else copy.state)
            try:
                if not page.rows:
                    if copy is None:
                        self.token = idle_writes.create(self.context, start).state.lease.fencing_token
                    idle_writes.remember(self.context, copy, page.bound)
                    return self._result("idle")
                delivery = LeasedDelivery.acquire(self.context, self.handler, copy, POLL, start=start)
            except Conflict as lost:
                if last:
                    break
                copy = lost.found
            except LeaseLost as lost:
                return self._result("lease_lost", error=lost.message)
            else:
                self.token = delivery.tenure.fencing_token
                return delivery, page
        return self._result("held_elsewhere", error=TAKEN)

    def _refusal(self, copy: Copy) -> TickResult | None:
        """Why this tick may not start, if it may not."""
        self.cursor, self.token = copy.state.checkpoint.cursor, copy.state.lease.fencing_token
        refusal = refusal_of(self.context, copy)
        if refusal is not None:
            return self._result(refusal.outcome, error=refusal.error)
        if copy.state.delivery.attempts >= self.options.max_attempts:
            return self._halt(copy)
        return None

    def _halt(self, copy: Copy) -> TickResult:
        """The pending batch was started too often and never finished: its handler ends its process, most likely."""
        attempts = copy.state.delivery.attempts
        reason = f"the pending batch was started {transitions.times(attempts)} and never finished"
        try:
            self.file.write(
                copy,
                lambda state, now: transitions.halt(state, reason=reason, now=now),
                deadline=self.runtime.monotonic() + self.file.timing.tenure,
            )
        except Conflict:
            return self._result("held_elsewhere", error=TAKEN)
        return self._halted(reason)

    def _halted(self, reason: str, *, exception: BaseException | None = None, trace: str | None = None) -> TickResult:
        self.emit(PollerHalted(poller=self.context.name, at=self.runtime.utcnow(), reason=reason))
        self.context.audit.add("halt", by="poller", reason=reason, before=None, after={"halted": True})
        return self._result("halted", error=reason, exception=exception, trace=trace)

    # --- under the lease -------------------------------------------------------------------------------------------

    def _drain(self, delivery: LeasedDelivery, page: Page) -> TickResult:
        """Batch after batch, until no row is left, the time is over, or somebody wants us to stop."""
        tenure = delivery.tenure
        try:
            while page.rows and self._wanted(delivery):
                batch = delivery.batch(page, self.cursor)
                if not delivery.begin(batch):
                    break  # the query took too long: this batch would run without a heartbeat
                more = len(page.rows) > len(batch)
                handled = delivery.run(batch)
                if handled.error is not None:
                    return self._failed(delivery, batch, handled.error)
                ended = self._commit(delivery, batch, handled, more=more)
                if ended is not None:
                    return ended
                self.context.delivery_log.add(batch.cursor_from, page.cursors[: len(batch)])
                if tenure.released:
                    return self._result("delivered")
                delivery.begin_page()
                page = self.reader.page(self.cursor, tenure.state)
        except BaseException:
            delivery.give_back()
            raise
        if tenure.remaining() == 0:
            return self._lost(delivery, "the lease was lost between two batches")
        delivery.give_back()
        return self._result("delivered" if self.batches else "idle")

    def _commit(self, delivery: LeasedDelivery, batch: Batch, handled: Handled, *, more: bool) -> TickResult | None:
        """Move the checkpoint past a batch; None where it moved."""
        tenure, source = delivery.tenure, self.context.source
        tenure.yield_to_operator()
        try:
            tenure.commit(
                batch.cursor_to,
                batch_id=batch.batch_id,
                metadata={"row_count": len(batch)},
                memory=source.remember(),
                made=source.describe().made,
                passes=len(batch),
                release=not (more and self._may_go_on(delivery, handled.seconds) and not delivery.hung),
            )
        except LeaseLost as lost:
            return self._lost(delivery, lost.message)
        except CommitError as unknown:
            return self._result("commit_unknown", error=unknown.message)
        self.rows += len(batch)
        self.batches += 1
        self.cursor = batch.cursor_to
        self.emit(
            BatchCommitted(
                batch_id=batch.batch_id,
                rows=len(batch),
                cursor=str(batch.cursor_to),
                handler_seconds=round(handled.seconds, 6),
                **tenure.facts(),
            )
        )
        return None

    def _may_go_on(self, delivery: LeasedDelivery, seconds: float) -> bool:
        """Whether another batch may follow the one that took so long."""
        self.longest = max(self.longest, seconds)
        limit = self.options.max_batches_per_tick
        return (limit == 0 or self.batches + 1 < limit) and self._wanted(delivery)

    def _wanted(self, delivery: LeasedDelivery) -> bool:
        """Whether a batch may start now: nobody wants us to stop, and it may be finished in time, judged by the longest
        so far (design, `tick_timeout`). The first batch starts even when the time is over already: entering took so
        long, and if it always does, a poller that starts none would be wedged for ever."""
        in_time = self.runtime.monotonic() + self.longest < self.ends
        tenure = delivery.tenure
        return in_time and not self.stop.is_set() and not tenure.paused and not tenure.lost.is_set()

    def _failed(self, delivery: LeasedDelivery, batch: Batch, error: BaseException) -> TickResult:
        """The handler raised: give the lease back with the error's first line, checkpoint unchanged (protocol 9)."""
        tenure = delivery.tenure
        lost = f"the lease was lost while {batch.batch_id} was handled"
        over = tenure.remaining() == 0
        if isinstance(error, HandlerCancelled) or (over and isinstance(error, LeaseLost)):
            return self._lost(delivery, lost)
        failure = Failure.of(error, error_text=self.options.error_text)
        if over:
            if self.options.error_text:
                logger.error("%s", escape.escape_lines(failure.trace or failure.line, f"{self.context.name}: "))
            return self._lost(delivery, f"{lost}, and then it raised {failure.line}")
        self.emit(
            HandlerFailed(
                batch_id=batch.batch_id,
                attempt=batch.attempt,
                error=failure.line,
                trace=failure.trace,
                **tenure.facts(),
            )
        )
        halted = False
        try:
            halted = tenure.fail(
                DeliveryError(type=failure.kind, message=failure.text, batch_id=batch.batch_id),
                halt_after=self.options.max_attempts,
            )
        except LeaseLost:
            return self._lost(delivery, failure.line)
        except StoreError as unwritten:
            logger.warning("%s: the failure could not be written: %s", self.context.name, unwritten)
        if halted:
            last = "; the last time" if batch.attempt > 1 else ","
            reason = f"{batch.batch_id} failed {transitions.times(batch.attempt)}{last} with {failure.line}"
            return self._halted(reason, exception=error, trace=failure.trace)
        return self._result("handler_failed", error=failure.line, exception=error, trace=failure.trace)

    def _lost(self, delivery: LeasedDelivery, reason: str) -> TickResult:
        delivery.record_loss(reason)
        return self._result("lease_lost", error=reason)

    def _result(
        self,
        outcome: Outcome,
        *,
        error: str | None = None,
        exception: BaseException | None = None,
        trace: str | None = None,
        lag: bool = True,
    ) -> TickResult:
        in_time = self.runtime.monotonic() < self.ends  # past `functionTimeout` the host ends all pollers in it
        known = self.context.lag(self.cursor, outcome in ("idle", "delivered")) if lag and in_time else None
        return TickResult(
            outcome=outcome,
            rows=self.rows,
            batches=self.batches,
            cursor=self.cursor,
            fencing_token=self.token,
            duration_seconds=self.runtime.monotonic() - self.began,
            lag_seconds=known.seconds if known else None,
            pending=known.pending if known else None,
            bound=self.reader.bound,
            error=error,
            exception=exception,
            trace=trace,
        )
