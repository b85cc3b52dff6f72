"""Handing over the rows behind the checkpoint: one round after the other, in one lane or in several."""

from __future__ import annotations

from collections.abc import Callable

from poller.model.handover import Plan
from poller.tick.before_call import BeforeCall
from poller.tick.lanes import SeveralLanes
from poller.tick.one_lane import OneLane
from poller.tick.round import calls_left
from poller.tick.rows import PageRows
from poller.tick.slots import Slots
from poller.tick.under_lease import UnderLease


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
