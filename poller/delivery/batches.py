"""Handing over the rows behind the checkpoint: what a plan chose goes to the handler, and what came of it is written
(failures 1 to 4, 6 and 7)."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from poller.delivery.calls import Call, Calls
from poller.delivery.context import Context
from poller.delivery.leased import LeasedDelivery
from poller.delivery.progress import Progress
from poller.delivery.recorder import Recorder, Unrecorded
from poller.delivery.rows import PageRows, of_page
from poller.errors import StoreError
from poller.model import aside, handover, ruling, transitions
from poller.model.document import State
from poller.model.handover import Mode, Plan
from poller.model.ruling import Ruling
from poller.observability import BatchCommitted
from poller.ports import Row

logger = logging.getLogger("poller")


class Batches:
    """The batches of one tenure."""

    def __init__(
        self, context: Context, delivery: LeasedDelivery, calls: Calls, recorder: Recorder, progress: Progress
    ) -> None:
        self._context = context
        self._delivery = delivery
        self._tenure = delivery.tenure
        self._calls = calls
        self._recorder = recorder
        self._progress = progress

    def hand_over(self, chosen: Plan, rows: PageRows, *, begun: bool, may_go_on: Callable[[], bool]) -> bool:
        """Hand over what was chosen of the rows, and write what came of it; whether that could begin.

        `begun`: the acquire's PUT named the piece already. `may_go_on`: whether another call may follow; where none
        may, or nothing is left to do, the same PUT gives the lease back.
        Raises: LeaseLost, CommitError, StoreError.
        """
        chosen, begun = self._with_records(chosen, rows, begun=begun)
        if not chosen.passes:
            return False
        if not begun:
            self._begin(chosen)
        call = self._call(chosen, rows)
        if call is None:
            return False
        self._tenure.yield_to_operator()
        verdict = self._ruling(chosen, call)
        more = verdict.passes == 0 or len(rows.page.rows) > verdict.passes or self._has_other_work()
        if not self._write(chosen, call, verdict, rows, release=not (more and may_go_on() and not self._delivery.hung)):
            return False
        self._recorder.listed(of_page(verdict.opens), call.errors)
        if verdict.passes:
            self._passed(chosen, call, verdict, rows)
        return True

    # --- before the call -------------------------------------------------------------------------------------------

    def _with_records(self, chosen: Plan, rows: PageRows, *, begun: bool) -> tuple[Plan, bool]:
        """The plan, once the rows that follow others have records: it ends before the first that cannot have one."""
        options = self._context.options
        while True:
            try:
                if chosen.follows:
                    self._delivery.begin_writes()
                self._recorder.open(of_page(chosen.follows))
            except Unrecorded as refused:
                self._progress.blocked = refused.why
                rows.cut(refused.position)
                self._delivery.begin_page()
                chosen, begun = rows.plan(self._tenure.state, options.on_poison, options.limits), False
            else:
                return chosen, begun

    def _begin(self, chosen: Plan) -> None:
        """The PUT before the call, where it says something new."""
        if handover.begun(self._tenure.state, chosen) == self._tenure.state:
            return
        self._tenure.put(lambda state, now: transitions.renew(handover.begun(state, chosen), now=now))
        self._recorder.superseded(chosen.drops)

    def _call(self, chosen: Plan, rows: PageRows) -> Call | None:
        """The call of the chosen rows; None where it could not begin."""
        handed = of_page(chosen.rows)
        if not handed:
            return self._calls.none()
        if chosen.killed:
            return self._calls.killed(handed[0], handed[0].row_key)
        page = rows.page_of(handed)
        batch = self._delivery.batch(
            replace(page, rows=[_copied(row) for row in page.rows]),
            rows.after,
            cursor_to=chosen.passes[-1].cursor,
            passes=chosen.count(len(chosen.passes)),
            untried=self._progress.failed is None,
        )
        return self._calls.run(batch, handed)

    # --- after the call --------------------------------------------------------------------------------------------

    def _ruling(self, chosen: Plan, call: Call) -> Ruling:
        """What follows from the call, once the rows that it lists have records. A row that cannot have one blocks."""
        options = self._context.options
        jitter = self._context.runtime.jitter(0.0, 1.0)

        def judged(mode: Mode) -> Ruling:
            return ruling.judge(
                self._tenure.state, chosen, call.report, mode=mode, limits=options.limits, jitter=jitter
            )

        verdict = judged(options.on_poison)
        try:
            self._recorder.open(
                [row for row in of_page(verdict.opens) if row.id in call.errors],
                errors=call.errors,
                rejected=call.report.rejected,
                failures=verdict.failures,
            )
        except Unrecorded as refused:
            self._progress.error = f"{self._progress.error}. {refused.why}"
            return judged("block")
        return verdict

    def _write(self, chosen: Plan, call: Call, verdict: Ruling, rows: PageRows, *, release: bool) -> bool:
        """The PUT after the call; whether it was made. Raises: LeaseLost, CommitError."""
        columns = self._context.options.ordering_key
        ends = release or verdict.releases
        memory, made = (rows.memory, rows.made) if verdict.passes else (None, None)

        def ended(state: State, now: datetime) -> State:
            after = ruling.ended(
                state,
                chosen,
                verdict,
                batch_id=call.batch_id,
                metadata={"row_count": verdict.delivered},
                error=call.error_at(now) if verdict.failed else None,
                release=release,
                now=now,
                blame=call.blame,
                memory=memory,
                made=made,
            )
            return aside.keyed(after, columns)

        if verdict.passes:
            self._tenure.commit(ended, batch_id=call.batch_id, ends=ends)
            return True
        try:
            self._tenure.put(ended, ends=ends)
        except StoreError as unwritten:
            logger.warning("%s: the failure could not be written: %s", self._context.name, unwritten)
            self._progress.unwritten = True
            return False
        return True

    def _passed(self, chosen: Plan, call: Call, verdict: Ruling, rows: PageRows) -> None:
        """Rows were passed: count them, and tell who listens."""
        progress = self._progress
        progress.rows += verdict.delivered
        progress.batches += 1
        progress.cursor = chosen.passes[verdict.passes - 1].cursor
        self._context.emit(
            BatchCommitted(
                batch_id=call.batch_id,
                rows=verdict.delivered,
                cursor=str(progress.cursor),
                handler_seconds=round(call.seconds, 6),
                **self._tenure.facts(),
            )
        )
        self._context.delivery_log.add(rows.after, rows.page.cursors[: verdict.passes])

    def _has_other_work(self) -> bool:
        """Whether something is left for this tenure although no row is behind the batch."""
        now, limits = self._context.file.clock.now(), self._context.options.limits
        return self._recorder.may_prune() or aside.due(self._tenure.state, now, limits=limits) is not None


def _copied(row: Row) -> Row:
    """The row for the handler, who may change it: the page's is recorded as it was read, and handed over again in the
    same tick after a call that failed."""
    return {
        name: copy.deepcopy(value) if isinstance(value, list | dict | set | tuple | bytearray) else value
        for name, value in row.items()
    }
