"""Rows handed to a handler under a lease: the one way in which a tick, a redelivery or a replay does it.

It takes the lease, keeps it by a heartbeat, makes the batches and runs the handler. It moves no checkpoint: what is
committed, and when, its caller decides.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

from poller.errors import LeaseLost, SourceError, StoreError
from poller.handler.batch import Batch, Standing
from poller.handler.call import Handler, reportable
from poller.handler.portable import NotPortable
from poller.handler.result import CallResult
from poller.lease.heartbeat import Heartbeat
from poller.lease.state_file import Copy, Rewrite
from poller.lease.tenure import Tenure
from poller.model import applied, aside, backoff
from poller.model.cursor import Cursor
from poller.model.limits import LONGEST_CURSOR
from poller.observability import BatchStarted
from poller.observability.otel import span
from poller.ports import Page
from poller.tick.context import Context

logger = logging.getLogger("poller")

PAGE_LIMIT = 120.0
"""A query ends at its own `query_timeout`; one that does not even do that keeps the lease for this many seconds, or for
`PAGE_QUERIES` times that, if the source says it."""
PAGE_QUERIES = 5
"""A page takes no longer than so many statements may: the wait for a connection, session, bound, rows, NULLs."""


@dataclass(frozen=True, slots=True)
class Purpose:
    """What rows are delivered for.

    Attributes:
        batches: what the ids of its batches begin with. run: what the run in the owner's id begins with.
        moves_checkpoint: whether the rows are the pending ones. Then taking the lease counts as a start of the pending
            batch, and a batch must end at a cursor that a state document can hold.
    """

    batches: str
    run: str = ""
    moves_checkpoint: bool = False


POLL = Purpose("batch", moves_checkpoint=True)
"""A tick: the rows after the checkpoint."""


@dataclass(frozen=True, slots=True)
class Seat:
    """A batch's place among several lanes: which of how many, and the position of its last row."""

    lane: int
    lanes: int
    through: int


@dataclass(frozen=True, slots=True)
class Handled:
    """One call of the handler: how many seconds it took, and what it came to."""

    seconds: float
    result: CallResult

    @property
    def error(self) -> BaseException | None:
        """What is reported of a call that did not do every row; None if it did."""
        return self.result.error


