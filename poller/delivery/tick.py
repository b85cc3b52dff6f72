"""One tick: read the document, read rows, take the lease, deliver and commit batch by batch, give the lease back.

The order matters. Nothing is written until there are rows: an idle tick is one conditional GET. The lease is taken
after the rows were read, since the compare-and-swap that takes it proves that the checkpoint they were read from still
stands (protocol 4 and 5). The last batch's commit also gives the lease back, since one row more than the batch was read
(protocol 7).
"""

from __future__ import annotations

import logging

from poller.delivery import idle_writes
from poller.delivery.context import Context, instance_name
from poller.delivery.preflight import check_fingerprint, refusal_of
from poller.delivery.result import Outcome, TickResult
from poller.errors import CommitError, LeaseLost, SourceError, StoreError
from poller.handler.batch import Batch
from poller.handler.call import Handler, HandlerCancelled, HandlerFailure, tellable
from poller.handler.subprocess import NotPortable
from poller.handler.traces import shown, trace_of, users_frames
from poller.lease.heartbeat import Heartbeat
from poller.lease.state_file import Conflict, Copy
from poller.lease.tenure import Tenure
from poller.model import escape, transitions
from poller.model.cursor import Cursor
from poller.model.document import DeliveryError, State
from poller.model.limits import LONGEST_CURSOR, LONGEST_NAME
from poller.model.redact import error_line
from poller.observability import BatchCommitted, BatchStarted, HandlerFailed, PollerHalted
from poller.observability.otel import span
from poller.ports import Bound, Event, Page, TimedSource

logger = logging.getLogger("poller")

PAGE_LIMIT = 120.0
"""A query ends at its own `query_timeout`; one that does not even do that keeps the lease for so many seconds, or for
`PAGE_QUERIES` times that, where the source tells it."""
PAGE_QUERIES = 4
"""A page is read by no more statements than these, one after another: session, bound, rows, NULLs."""


