"""What the end of a call in one of several lanes means (throughput.md, "Lanes"; failures 1, 3 and 4).

The rows of such a call do not stand at the checkpoint, so it passes none. The lane leaves behind those that are done or
listed, and the checkpoint passes them once everything before them is. Whatever else failed is tried again from the
checkpoint on, in one lane, by the rules of `ruling`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from poller.model import ruling, transitions
from poller.model.aside import Limits, RowFacts
from poller.model.document import DeliveryError, State
from poller.model.handover import Mode, Plan
from poller.model.ruling import Report, Rule, Ruling


def judge(
    state: State, rows: Sequence[RowFacts], report: Report, *, mode: Mode, limits: Limits, jitter: float
) -> Ruling:
    """What a call of these rows came to. `Ruling.passes`: so many of them, from the first, the lane leaves behind."""
    bad = [*report.failed, *report.rejected]
    if bad and not {row.id for row in rows}.issuperset(bad):
        report, bad = Report("raised"), []
    rule = Rule(state, Plan(rows=tuple(rows), passes=tuple(rows)), mode, limits, jitter)
    if report.end == "later":
        return rule.waits(report.seconds)
    if report.end == "raised" or (report.end == "rejected" and not bad):
        return rule.fails(rows[-1])
    if not bad:
        return Ruling(passes=len(rows), delivered=len(rows))
    fits = rule.has_room(rows[0]) if len(rows) == 1 else report.end == "returned" or rule.room > 0
    if mode == "quarantine" and fits:
        return rule.rejects(report) if report.end == "rejected" else rule.names(report)
    return _before(rows, next(row for row in rows if row.id in bad), report, rule)


def stopped(
    state: State, rows: Sequence[RowFacts], report: Report, at: int, *, limits: Limits, jitter: float
) -> list[Ruling]:
    """What a call came to that named the row at this place, which cannot have a record: those before it are left
    behind, listed where they were named, and the rest comes again."""
    before, bad = rows[:at], {row.id for row in rows[:at]}
    rule = Rule(state, Plan(rows=tuple(rows), passes=tuple(rows)), "quarantine", limits, jitter)
    known = Report(
        report.end,
        failed=[id_ for id_ in report.failed if id_ in bad],
        rejected=[id_ for id_ in report.rejected if id_ in bad],
    )
    failing = rule.fails(rows[at])
    if report.end != "returned" or not before:
        return [failing]
    listing = Rule(state, Plan(rows=tuple(before), passes=tuple(before)), "quarantine", limits, jitter)
    return [listing.names(known), failing]


def passed(part: Plan, delivered: int, limits: Limits) -> Ruling:
    """The checkpoint passes a part of a plan's rows: so many were delivered, the others are listed or done before."""
    rule = Rule(State(poller_name=""), part, "block", limits, 0.0)
    passes = len(part.passes)

    def change(state: State, now: datetime) -> State:
        return rule.passed(state, passes, delivered, now)

    return Ruling(passes=passes, delivered=delivered, change=change)


def _before(rows: Sequence[RowFacts], row: RowFacts, report: Report, rule: Rule) -> Ruling:
    """Only what was done before the row that was named first is left behind."""
    before = list(rows).index(row) if report.end == "returned" else 0
    failing = rule.fails(row, halts=rule.mode == "halt" and bool(report.rejected))
    return replace(failing, passes=before, delivered=before)


@dataclass(frozen=True, slots=True)
class EndedCall:
    """A call that failed, or named rows. blame: what failed, for the reason of a halt."""

    ruling: Ruling
    error: DeliveryError | None
    blame: str


def closed(state: State, ended: Sequence[EndedCall], *, release: bool, now: datetime) -> State:
    """The PUT with which lanes stop: what the calls that failed change. With `release`, or where one of them says so,
    it gives the lease back."""
    fails = any(one.ruling.releases for one in ended)
    if release or fails:
        state = transitions.release(state, give_back=not fails, now=now)
    else:
        state = transitions.renew(state, now=now)
    for one in ended:
        state = ruling.applied(state, one.ruling, error=one.error, blame=one.blame, now=now)
    return state
