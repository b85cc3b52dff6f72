"""How lanes end: what calls that failed mean, and the last write of a round (throughput.md, "Lanes")."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from poller.delivery.calls import Call
from poller.delivery.committer import Committer
from poller.delivery.context import Context
from poller.delivery.progress import Progress
from poller.delivery.recorder import Recorder, Unrecorded
from poller.delivery.rows import RowOfPage, of_page
from poller.delivery.watermark import Watermark
from poller.errors import StoreError
from poller.lease.tenure import Tenure
from poller.model import judging
from poller.model.handover import Plan
from poller.model.put import Landing, Put
from poller.model.verdict import Verdict, opens

logger = logging.getLogger("poller")


class LaneEnds:
    """What the calls of one round came to that did not do every row."""

    def __init__(
        self,
        context: Context,
        tenure: Tenure,
        recorder: Recorder,
        committer: Committer,
        progress: Progress,
        watermark: Watermark,
    ) -> None:
        self._context = context
        self._options = context.options
        self._tenure = tenure
        self._recorder = recorder
        self._committer = committer
        self._progress = progress
        self._watermark = watermark
        self._failed: list[tuple[Call, Landing]] = []

    @property
    def any_failed(self) -> bool:
        """Whether a call failed, or named rows: then no batch begins any more."""
        return bool(self._failed)

    def clear(self) -> None:
        """Another round begins."""
        self._failed.clear()

    def judge(self, rows: Sequence[RowOfPage], call: Call) -> tuple[int, frozenset[str]]:
        """After a call that failed: how many of its rows the lane leaves behind, and the ids of those that it lists."""
        state, options = self._tenure.state, self._options
        plan, jitter = Plan(rows=tuple(rows), passes=tuple(rows)), self._context.runtime.jitter(0.0, 1.0)

        def judged(unrecorded: str | None = None) -> Verdict:
            return judging.judge(
                state,
                plan,
                call.report,
                mode=options.on_poison,
                limits=options.limits,
                jitter=jitter,
                lane=True,
                unrecorded=unrecorded,
            )

        found = judged()
        for row in of_page(opens(plan, found)):
            try:
                self._recorder.open([row], errors=call.errors, rejected=call.report.rejected)
            except Unrecorded as refused:
                self._progress.error = f"{self._progress.error}. {refused.why}"
                found = judged(row.id)
                break
        self._failed.append((call, Landing(plan, found, call.batch_id, call.error, call.blame)))
        return found.passes, frozenset(row.id for row in found.listed)

    def write(self, *, release: bool, drained: bool) -> None:
        """The last PUT: the watermark, what is done above it, and what failed. `release`: it gives the lease back;
        `drained`: no row is left.

        Raises: LeaseLost, CommitError.
        """
        watermark = self._watermark
        failed = sorted(self._failed, key=_weight)
        put = Put(
            landings=list(watermark.passed()),
            above=watermark.above(self._tenure.state.delivery.lanes),
            failed=[landing for _, landing in failed],
            release=release,
            drained=drained,
        )
        if put.landings or (put.above is not None and put.above.cursors):
            self._committer.now(put)
        elif failed:
            self._committer.settle()
            self._write(put)
        for call, landing in failed:
            self._recorder.listed(of_page(landing.verdict.listed), call.errors)

    def _write(self, put: Put) -> None:
        """The PUT after calls of which nothing is done. Raises: LeaseLost."""
        try:
            self._committer.write(put)
        except StoreError as unwritten:
            logger.warning("%s: the failure could not be written: %s", self._context.name, unwritten)
            self._progress.unwritten = True


def _weight(failed: tuple[Call, Landing]) -> tuple[bool, int]:
    """What is written last decides: a halt, and before that how long nothing is called."""
    call, one = failed
    return one.verdict.halts, ("returned", "rejected", "raised", "later").index(call.report.end)