class LeasedDelivery:
    """Rows of one poller on their way to its handler, under one tenure. Made by `acquire`; a context manager, within
    which the lease is renewed.

    Attributes:
        tenure: the lease that was taken.
    """

    def __init__(self, context: Context, handler: Handler, tenure: Tenure, purpose: Purpose) -> None:
        self.tenure = tenure
        self._context = context
        self._handler = handler
        self._purpose = purpose
        self._limit = context.options.handler_limit.total_seconds()
        asked = context.source.query_timeout.total_seconds()
        self._page_limit = max(PAGE_LIMIT, PAGE_QUERIES * asked, self._limit)
        self._heartbeat = Heartbeat(
            tenure,
            runtime=context.runtime,
            interval=context.file.timing.heartbeat,
            emit=context.emit,
            give_back=purpose.moves_checkpoint,
        )

    @classmethod
    def acquire(
        cls,
        context: Context,
        handler: Handler,
        copy: Copy | None,
        purpose: Purpose,
        *,
        start: Cursor | None = None,
        starts_batch: bool | None = None,
        begins: Rewrite | None = None,
    ) -> Self:
        """Take the lease, which `copy` shows to be free, and record it; with `copy` None create the document, beginning
        at `start`, which its caller records. `starts_batch`, `begins`: see `Tenure.acquire`. Raises: as that."""
        file, runtime = context.file, context.runtime
        takeover = copy is not None and copy.availability(file.timing, runtime.monotonic()).takeover
        tenure = Tenure.acquire(
            file,
            copy,
            owner_id=f"{context.process}/{purpose.run}{runtime.new_id()[:8]}",
            source=context.source.describe(),
            start=start,
            takeover=takeover,
            emit=context.emit,
            starts_batch=purpose.moves_checkpoint if starts_batch is None else starts_batch,
            begins=begins,
        )
        if copy is not None:
            context.audit.copy(tenure.state.control.last_change)
        if copy is not None and takeover:
            before = copy.state.lease
            context.audit.add(
                "takeover",
                by=tenure.owner_id,
                before={"owner_id": before.owner_id, "fencing_token": before.fencing_token},
                after={"owner_id": tenure.owner_id, "fencing_token": tenure.fencing_token},
            )
        return cls(context, handler, tenure, purpose)

    def __enter__(self) -> Self:
        self._heartbeat.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._heartbeat.__exit__(kind, error, trace)

    @property
    def hung(self) -> bool:
        """True if something took too long, so that the lease is no longer renewed."""
        return self._heartbeat.gave_up

    def is_any_due(self) -> bool:
        """True if a row that was set aside is to be tried now."""
        context = self._context
        return aside.due(self.tenure.state, context.file.clock.now(), limits=context.options.limits) is not None

    def new_batch_id(self) -> str:
        """A name for the next batch, which none before it has."""
        context = self._context
        second, number = context.batch_names.next(context.file.clock.now(), self.tenure.state.checkpoint)
        return f"{self._purpose.batches}_{second}_{number:04d}"

    def batch(
        self,
        page: Page,
        after: Cursor | None,
        *,
        cursor_to: Cursor | None = None,
        passes: int | None = None,
        attempt: int | None = None,
        untried: bool = False,
        retry: bool = False,
        replay: bool = False,
        seat: Seat | None = None,
    ) -> Batch:
        """All rows of a page as a batch, behind the cursor `after`.

        Args:
            cursor_to: where the checkpoint will stand; default: behind the last row. passes: how many positions it
                takes; default: one for each row. seat: among several lanes. The others: as in `Batch` and `Standing`.
        Raises: SourceError, before a handler sees rows behind which the checkpoint could not be written.
        """
        context, tenure, purpose = self._context, self.tenure, self._purpose
        state = tenure.state
        # an operator may have resumed beside us
        pending = state.delivery.attempts or backoff.failures_of(state) + 1
        if page.table is None and (table := self._context.source.table_of(page.rows)) is not None:
            page = replace(page, table=table)
        batch = Batch.of(
            page,
            len(page.rows),
            poller_name=context.name,
            batch_id=self.new_batch_id(),
            fencing_token=tenure.fencing_token,
            attempt=attempt or (max(1, pending) if purpose.moves_checkpoint else 1),
            cursor_from=after,
            cursor_to=cursor_to,
            keys=context.source.key,
            lease=tenure,
            standing=Standing(
                app_name=context.file.app_name,
                generation=state.checkpoint.generation,
                settled=applied.settled(state),
                through=seat.through if seat else applied.through(state, len(page.rows) if passes is None else passes),
                held=applied.waiting(state),
                untried=untried,
                lane=seat.lane if seat else 0,
                lanes=seat.lanes if seat else 1,
            ),
            retry=retry,
            replay=replay,
        )
        if purpose.moves_checkpoint and seat is None:
            self.check_cursor(after, batch.cursor_to)
        return batch

    def check_cursor(self, after: Cursor | None, to: Cursor) -> None:
        """Raises: SourceError, if the checkpoint could not be written behind rows that end at `to`."""
        length = to.size()
        if length > LONGEST_CURSOR:
            table = self._context.source.describe().table or "the query"
            raise SourceError(
                f"{table}: cursor and key of the row after {str(after or 'the beginning')[:100]} have "
                f"{length:,} bytes; a state document holds at most {LONGEST_CURSOR:,}.",
                table=table,
                next_step="Name a shorter key in pk_columns, or leave such rows out by `filter`.",
            )

    def begin(self, batch: Batch) -> bool:
        """From now on the handler works on this batch. False where what went before took too long: the batch would run
        without a heartbeat, and must not. Raises: LeaseLost, if that is known: the last write was written, and then
        another's."""
        self.tenure.check()
        spare = self._context.executors.spare
        return self._heartbeat.expect(batch.batch_id, self._limit + spare, lane=batch.standing.lane)

    def begin_page(self) -> None:
        """From now on a page is read, which also may take only so long."""
        self._heartbeat.expect_page(self._page_limit)

    def begin_writes(self) -> None:
        """From now on only the store is asked: many records that are written or removed are no hung handler."""
        self._heartbeat.clear_deadline()

    def run(self, batch: Batch) -> Handled:
        """Run the handler on a batch that was begun, in its lane. What it raises is a result, and which rows it names.

        Raises: NotPortable, KeyboardInterrupt, GeneratorExit, which are no failures of the handler.
        """
        context, result, lane = self._context, None, batch.standing.lane
        context.emit(
            BatchStarted(batch_id=batch.batch_id, rows=len(batch), attempt=batch.attempt, **self.tenure.facts())
        )
        began = context.runtime.monotonic()
        try:
            facts = {"batch_id": batch.batch_id, "rows": len(batch), "attempt": batch.attempt}
            with span("poller.handle", name=context.name, **facts):
                executor = context.executors.of(lane, batch.standing.lanes)
                result = executor.run(self._handler, batch, self.tenure, self._limit)
                if result.error is not None:
                    raise result.error  # the span shows its type
        except (NotPortable, KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as raised:  # noqa: BLE001 - a timeout of gevent's, say: uncounted it would come for ever
            if result is None or raised is not result.error:
                result = CallResult.of_error(reportable(raised))
        finally:
            if batch.standing.lanes == 1:  # else the tick goes on beside it, and says itself what it does
                self.begin_writes()
            self._heartbeat.ended(lane=lane)
        seconds = context.runtime.monotonic() - began
        return Handled(seconds, result if context.options.error_text else result.without_text())

    def record_loss(self, reason: str) -> None:
        """The tenure is over against our will: nothing more is written to the document by it, but its release where an
        operator cancelled it, who has left a record."""
        self.tenure.give_up()
        if self.tenure.cancelled is not None:
            self._release_cancelled()
        elif not self.tenure.forked:
            self._context.audit.add(
                "lease_lost",
                by=self.tenure.owner_id,
                reason=reason,
                before={"fencing_token": self.tenure.fencing_token},
                after=None,
            )

    def give_back(self, *, drained: bool = False) -> None:
        """Release with nothing in hand: what the last PUT named was not tried. `drained`: nor is any row left. Best
        effort: what cannot be released expires."""
        try:
            self.tenure.release(give_back=self._purpose.moves_checkpoint, drained=drained)
        except (LeaseLost, StoreError) as error:
            if self.tenure.cancelled is not None:
                self._release_cancelled()
            else:
                logger.info("%s: the lease was not given back and will expire: %s", self._context.name, error)

    def _release_cancelled(self) -> None:
        """Best effort, as `give_back`."""
        try:
            self.tenure.release_cancelled()
        except StoreError as error:
            logger.info("%s: the cancelled lease was not given back and will expire: %s", self._context.name, error)
