"""Handing over the rows behind the checkpoint: one round after the other, in one lane or in several.

What goes before a call whose rows stand right behind the checkpoint: records of the rows that wait behind others, and a
PUT if it says something new (failures 2, 4 and 7).
"""

from __future__ import annotations

from collections.abc import Callable

from poller.model import handover, transitions, window
from poller.model.handover import Plan
from poller.tick.lanes import SeveralLanes
from poller.tick.one_lane import OneLane
from poller.tick.reader import KEPT_FOR
from poller.tick.recorder import Unrecorded
from poller.tick.round import calls_left
from poller.tick.rows import PageRows, RowOfPage, of_page
from poller.tick.slots import Slots
from poller.tick.under_lease import UnderLease

LEAST_RESENDING = 1.0
"""Seconds for which the record of a row that follows is sent, however long ago the row was read."""


class Rounds:
    """The rounds of one tenure. `may_go_on`: whether another call may follow."""

    def __init__(self, under: UnderLease, slots: Slots, may_go_on: Callable[[], bool]) -> None:
        self._under = under
        self._slots = slots
        self._may_go_on = may_go_on
        self._before = BeforeCall(under)

    def hand_over(self, chosen: Plan, rows: PageRows, *, begun: bool) -> bool:
        """Hand over what was chosen of the rows, and those behind them as far as they may go in the same way, until
        nothing is left, a call fails, or no other may follow; and write what came of it. True if that could begin, or
        if the rows are to be read again, as they are too old, have gone or moved.

        `begun`: the acquire's PUT named the piece already. If no other call may follow, or nothing is left to do, the
        last PUT gives the lease back.
        Raises: LeaseLost, CommitError, StoreError; what reading the next rows raises.
        """
        under, reached = self._under, self._under.progress.reached
        lanes = under.context.options.concurrency if rows.is_wide else 1
        strict = lanes == 1 and not (chosen.window is None and chosen.is_plain)
        if lanes == 1 and chosen.window is None:  # rows that are searched for the one that fails are tried again
            under.reader.go_ahead(batches=calls_left(under, begun=1))
        if lanes > 1 or strict:
            under.committer.settle()
        if lanes > 1:
            began = SeveralLanes(under, self._slots, self._may_go_on, lanes).run(chosen, rows)
        else:
            chosen, begun = self._before.with_records(chosen, rows, begun=begun)
            if not chosen.passes:
                return False
            if not begun:
                self._before.begin(chosen)
            began = OneLane(under, self._slots, self._may_go_on, chosen if strict else None).run(chosen, rows)
        if under.progress.reached is not reached:
            self._before.passed()
        return began


class BeforeCall:
    """The same for all calls of one tenure."""

    def __init__(self, under: UnderLease) -> None:
        self._context = under.context
        self._delivery = under.delivery
        self._tenure = under.tenure
        self._recorder = under.recorder
        self._committer = under.committer
        self._progress = under.progress
        self._asked: dict[str, str | None] = {}
        """By the id of a row that follows others, for whose record the store was asked since rows were passed last: why
        there is none; None if it is written."""

    def passed(self) -> None:
        """Rows were passed."""
        self._asked.clear()

    def with_records(self, chosen: Plan, rows: PageRows, *, begun: bool) -> tuple[Plan, bool]:
        """The plan, once the rows that follow others have records: it ends before the first that cannot have one, or
        whose record is not taken while the rows before it are young enough to be handed over. If rows are read again
        because their records took too long, it ends before the first without a record: else rows that others change
        all the time, with records that are of no use, would hold up those before them."""
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

    def begin(self, chosen: Plan) -> None:
        """The PUT before the call, if it says something new."""
        state = self._tenure.state
        if handover.begun(state, chosen) == state:
            return
        self._committer.settle()
        self._tenure.put(lambda state, now: transitions.renew(handover.begun(state, chosen), now=now))
        self._recorder.superseded(chosen.drops)

    def _is_kept(self, row: RowOfPage, rows: PageRows, *, again: bool) -> bool:
        """True if a row that follows others has a record, which is written unless the store has refused it; if `again`,
        only for the first row."""
        if row.id not in self._asked:
            if again and row.position:
                return False
            why = None
            age = self._context.runtime.monotonic() - rows.read_at
            try:
                self._recorder.open([row], within=max(LEAST_RESENDING, KEPT_FOR - age))
            except Unrecorded as refused:
                why = refused.why
            self._asked[row.id] = why
        return self._asked[row.id] is None
