"""One call of the handler, and what is said of it where it failed."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from poller.errors import LeaseLost
from poller.handler.batch import Batch
from poller.handler.call import HandlerCancelled
from poller.handler.result import CallResult, RowError
from poller.model import escape
from poller.model.aside import RowFacts
from poller.model.document import DeliveryError
from poller.model.verdict import Report
from poller.observability import HandlerFailed
from poller.tick.context import Context
from poller.tick.failure import Failure
from poller.tick.leased import Handled, LeasedDelivery
from poller.tick.progress import Culprit, Progress

logger = logging.getLogger("poller")

RAISED = Report("raised")
DIED = Failure("HandlerDied", "its process ended while it handled this row alone", None)


@dataclass(frozen=True)
class Call:
    """What a call came to.

    Attributes:
        batch_id: of the batch. report: for the rules.
        failure: None where every row is done. errors: of rows that failed, by their ids.
        key: what `batch.key` says of the row that was handed over alone, or else of the first that was named.
        seconds: how long it took.
    """

    batch_id: str
    report: Report = field(default_factory=Report)
    failure: Failure | None = None
    errors: Mapping[str, DeliveryError] = field(default_factory=dict)
    key: str | None = None
    seconds: float = 0.0

    @property
    def blame(self) -> str:
        """What failed: a row, or the batch."""
        return self.batch_id if self.key is None else f"row {self.key}"

    @property
    def error(self) -> DeliveryError | None:
        """The failure as the state document holds it, without its time."""
        return None if self.failure is None else _error(self.failure.kind, self.failure.text, self.batch_id)


class Calls:
    """The calls of one tenure."""

    def __init__(self, context: Context, delivery: LeasedDelivery, progress: Progress) -> None:
        self._context = context
        self._delivery = delivery
        self._progress = progress

    def run(self, batch: Batch, rows: Sequence[RowFacts]) -> Call | None:
        """Call the handler with a batch of these rows. None where what went before took too long: nothing may begin.

        Raises: LeaseLost, if the lease was lost meanwhile; as `LeasedDelivery.run`.
        """
        if not self.begin(batch):
            return None
        self._progress.calling = self._context.runtime.monotonic()
        try:
            handled = self._delivery.run(batch)
        finally:
            self._progress.calling = None
        return self.ended(batch, rows, handled)

    def begin(self, batch: Batch) -> bool:
        """A call begins; False where nothing may. Raises: LeaseLost."""
        begun = self._delivery.begin(batch)
        self._progress.calls += begun
        return begun

    def ended(self, batch: Batch, rows: Sequence[RowFacts], handled: Handled) -> Call:
        """What came of the call with a batch of these rows. Raises: LeaseLost, if the lease was lost meanwhile."""
        progress, result = self._progress, handled.result
        progress.longest = max(progress.longest, handled.seconds)
        first = result.named[0].position if result.named else 0
        key = batch.key(batch.rows[first]) if result.named or len(batch) == 1 else None
        if result.error is None:
            return Call(batch.batch_id, key=key, seconds=handled.seconds)
        failure = self._failure(batch, result.error)
        errors = _errors(result, failure, rows, batch.batch_id)
        call = Call(batch.batch_id, _report(result, rows), failure, errors, key, handled.seconds)
        culprit = None if key is None or result.end == "later" else _culprit(rows[first], key)
        named = len(result.named) or None
        return self._failed(call, failure, batch.attempt, named=named, raised=result.error, culprit=culprit)

    def killed(self, row: RowFacts, row_key: str) -> Call:
        """The call with this row alone that an earlier owner made: its process ended."""
        return self._without(_culprit(row, row_key), DIED)

    def without(self, id_: str, failure: Failure, report: Report = RAISED) -> Call:
        """A failure of a row without a call."""
        return self._without(Culprit(id_, id_, {}), failure, report)

    def _without(self, row: Culprit, failure: Failure, report: Report = RAISED) -> Call:
        batch_id = self._delivery.new_batch_id()
        errors = {row.id: _error(failure.kind, failure.text, batch_id)}
        return self._failed(Call(batch_id, report, failure, errors, row.key), failure, 1, culprit=row)

    def none(self) -> Call:
        """Rows are passed that no handler gets: they follow others, or are listed."""
        return Call(self._delivery.new_batch_id())

    def _failure(self, batch: Batch, error: BaseException) -> Failure:
        """What failed. Raises: LeaseLost, if the lease was lost, so that nothing comes of it."""
        tenure, name = self._delivery.tenure, self._context.name
        lost = f"the lease was lost while {batch.batch_id} was handled"
        over = tenure.remaining() == 0
        if isinstance(error, HandlerCancelled) or (over and isinstance(error, LeaseLost)):
            raise _gone(lost, tenure.fencing_token)
        failure = Failure.of(error, error_text=self._context.options.error_text)
        if over:
            if self._context.options.error_text:
                logger.error("%s", escape.escape_lines(failure.trace or failure.line, f"{name}: "))
            raise _gone(f"{lost}, and then it raised {failure.line}", tenure.fencing_token)
        return failure

    def _failed(
        self,
        call: Call,
        failure: Failure,
        attempt: int,
        *,
        named: int | None = None,
        raised: BaseException | None = None,
        culprit: Culprit | None = None,
    ) -> Call:
        """Say that a call failed; `named`: how many rows it named. The call is returned."""
        line = failure.line if call.key is None else f"{call.blame}: {failure.line}"
        self._progress.fails(failure, line, raised, culprit)
        self._context.emit(
            HandlerFailed(
                batch_id=call.batch_id,
                attempt=attempt,
                error=failure.line,
                trace=failure.trace,
                key=call.key,
                failed=named,
                **self._delivery.tenure.facts(),
            )
        )
        return call


def _culprit(row: RowFacts, key: str) -> Culprit:
    return Culprit(row.id, key, (row.cursor.tiebreaker or {}) if row.cursor.read is None else {})


def _gone(message: str, token: int) -> LeaseLost:
    return LeaseLost(message, reason="deadline", fencing_token=token)


def _report(result: CallResult, rows: Sequence[RowFacts]) -> Report:
    def ids(named: Sequence[RowError]) -> tuple[str, ...]:
        return tuple(rows[row.position].id for row in named)

    if result.end in ("raised", "later"):
        return Report(result.end, seconds=result.seconds)
    return Report(result.end, failed=ids(result.failed), rejected=ids(result.rejected))


def _errors(result: CallResult, failure: Failure, rows: Sequence[RowFacts], batch_id: str) -> dict[str, DeliveryError]:
    """Of rows that may be listed: those that were named, or the one that was handed over alone."""
    if result.end == "raised" and len(rows) == 1:
        return {rows[0].id: _error(failure.kind, failure.text, batch_id)}
    return {rows[row.position].id: _error(row.kind, row.text, batch_id) for row in result.named}


def _error(kind: str, text: str, batch_id: str) -> DeliveryError:
    return DeliveryError(type=kind, message=text, batch_id=batch_id)
