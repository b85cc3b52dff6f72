"""Handing over the rows behind the checkpoint: what a plan chose goes to the handler, and what came of it is written
(failures 1 to 4, 6 and 7)."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from types import NoneType
from uuid import UUID

from poller.delivery.calls import Call, Calls
from poller.delivery.committer import Committer
from poller.delivery.context import Context
from poller.delivery.leased import LeasedDelivery
from poller.delivery.progress import Progress
from poller.delivery.reader import KEPT_FOR
from poller.delivery.recorder import Recorder, Unrecorded
from poller.delivery.rows import PageRows, RowOfPage, of_page
from poller.errors import StoreError
from poller.model import handover, judging, transitions, window
from poller.model.handover import Mode, Plan
from poller.model.put import DoneCall, Landing, Put
from poller.model.verdict import Verdict, opens
from poller.ports import FreshRows, Row

logger = logging.getLogger("poller")


LEAST_RESENDING = 1.0
"""Seconds for which the record of a row that follows is sent, however long ago the row was read."""
_SCALARS = frozenset({NoneType, bool, int, float, str, bytes, Decimal, datetime, date, time, timedelta, UUID})
"""What nobody can change in place."""


class Batches:
    """The batches of one tenure."""

    def __init__(
        self,
        context: Context,
        delivery: LeasedDelivery,
        calls: Calls,
        recorder: Recorder,
        committer: Committer,
        progress: Progress,
    ) -> None:
        self._context = context
        self._delivery = delivery
        self._tenure = delivery.tenure
        self._calls = calls
        self._recorder = recorder
        self._committer = committer
        self._progress = progress
        self._asked: dict[str, str | None] = {}
        """By the id of a row that follows others, for whose record the store was asked since rows were passed last: why
        there is none; None if it is written."""

    def hand_over(self, chosen: Plan, rows: PageRows, *, begun: bool, may_go_on: Callable[[], bool]) -> bool:
        """Hand over what was chosen of the rows, and write what came of it; whether that could begin. If the writes
        before the call took so long that the rows are too old, no call is made: the tick has to read them again.

        `begun`: the acquire's PUT named the piece already. `may_go_on`: whether another call may follow; where none
        may, or nothing is left to do, the same PUT gives the lease back.
        Raises: LeaseLost, CommitError, StoreError.
        """
        plain = chosen.window is None and chosen.is_plain
        if not plain:
            self._committer.settle()
        chosen, begun = self._with_records(chosen, rows, begun=begun)
        if not chosen.passes:
            return False
        if not begun:
            self._begin(chosen)
        self._committer.leave_room()
        if chosen.rows and not chosen.killed and self._age(rows) > KEPT_FOR:
            return True
        call = self._call(chosen, rows)
        if call is None:
            return False
        if call.failure is not None:
            self._committer.settle()
        found = self._judged(chosen, call, rows)
        listed = of_page(opens(chosen, found))
        more = found.passes == 0 or len(rows.page.rows) > found.passes or self._has_other_work()
        goes_on = more and may_go_on() and not self._delivery.hung
        landing = self._landing(chosen, call, found, rows)
        if not found.passes:
            return self._failed(landing, call, release=not goes_on)
        all_done = not found.failed and not listed and found.passes == len(chosen.passes)
        if self._context.options.grouped and plain and all_done and goes_on:
            self._committer.later(landing)
        else:
            self._committer.now(Put([landing], release=not goes_on, drained=not more))
        self._asked.clear()
        self._progress.reached = landing.to
        self._recorder.listed(listed, call.errors)
        return True

    # --- before the call -------------------------------------------------------------------------------------------

    def _with_records(self, chosen: Plan, rows: PageRows, *, begun: bool) -> tuple[Plan, bool]:
        """The plan, once the rows that follow others have records: it ends before the first that cannot have one, or
        whose record is not taken while the rows before it are young enough to be handed over. If rows are read again
        because their records took too long, it ends before the first without a record: else rows that others change
        all the time, with records of which none is of use, would hold up those before them."""
        options, again = self._context.options, bool(self._asked)
        while True:
            if chosen.follows:
                self._delivery.begin_writes()
            first = next((row for row in of_page(chosen.follows) if not self._is_kept(row, rows, again=again)), None)
            if first is None:
                return chosen, begun
            self._progress.blocked = self._asked.get(first.id) or self._progress.blocked
            rows.cut(first.position)
            self._delivery.begin_page()
            state = self._tenure.state if chosen.killed else window.not_begun(self._tenure.state)
            chosen, begun = rows.plan(state, options.on_poison, options.limits), False

    def _is_kept(self, row: RowOfPage, rows: PageRows, *, again: bool) -> bool:
        """True if a row that follows others has a record, which is written unless the store has refused it; if `again`,
        only for the first row."""
        if row.id not in self._asked:
            if again and row.position:
                return False
            why = None
            try:
                self._recorder.open([row], within=max(LEAST_RESENDING, KEPT_FOR - self._age(rows)))
            except Unrecorded as refused:
                why = refused.why
            self._asked[row.id] = why
        return self._asked[row.id] is None

    def _age(self, rows: PageRows) -> float:
        """For how many seconds the rows have been there."""
        return self._context.runtime.monotonic() - rows.read_at

    def _begin(self, chosen: Plan) -> None:
        """The PUT before the call, where it says something new."""
        state = self._tenure.state
        if handover.begun(state, chosen) == state:
            return
        self._committer.settle()
        self._tenure.put(lambda state, now: transitions.renew(handover.begun(state, chosen), now=now))
        self._recorder.superseded(chosen.drops)

    def _call(self, chosen: Plan, rows: PageRows) -> Call | None:
        """The call of the chosen rows; None where it could not begin."""
        handed = of_page(chosen.rows)
        if not handed:
            return self._calls.none()
        if chosen.killed:
            return self._calls.killed(handed[0], handed[0].row_key)
        page, ahead = rows.page_of(handed), self._committer.positions
        if not isinstance(page.rows, FreshRows):
            page = replace(page, rows=[copied(row) for row in page.rows])
        batch = self._delivery.batch(
            page,
            rows.after,
            cursor_to=chosen.passes[-1].cursor,
            passes=ahead + chosen.count(len(chosen.passes)),
            attempt=1 if ahead else None,
            untried=self._progress.failed is None,
        )
        return self._calls.run(batch, handed)

    # --- after the call --------------------------------------------------------------------------------------------

    def _judged(self, chosen: Plan, call: Call, rows: PageRows) -> Verdict:
        """What follows from the call, once the rows that it lists have records. A row that cannot have one blocks."""
        options = self._context.options
        jitter = self._context.runtime.jitter(0.0, 1.0)

        def judged(mode: Mode, unrecorded: str | None = None) -> Verdict:
            state, limits = self._tenure.state, options.limits
            return judging.judge(
                state, chosen, call.report, mode=mode, limits=limits, jitter=jitter, unrecorded=unrecorded
            )

        found = judged(options.on_poison)
        try:
            self._recorder.open(
                [row for row in of_page(found.listed) if row.id in call.errors],
                errors=call.errors,
                rejected=call.report.rejected,
                failures=found.failures,
            )
        except Unrecorded as refused:
            self._progress.error = f"{self._progress.error}. {refused.why}"
            if call.report.end != "returned" or len(chosen.rows) == 1:
                return judged("block")
            return judged(options.on_poison, rows.facts[refused.position].id)
        return found

    def _landing(self, chosen: Plan, call: Call, found: Verdict, rows: PageRows) -> Landing:
        """The verdict on its way into the document, with what it passes."""
        error, blame = call.error if found.failed else None, call.blame
        if not found.passes:
            return Landing(chosen, found, call.batch_id, error, blame)
        return Landing(
            chosen,
            found,
            call.batch_id,
            error,
            blame,
            after=rows.after,
            cursors=rows.cursors(found.passes, without=chosen.done),
            calls=(DoneCall(call.batch_id, found.delivered, call.seconds),),
            memory=rows.memory,
            facts=rows.page.facts,
        )

    def _failed(self, landing: Landing, call: Call, *, release: bool) -> bool:
        """The PUT after a call that passes no row; whether it was made. Raises: LeaseLost."""
        self._tenure.yield_to_operator()
        try:
            self._committer.write(Put([landing], release=release))
        except StoreError as unwritten:
            logger.warning("%s: the failure could not be written: %s", self._context.name, unwritten)
            self._progress.unwritten = True
            return False
        self._recorder.listed(of_page(opens(landing.plan, landing.verdict)), call.errors)
        return True

    def _has_other_work(self) -> bool:
        """Whether something is left for this tenure although no row is behind the batch."""
        return self._recorder.may_prune() or self._delivery.is_any_due()


def copied(row: Row) -> Row:
    """The row for the handler, who may change it: the page's is recorded as it was read, and handed over again in the
    same tick after a call that failed."""
    for value in row.values():
        if type(value) not in _SCALARS:
            break
    else:
        return dict(row)
    return {
        name: copy.deepcopy(value) if isinstance(value, list | dict | set | tuple | bytearray) else value
        for name, value in row.items()
    }
