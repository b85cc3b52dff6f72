"""Trying a row again that was set aside (failures 5): alone, from its record."""

from __future__ import annotations

from poller.errors import StateCorrupt, StoreError
from poller.journal.quarantine.record import NewerRecord
from poller.model import aside, transitions
from poller.model.document import DeliveryError, State, WaitingRow
from poller.model.handover import Plan
from poller.model.judging import tried
from poller.model.put import Landing, Put
from poller.model.verdict import Report
from poller.ports import Bound, Page, Row
from poller.tick.calls import Call
from poller.tick.failure import Failure
from poller.tick.recorder import Recorder
from poller.tick.under_lease import UnderLease

NO_RECORD = Failure("NoRecord", "its record is missing or cannot be read", None)


class Retries:
    """The tries of one tenure."""

    def __init__(self, under: UnderLease) -> None:
        self._context = under.context
        self._delivery = under.delivery
        self._tenure = under.tenure
        self._calls = under.calls
        self._recorder = under.recorder
        self._committer = under.committer
        self._progress = under.progress

    def hand_over(self, row: WaitingRow, *, named: bool) -> bool:
        """Hand over a row that is due; whether that could begin. `named`: the acquire's PUT named it already.

        Raises: LeaseLost, CommitError, StoreError.
        """
        if not named:
            self._tenure.put(lambda state, now: transitions.renew(aside.trying(state, row.id), now=now))
        call = self._call(row)
        if call is None:
            return False
        found = tried(row.id, call.report, jitter=self._context.runtime.jitter(0.0, 1.0))
        self._committer.now(Put([Landing(Plan(), found, call.batch_id)]))
        if call.failure is None:
            self._progress.rows += 1
            self._recorder.delivered(row, call.key)
        elif call.report.end != "later":
            self._recorder.failed_again(row, call.errors[row.id], call.key)
        return True

    def _call(self, row: WaitingRow) -> Call | None:
        try:
            record = self._recorder.read(row.id)
        except StoreError as unread:  # neither is the row's fault; in an outage the next PUT fails, too
            failure = Failure(type(unread).__name__, f"its record cannot be read. {unread}", None)
            return self._calls.without(row.id, failure, Report("later", seconds=self._wait(row, unread)))
        try:
            values: Row | None = None if record is None else record.values()
        except StateCorrupt:
            values = None
        if record is None or values is None:
            return self._calls.without(row.id, NO_RECORD)
        page = Page((values,), (row.cursor,), Bound("none", reason="a row that was set aside"))
        batch = self._delivery.batch(
            page, None, passes=0, untried=self._progress.failed is None, attempt=row.failures + 1, retry=True
        )
        return self._calls.run(batch, (record.facts(),))

    def _wait(self, row: WaitingRow, unread: StoreError) -> float:
        """The time that a row is put off whose record was not read: for its own backoff; longer if a newer version
        wrote the record, whose workers can hand the row over."""
        if isinstance(unread, NewerRecord):
            return self._context.options.retry_backoff_max.total_seconds()
        return self._context.options.limits.backoff.delay(max(1, row.failures), self._context.runtime.jitter(0.0, 1.0))


def killed(recorder: Recorder, before: State) -> None:
    """After the acquire's PUT counted an attempt that was killed: its record says so, too."""
    row = next((row for row in before.aside if row.id == before.retrying), None)
    if row is not None:
        recorder.failed_again(row, DeliveryError(type="HandlerDied", message="its process ended while it was tried"))
