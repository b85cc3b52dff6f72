"""What the end of a call means (failures 1 to 4, 6 and 7): one rule for one lane and for many.

The rows of a call in one of several lanes are not at the checkpoint, so it passes none: the lane leaves behind
those that are done or listed, and the checkpoint passes them once everything before them is. Whatever else failed there
is tried again from the checkpoint on, in one lane.
"""

from __future__ import annotations

from dataclasses import replace

from poller.model import aside, backoff
from poller.model.aside import Limits, RowFacts
from poller.model.document import State
from poller.model.handover import Mode, Plan
from poller.model.verdict import Report, Verdict, follows


def judge(
    state: State,
    plan: Plan,
    report: Report,
    *,
    mode: Mode,
    limits: Limits,
    jitter: float,
    lane: bool = False,
    unrecorded: str | None = None,
) -> Verdict:
    """What a call of the plan's rows came to.

    Args:
        state: the document that the PUT before the call made. lane: the call was made in one of several lanes.
        unrecorded: the id of a row that it named and that cannot have a record.
    """
    bad = [*report.failed, *report.rejected]
    if bad and not {row.id for row in plan.rows}.issuperset(bad):
        report, bad = Report("raised"), []
    rule = _Rule(state, plan, mode, limits)
    if unrecorded is not None:
        found = rule.stops_before(unrecorded, report) if lane else rule.stops_short(unrecorded, report)
    elif report.end == "later":
        found = Verdict(failed=True, releases=True, search="idle", retry="later", seconds=report.seconds)
    else:
        found = rule.in_lane(report, bad) if lane else rule.at_checkpoint(report, bad)
    return replace(found, jitter=jitter)


def tried(id_: str, report: Report, *, jitter: float) -> Verdict:
    """What an attempt of a row came to that is aside."""
    if report.end == "later":
        return Verdict(tried=id_, retry="later", seconds=report.seconds, jitter=jitter)
    worked = report.end != "raised" and not report.failed and not report.rejected
    return Verdict(tried=id_, worked=worked, rejected=frozenset(report.rejected), jitter=jitter)


