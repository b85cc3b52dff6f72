"""A round of one lane: the handler is called here, and what it did is written before the round goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from poller.handler.batch import Batch
from poller.model.handover import Plan
from poller.model.put import Put
from poller.ports import Page
from poller.tick.board import Board
from poller.tick.calls import Call
from poller.tick.dealt_page import DealtPage, Run, length
from poller.tick.reader import KEPT_FOR
from poller.tick.round import Round, calls_left, may_be_wide, may_take
from poller.tick.rows import PageRows, of_page
from poller.tick.slots import Job, Slots
from poller.tick.step import Seen, Step, decide
from poller.tick.under_lease import UnderLease


class OneLane(Round):
    """Batch after batch as long as no plan is needed for each; or one, with `strict` all that the plan passes."""

    def __init__(
        self, under: UnderLease, slots: Slots, may_go_on: Callable[[], bool], strict: Plan | None = None
    ) -> None:
        super().__init__(under, slots, may_go_on, Board(1, keyed=False, listed=False), strict=strict)
        several = self._options.concurrency > 1
        self._stuck = strict is not None or several or not may_be_wide(under.context, self._tenure.state)
        self._unwritten = False
        """True if a call is over, and what it did is not written, or on its way."""

    def run(self, chosen: Plan, rows: PageRows) -> bool:
        """See `Rounds.hand_over`."""
        under, progress, calls_before = self._under, self._under.progress, self._under.progress.calls
        page = DealtPage(rows, chosen, 0, 1, None, keyed=False)
        if self._strict is not None and (chosen.killed or not chosen.rows):
            row = of_page(chosen.rows)[0] if chosen.rows else None
            call = under.calls.none() if row is None else under.calls.killed(row, row.row_key)
            self._ends.at_checkpoint(page, 0, chosen, call)
            self._renewed = True
        else:
            self._board.deal(page)
            if self._options.grouped:
                under.committer.leave_room()
            self._drive()
        self._close()
        return (progress.calls > calls_before or self._renewed) and not progress.unwritten

    def _drive(self) -> None:
        """Step after step, until nothing more may begin."""
        under, board, options = self._under, self._board, self._options
        size, batch_bytes = options.batch_size, options.batch_bytes
        if self._strict is not None:
            size, batch_bytes = len(self._strict.rows), None
        while True:
            waits, last, failed = board.is_waiting, board.last, self._ends.any
            behind = not waits and not self._stuck and last is not None and last.has_more
            begins = (waits or behind) and not failed and not under.delivery.hung
            step = decide(
                Seen(
                    wanted=begins and (not self._fed or (self._may_go_on() and self._is_as_planned)),
                    failed=failed,
                    ready=waits,
                    stale=waits and last is not None and self._age(last) > KEPT_FOR,
                    room=not self._refused,
                    behind=behind,
                    unwritten=self._unwritten,
                )
            )
            if step is Step.LAND:
                self._land()
            elif step is Step.START:
                self._refused = not self._begin(0, size, batch_bytes)
                self._collect()
            elif step is Step.READ and last is not None:
                self._read_on(last)
            else:
                self._renewed = self._renewed or step is Step.REFRESH  # the tick reads these rows again
                return

    @property
    def _is_as_planned(self) -> bool:
        """True if rows may go on without a plan for each batch: a person may have listed some meanwhile."""
        return may_be_wide(self._under.context, self._tenure.state)

    def _age(self, page: DealtPage) -> float:
        """Seconds for which the rows have been there."""
        return self._under.context.runtime.monotonic() - page.read_at

    def _read_on(self, last: DealtPage) -> None:
        """Deal the next page."""
        under = self._under
        rows, chosen = self._next_page(last, 1)
        self._stuck = not chosen.passes or not may_take(self._tenure.state, chosen)  # the tick looks at them again
        if not self._stuck:
            under.reader.go_ahead(batches=calls_left(under, begun=1))
            self._board.deal(DealtPage(rows, chosen, 0, 1, None, keyed=False))

    def _batch(self, handed: Sequence[Run], page: Page) -> Batch:
        """See `Round`."""
        under, strict, ahead = self._under, self._strict, self._under.committer.positions
        dealt, places = handed[0]
        return under.delivery.batch(
            page,
            dealt.cursor_before(places[0] if strict is None else 0),
            cursor_to=page.cursors[-1] if strict is None else strict.passes[-1].cursor,
            passes=ahead + (length(handed) if strict is None else strict.count(len(strict.passes))),
            attempt=1 if ahead else None,
            untried=under.progress.failed is None,
        )

    def _start(self, job: Job) -> None:
        """See `Round`."""
        under = self._under
        under.reader.given()
        under.progress.calling = under.context.runtime.monotonic()
        try:
            self._slots.call(job)
        finally:
            under.progress.calling = None

    def _ended(self, job: Job, call: Call) -> None:
        """See `Round`."""
        page, places = job.rows[0]
        if self._strict is not None:
            self._ends.at_checkpoint(page, 0, self._strict, call)
        elif call.failure is not None:
            begin, chosen = places[0], page.chosen
            part = chosen.passes[begin : places[-1] + 1]
            plan = Plan(part, part, space=chosen.space, lanes=max(0, chosen.lanes - begin))
            self._ends.at_checkpoint(page, begin, plan, call)
        else:
            self._board.ended(job.rows, length(job.rows), (), call.batch_id, call.seconds)
            self._unwritten = True

    def _land(self) -> None:
        """Have the checkpoint moved behind what is done: before this returns, or while the handler goes on."""
        committer, self._unwritten = self._under.committer, False
        for landing in self._board.passed():
            self._under.progress.reached = landing.to
            if self._options.grouped:
                committer.later(landing)
            else:
                committer.now(Put([landing]))
        if self._options.grouped:
            committer.leave_room()

    def _close(self) -> None:
        """The last PUT. Raises: LeaseLost, CommitError."""
        under = self._under
        self._ends.pass_on()
        more = self._ends.is_left or under.recorder.may_prune() or under.delivery.is_any_due()
        release = not (more and self._may_go_on() and not under.delivery.hung)
        self._ends.write(release=release, drained=not more)
