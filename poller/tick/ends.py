"""How rounds end: what calls that did not do every row mean, and the last write (throughput.md, "Lanes")."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from poller.errors import StoreError
from poller.model import judging
from poller.model.handover import Mode, Plan
from poller.model.put import DoneCall, Landing, Put
from poller.model.verdict import Verdict, opens
from poller.tick.board import Board
from poller.tick.calls import Call
from poller.tick.dealt_page import DealtPage
from poller.tick.recorder import Unrecorded
from poller.tick.rows import RowOfPage, of_page
from poller.tick.under_lease import UnderLease

logger = logging.getLogger("poller")


class Ends:
    """What the calls of one round came to whose verdict is a matter of its own: those that did not do every row, and
    with `strict` that of the plan, which one call carries out as a whole: nothing of it is passed before."""

    def __init__(self, under: UnderLease, board: Board, *, strict: bool) -> None:
        self._strict = strict
        self._under = under
        self._options = under.context.options
        self._tenure = under.tenure
        self._recorder = under.recorder
        self._committer = under.committer
        self._progress = under.progress
        self._board = board
        self._ended: list[tuple[Call, Landing]] = []
        self._passed: Sequence[Landing] = ()
        self._more = False
        """True if rows were read behind those that a call at the checkpoint passed."""

    def pass_on(self) -> None:
        """What is done behind the checkpoint is passed by the last PUT."""
        self._passed = () if self._strict else tuple(self._board.passed())

    @property
    def any(self) -> bool:
        """True if there was such a call: then no batch begins any more."""
        return bool(self._ended)

    # --- what they mean --------------------------------------------------------------------------------------------

    def in_lane(self, rows: Sequence[RowOfPage], call: Call) -> tuple[int, frozenset[str]]:
        """After a call of one of several lanes that failed: how many of its rows the lane leaves behind, and the ids of
        those that it lists."""
        plan, jitter = Plan(rows=tuple(rows), passes=tuple(rows)), self._under.context.runtime.jitter(0.0, 1.0)
        found = self._judged(plan, call, jitter, lane=True)
        for row in of_page(opens(plan, found)):
            try:
                self._recorder.open([row], errors=call.errors, rejected=call.report.rejected)
            except Unrecorded as refused:
                self._progress.error = f"{self._progress.error}. {refused.why}"
                found = self._judged(plan, call, jitter, lane=True, unrecorded=row.id)
                break
        self._ended.append((call, Landing(plan, found, call.batch_id, call.error, call.blame)))
        return found.passes, frozenset(row.id for row in found.listed)

    def at_checkpoint(self, page: DealtPage, begin: int, plan: Plan, call: Call) -> None:
        """After a call of rows right behind the checkpoint: `plan` is for the rows of the page from `begin` on."""
        if call.failure is not None:
            self._committer.settle()
        found, rows = self._recorded(page, plan, call), page.rows
        passes = found.passes
        landing = Landing(
            plan,
            found,
            call.batch_id,
            call.error if found.failed else None,
            call.blame,
            after=page.cursor_before(begin) if passes else None,
            cursors=rows.cursors(begin + passes, begin=begin, without=plan.done) if passes else (),
            calls=(DoneCall(call.batch_id, found.delivered, call.seconds),) if passes else (),
            memory=rows.memory if passes else None,
            facts=rows.page.facts if passes else None,
        )
        self._ended.append((call, landing))
        self._more = passes == 0 or len(rows.page.rows) > begin + passes or rows.page.more

    def _recorded(self, page: DealtPage, plan: Plan, call: Call) -> Verdict:
        """The verdict, once the rows that it lists have records. A row that cannot have one blocks."""
        jitter, mode = self._under.context.runtime.jitter(0.0, 1.0), page.rows.mode(self._options.on_poison)
        found = self._judged(plan, call, jitter, mode=mode)
        try:
            self._recorder.open(
                [row for row in of_page(found.listed) if row.id in call.errors],
                errors=call.errors,
                rejected=call.report.rejected,
                failures=found.failures,
            )
        except Unrecorded as refused:
            self._progress.error = f"{self._progress.error}. {refused.why}"
            if call.report.end != "returned" or len(plan.rows) == 1:
                return self._judged(plan, call, jitter, mode="block")
            return self._judged(plan, call, jitter, mode=mode, unrecorded=page.rows.facts[refused.position].id)
        return found

    def _judged(
        self,
        plan: Plan,
        call: Call,
        jitter: float,
        *,
        mode: Mode | None = None,
        lane: bool = False,
        unrecorded: str | None = None,
    ) -> Verdict:
        return judging.judge(
            self._tenure.state,
            plan,
            call.report,
            mode=mode or self._options.on_poison,
            limits=self._options.limits,
            jitter=jitter,
            lane=lane,
            unrecorded=unrecorded,
        )

    # --- the last write --------------------------------------------------------------------------------------------

    def write_lanes(self, *, release: bool, drained: bool) -> None:
        """The last PUT of several lanes: the watermark, what is done above it, and what failed. `release`: it gives the
        lease back; `drained`: no row is left.

        Raises: LeaseLost, CommitError.
        """
        failed = sorted(self._ended, key=_weight)
        put = Put(
            landings=self._passed,
            above=self._board.above(self._tenure.state.delivery.lanes),
            failed=[landing for _, landing in failed],
            release=release,
            drained=drained,
        )
        if put.landings:
            self._progress.reached = put.to
        if put.landings or (put.above is not None and put.above.cursors):
            self._committer.now(put)
        elif failed:
            self._committer.settle()
            self._write(put)
        for call, landing in failed:
            self._recorder.listed(of_page(landing.verdict.listed), call.errors)

    @property
    def is_left(self) -> bool:
        """True if rows are left behind those of one lane that are passed now."""
        last = self._board.last
        return self._more if self._ended else self._board.is_left or (last is not None and last.has_more)

    def write(self, *, release: bool, drained: bool) -> None:
        """The last PUT of one lane: what is done, and what the verdict says.

        Raises: LeaseLost, CommitError.
        """
        landings = [*self._passed, *(landing for _, landing in self._ended)]
        if not landings:
            return
        put = Put(landings, release=release, drained=drained)
        if put.to is None:
            self._tenure.yield_to_operator()
            self._write(Put(landings, release=release))
        elif self._options.grouped and not self._ended and not release:
            for landing in landings:
                self._committer.later(landing)
        else:
            self._committer.now(put)
        self._progress.reached = put.to or self._progress.reached
        for call, landing in () if self._progress.unwritten else self._ended:
            self._recorder.listed(of_page(opens(landing.plan, landing.verdict)), call.errors)

    def _write(self, put: Put) -> None:
        """The PUT after calls that did nothing. Raises: LeaseLost."""
        try:
            self._committer.write(put)
        except StoreError as unwritten:
            logger.warning("%s: the failure could not be written: %s", self._under.context.name, unwritten)
            self._progress.unwritten = True


def _weight(ended: tuple[Call, Landing]) -> tuple[bool, int]:
    """What is written last decides: a halt, and before that how long nothing is called."""
    call, one = ended
    return one.verdict.halts, ("returned", "rejected", "raised", "later").index(call.report.end)