class Tick:
    """One tick while it runs. Raises what `Runner.tick` says."""

    def __init__(self, context: Context, handler: Handler, stop: Event) -> None:
        self.context = context
        self.runtime = context.runtime
        self.options = context.options
        self.file = context.file
        self.source = context.source
        self.emit = context.emit
        self.handler = handler
        self.stop = stop
        self.began = self.runtime.monotonic()
        self.ends = self.began + context.options.tick_timeout.total_seconds()
        self.rows = 0
        self.batches = 0
        self.cursor: Cursor | None = None
        self.token: int | None = None
        self.bound: Bound | None = None
        self.longest = float("-inf")

    def run(self) -> TickResult:
        """Enter, and where there is something to do, drain."""
        entered = self._enter()
        if isinstance(entered, TickResult):
            return entered
        tenure, page = entered
        with Heartbeat(
            tenure,
            runtime=self.runtime,
            interval=self.options.heartbeat_interval.total_seconds(),
            emit=self.emit,
        ) as heartbeat:
            return self._drain(tenure, page, heartbeat)

    # --- before the lease ------------------------------------------------------------------------------------------

    def _enter(self) -> TickResult | tuple[Tenure, Page]:
        """Read document and rows, and take the lease; tried once more where the document changed under us."""
        copy = self.file.read()
        for last in (False, True):
            copy = copy or self.file.read_unless_deleted()
            refusal = self._refusal(copy) if copy is not None else None
            if refusal is not None:
                return refusal
            if self.stop.is_set():
                return self._result("idle", lag=False)
            if copy is not None and copy.state.bound is not None:
                self.source.recall(copy.state.bound)
            start = self.source.start() if copy is None else copy.state.checkpoint.cursor
            self.cursor = start
            page = self._page(start, None if copy is None else copy.state)
            try:
                if not page.rows:
                    if copy is None:
                        self.token = idle_writes.create(self.context, start).state.lease.fencing_token
                    idle_writes.remember(self.context, copy, page.bound)
                    return self._result("idle")
                return self._acquire(copy, start), page
            except Conflict as lost:
                if last:
                    break
                copy = lost.found
            except LeaseLost as lost:
                return self._result("lease_lost", error=lost.message)
        return self._result("held_elsewhere", error="another owner took the lease first")

    def _page(self, after: Cursor | None, state: State | None) -> Page:
        before = self.source.describe()
        page = self.source.page(after, self.options.batch_size + 1)
        if state is not None and self.source.describe() is not before:  # the server was asked what the names mean
            check_fingerprint(self.context.name, state, self.source)
        self.bound = page.bound
        self.context.watch(self.context.name, self.runtime.utcnow(), page.bound)
        return page

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
            return self._result("held_elsewhere", error="another owner took the lease first")
        self._told_halt(reason)
        return self._result("halted", error=reason)

    def _told_halt(self, reason: str) -> None:
        self.emit(PollerHalted(poller=self.context.name, at=self.runtime.utcnow(), reason=reason))
        self.context.audit.add("halt", by="poller", reason=reason, before=None, after={"halted": True})

    def _acquire(self, copy: Copy | None, start: Cursor | None) -> Tenure:
        run = self.runtime.new_id()[:8]
        takeover = copy is not None and copy.availability(self.file.timing, self.runtime.monotonic()).takeover
        tenure = Tenure.acquire(
            self.file,
            copy,
            owner_id=f"{self.context.app_name}/{instance_name()}/{run}",
            source=self.source.describe(),
            start=start,
            takeover=takeover,
            emit=self.emit,
        )
        self.token = tenure.fencing_token
        self._record(tenure, copy if takeover else None)
        return tenure

    def _record(self, tenure: Tenure, taken_from: Copy | None) -> None:
        """For the audit trail: an operator's change that we found, and from whom we took over."""
        self.context.audit.copy(tenure.state.control.last_change)
        if taken_from is not None:
            before = taken_from.state.lease
            self.context.audit.add(
                "takeover",
                by=tenure.owner_id,
                before={"owner_id": before.owner_id, "fencing_token": before.fencing_token},
                after={"owner_id": tenure.owner_id, "fencing_token": tenure.fencing_token},
            )

    # --- under the lease -------------------------------------------------------------------------------------------

    def _drain(self, tenure: Tenure, page: Page, heartbeat: Heartbeat) -> TickResult:
        """Batch after batch, until no row is left, the time is over, or somebody wants us to stop."""
        try:
            while page.rows and self._wanted(tenure):
                batch = self._batch(tenure, page)
                if not heartbeat.expect(batch.batch_id, self.options.handler_limit.total_seconds()):
                    break  # the query took too long: this batch would run without a heartbeat
                more = len(page.rows) > len(batch)
                failure = self._deliver(tenure, batch, heartbeat, more=more)
                if failure is not None:
                    return failure
                self.context.seen.add(batch.cursor_from, page.cursors[: len(batch)])
                if tenure.released:
                    return self._result("delivered")
                heartbeat.expect("", self._page_limit())
                page = self._page(batch.cursor_to, tenure.state)
        except BaseException:
            self._give_back(tenure)
            raise
        if tenure.remaining() == 0:
            return self._lost(tenure, "the lease was lost between two batches")
        self._give_back(tenure)
        return self._result("delivered" if self.batches else "idle")

    def _page_limit(self) -> float:
        asked = self.source.query_timeout.total_seconds() if isinstance(self.source, TimedSource) else 0.0
        return max(PAGE_LIMIT, PAGE_QUERIES * asked, self.options.handler_limit.total_seconds())

    def _batch(self, tenure: Tenure, page: Page) -> Batch:
        """Raises: SourceError, before a handler sees rows behind which the checkpoint could not be written."""
        batch = self._batch_of(tenure, page)
        length = batch.cursor_to.length()
        if length > LONGEST_CURSOR:
            table = self.source.describe().table or "the query"
            raise SourceError(
                f"{table}: cursor and key of the row after {str(batch.cursor_from or 'the beginning')[:100]} have "
                f"{length:,} characters; a state document holds at most {LONGEST_CURSOR:,}.",
                table=table,
                next_step="Name a shorter key in pk_columns, or leave such rows out by `filter`.",
            )
        return batch

    def _batch_of(self, tenure: Tenure, page: Page) -> Batch:
        return Batch.of(
            page,
            min(len(page.rows), self.options.batch_size),
            poller_name=self.context.name,
            batch_id=f"batch_{self.file.clock.now():%Y%m%d_%H%M%S}_{self.batches + 1:04d}",
            fencing_token=tenure.fencing_token,
            attempt=max(1, tenure.state.delivery.attempts),  # an operator may have resumed beside us
            cursor_from=self.cursor,
            keys=self.source.key,
            lease=tenure,
        )

    def _deliver(self, tenure: Tenure, batch: Batch, heartbeat: Heartbeat, *, more: bool) -> TickResult | None:
        """Handle and commit one batch; None when the checkpoint moved past it."""
        self.emit(BatchStarted(batch_id=batch.batch_id, rows=len(batch), attempt=batch.attempt, **tenure.facts()))
        began = self.runtime.monotonic()
        try:
            with span("poller.handle", batch_id=batch.batch_id, rows=len(batch), attempt=batch.attempt):
                self.context.executor.run(self.handler, batch, tenure, self.options.handler_limit.total_seconds())
        except (NotPortable, KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # noqa: BLE001 - a timeout of gevent's, say: uncounted it would come for ever
            return self._failed(tenure, batch, tellable(error))
        seconds = self.runtime.monotonic() - began
        tenure.yield_to_operator()
        try:
            tenure.commit(
                batch.cursor_to,
                batch_id=batch.batch_id,
                metadata={"row_count": len(batch)},
                memory=self.source.remember(),
                made=self.source.describe().made,
                release=not (more and self._may_go_on(tenure, seconds) and not heartbeat.gave_up),
            )
        except LeaseLost as lost:
            return self._lost(tenure, lost.message)
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
                handler_seconds=round(seconds, 6),
                **tenure.facts(),
            )
        )
        return None

    def _may_go_on(self, tenure: Tenure, seconds: float) -> bool:
        """Whether another batch may follow the one that took so long."""
        self.longest = max(self.longest, seconds)
        limit = self.options.max_batches_per_tick
        return (limit == 0 or self.batches + 1 < limit) and self._wanted(tenure)

    def _wanted(self, tenure: Tenure) -> bool:
        """Whether a batch may start now: nobody wants us to stop, and it may be finished in time, judged by the longest
        so far (design, `tick_timeout`). The first batch starts even when the time is over already: entering took so
        long, and if it always does, a poller that starts none would be wedged for ever."""
        in_time = self.runtime.monotonic() + self.longest < self.ends
        return in_time and not self.stop.is_set() and not tenure.paused and not tenure.lost.is_set()

    def _failed(self, tenure: Tenure, batch: Batch, error: BaseException) -> TickResult:
        """The handler raised: give the lease back with the error's first line, checkpoint unchanged (protocol 9)."""
        lost = f"the lease was lost while {batch.batch_id} was handled"
        over = tenure.remaining() == 0
        if isinstance(error, HandlerCancelled) or (over and isinstance(error, LeaseLost)):
            return self._lost(tenure, lost)
        kind = escape.shown(error.kind if isinstance(error, HandlerFailure) else type(error).__name__, LONGEST_NAME)
        text = error_line(error) if self.options.error_text else ""
        told = f"{kind}: {text}" if text else kind
        trace = self._trace(error)
        if over:
            if self.options.error_text:
                logger.error("%s", escape.escape_lines(trace or told, f"{self.context.name}: "))
            return self._lost(tenure, f"{lost}, and then it raised {told}")
        failed = HandlerFailed(
            batch_id=batch.batch_id, attempt=batch.attempt, error=told, trace=trace, **tenure.facts()
        )
        self.emit(failed)
        halted = False
        try:
            halted = tenure.fail(
                DeliveryError(type=kind, message=text, batch_id=batch.batch_id), halt_after=self.options.max_attempts
            )
        except LeaseLost:
            return self._lost(tenure, told)
        except StoreError as unwritten:
            logger.warning("%s: the failure could not be written: %s", self.context.name, unwritten)
        if halted:
            last = "; the last time" if batch.attempt > 1 else ","
            reason = f"{batch.batch_id} failed {transitions.times(batch.attempt)}{last} with {told}"
            self._told_halt(reason)
            return self._result("halted", error=reason, exception=error, trace=trace)
        return self._result("handler_failed", error=told, exception=error, trace=trace)

    def _trace(self, error: BaseException) -> str | None:
        """Where it failed, as far as that may be shown. The exception itself loses the frames that called the handler:
        whoever raises it again shows its author where to look."""
        if isinstance(error, HandlerFailure):
            return shown(error.trace) or None if self.options.error_text else None
        BaseException.with_traceback(error, users_frames(error.__traceback__))
        return shown(trace_of(error)) if self.options.error_text else None

    def _lost(self, tenure: Tenure, told: str) -> TickResult:
        """The tenure is over against our will; nothing more is written to the document by it."""
        tenure.give_up()
        if not tenure.forked:
            self.context.audit.add(
                "lease_lost",
                by=tenure.owner_id,
                reason=told,
                before={"fencing_token": tenure.fencing_token},
                after=None,
            )
        return self._result("lease_lost", error=told)

    def _give_back(self, tenure: Tenure) -> None:
        """Release with nothing in hand; the attempt that the last write counted was none. Best effort: what cannot be
        released expires."""
        try:
            tenure.release(give_back=True)
        except (LeaseLost, StoreError) as error:
            logger.info("%s: the lease was not given back and will expire: %s", self.context.name, error)

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
            bound=self.bound,
            error=error,
            exception=exception,
            trace=trace,
        )