class _Rule:
    """One verdict in the making."""

    def __init__(self, state: State, plan: Plan, mode: Mode, limits: Limits) -> None:
        self._state = state
        self._plan = plan
        self._mode = mode
        self._limits = limits
        self._room = aside.room(state, limits)
        self._alone = len(plan.rows) == 1

    def at_checkpoint(self, report: Report, bad: list[str]) -> Verdict:
        """Of rows that stand right behind the checkpoint."""
        rows, alone = self._plan.rows, self._alone
        if report.end == "raised" or (alone and report.end == "returned" and report.failed):
            return self._blocks_or_sets_aside() if alone else self._fails(rows[-1])
        if not bad:
            return self._passes(report)
        if self._mode == "quarantine" and (report.end == "returned" or self._room > 0):
            if report.end == "rejected" and not alone:
                return self._rejects(report)
            # A row alone that is rejected needs room in the list; those named beside others are listed beyond it.
            return self._blocks_or_sets_aside() if alone and not self._has_room(rows[0]) else self._passes(report)
        return self._stops_at(next(row for row in rows if row.id in bad), report)

    def in_lane(self, report: Report, bad: list[str]) -> Verdict:
        """Of rows that stand anywhere behind the checkpoint. `passes`: so many of them the lane leaves behind."""
        rows = self._plan.rows
        if report.end == "raised" or (report.end == "rejected" and not bad):
            return self._fails(rows[-1])
        if not bad:
            return Verdict(passes=len(rows), delivered=len(rows), moves=False)
        fits = self._has_room(rows[0]) if self._alone else report.end == "returned" or self._room > 0
        if self._mode == "quarantine" and fits:
            return self._rejects(report) if report.end == "rejected" else self._names(report)
        row = next(row for row in rows if row.id in bad)
        before = list(rows).index(row) if report.end == "returned" else 0
        failing = self._fails(row, halts=self._mode == "halt" and bool(report.rejected))
        return replace(failing, passes=before, delivered=before, moves=False)

    def stops_short(self, id_: str, report: Report) -> Verdict:
        """A row that was named cannot have a record: the rows before it are passed, those named among them listed, and
        it is handed over alone next, so that those behind it come again once."""
        plan = self._plan
        row = next(row for row in plan.rows if row.id == id_)
        named = {*report.failed, *report.rejected}
        before = plan.rows[: plan.rows.index(row)]
        listed = tuple(one for one in before if one.id in named)
        return Verdict(
            passes=plan.passes.index(row),
            delivered=len(before) - len(listed),
            listed=listed,
            rejected=frozenset(report.rejected),
            search="open",
            suspect=row.cursor,
            until=plan.passes[-1].cursor if plan.window is None else plan.window.until,
            retry="failed",
            failed=True,
            releases=True,
        )

    def stops_before(self, id_: str, report: Report) -> Verdict:
        """The same in a lane: it leaves the rows before it behind, and the rest comes again."""
        rows = self._plan.rows
        row = next(row for row in rows if row.id == id_)
        failing = self._fails(row)
        before = rows[: rows.index(row)]
        if report.end != "returned" or not before:
            return failing
        named = {*report.failed, *report.rejected}
        listed = tuple(one for one in before if one.id in named)
        left = replace(failing, passes=len(before), delivered=len(before) - len(listed), moves=False)
        return replace(left, listed=listed, rejected=frozenset(report.rejected))

    def _passes(self, report: Report, *, failures: int = 1) -> Verdict:
        """All rows are passed: what is named is listed, the others are done (failures 3 and 4). Behind a row that
        failed alone nothing is: it needs the room that rows which follow would take."""
        rows, named = self._plan.rows, {*report.failed, *report.rejected}
        listed = tuple(row for row in rows if row.id in named) if named else ()
        return Verdict(
            passes=self._upto(rows[0]) if named and self._alone else len(self._plan.passes),
            delivered=len(rows) - len(listed),
            listed=listed,
            rejected=frozenset(report.rejected),
            failures=failures,
            failed=bool(listed),
        )

    def _names(self, report: Report) -> Verdict:
        """In a lane: the named rows are listed where they stand, the others are done."""
        rows, named = self._plan.rows, {*report.failed, *report.rejected}
        listed = tuple(row for row in rows if row.id in named)
        return Verdict(
            passes=len(rows),
            delivered=len(rows) - len(listed),
            moves=False,
            listed=listed,
            rejected=frozenset(report.rejected),
            failed=True,
        )

    def _rejects(self, report: Report) -> Verdict:
        """`Reject` was raised: the row is listed where it stands, and the others come again without it."""
        rejected = tuple(row for row in self._plan.rows if row.id in report.rejected)
        ids = frozenset(row.id for row in rejected)
        return Verdict(listed=rejected, rejected=ids, search="idle", failed=True)

    def _blocks_or_sets_aside(self) -> Verdict:
        """A row failed alone: it is set aside where that may be, and else tried again and again (failures 4 and 6)."""
        row, searched = self._plan.rows[0], self._plan.window is not None
        failures = 1 + (backoff.failures_of(self._state) if searched else 0)
        free = aside.failing(self._state) < self._limits.max_aside or self._limits.backoff.exhausted(failures)
        if self._mode == "quarantine" and free and self._has_room(row):
            return self._passes(Report(failed=(row.id,)), failures=failures)
        return Verdict(
            search="narrow" if searched else "open",
            suspect=row.cursor,
            until=row.cursor,
            # Counted from the document that is written: an operator may have resumed meanwhile.
            retry="failed_again" if searched else "failed",
            count=0 if searched else 1,
            failed=True,
            releases=True,
            halts_at=self._limits.max_attempts if self._mode == "halt" else 0,
        )

    def _fails(self, suspect: RowFacts, *, halts: bool = False) -> Verdict:
        """All rows of a larger call failed: the next attempt waits, the next half does not (failures 1 and 2)."""
        if self._plan.window is None or halts:
            failures = backoff.failures_of(self._state) + 1
            return Verdict(search="idle", retry="failed", count=failures, failed=True, releases=True, halts=halts)
        return Verdict(search="narrow", suspect=suspect.cursor, retry="now", failed=True)

    def _stops_at(self, row: RowFacts, report: Report) -> Verdict:
        """Strict order: what was done before the first named row is passed, nothing behind it (failures 3)."""
        halts = self._mode == "halt" and bool(report.rejected)
        before = self._plan.rows.index(row) if report.end == "returned" else 0
        if self._alone and not halts:
            return self._blocks_or_sets_aside()
        if before == 0:
            return self._fails(row, halts=halts)
        return Verdict(
            passes=self._plan.passes.index(row),
            delivered=before,
            search="suspect",
            suspect=row.cursor,
            retry="failed",
            count=1 if self._plan.window is None else 0,
            failed=True,
            releases=True,
            halts=halts,
        )

    def _upto(self, row: RowFacts) -> int:
        """The number of rows that are passed with this one as the last."""
        return self._plan.passes.index(row) + 1

    def _has_room(self, row: RowFacts) -> bool:
        """True if the row can be listed, with those before it that follow."""
        fits = self._plan.space >= aside.entry_size(row.cursor)
        return fits and self._room > len(follows(self._plan, self._upto(row)))
