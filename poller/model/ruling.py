"""What the end of a call means (failures 1 to 4, 6 and 7): which rows are passed, set aside, or tried again.

Records that a ruling opens are written before its PUT, so that no row is passed without one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from poller.model import aside, backoff, lanes, transitions, window
from poller.model.aside import Limits, RowFacts
from poller.model.document import DeliveryError, State
from poller.model.handover import Mode, Plan
from poller.model.limits import HIGHEST_COUNT, LONGEST_REASON


@dataclass(frozen=True, slots=True)
class Report:
    """What a call came to.

    Attributes:
        end: it `returned`; `raised`, timed out or was killed; raised `rejected`; or asked to be called `later`.
        failed, rejected: ids of rows that it named.
        seconds: for `later`.
    """

    end: Literal["returned", "raised", "rejected", "later"] = "returned"
    failed: Collection[str] = ()
    rejected: Collection[str] = ()
    seconds: float = 0.0


def _unchanged(state: State, now: datetime) -> State:  # noqa: ARG001
    return state


@dataclass(frozen=True, slots=True)
class Ruling:
    """What follows from it.

    Attributes:
        opens: rows whose records are written before the PUT.
        passes: how many rows of the plan the PUT passes; 0: the checkpoint stays.
        delivered: how many rows the handler reported done.
        failed: the PUT stores the error, and the tick ends as `handler_failed`, whatever else it still does.
        releases: the PUT gives the lease back.
        halts: the poller halts.
        halts_at: it halts where so many calls of the row alone failed in a row; 0: it does not.
        failures: calls of the row alone that failed, where it is listed for that.
        change: what the PUT changes beside the checkpoint: lists, window, backoff.
    """

    opens: tuple[RowFacts, ...] = ()
    passes: int = 0
    delivered: int = 0
    failed: bool = False
    releases: bool = False
    halts: bool = False
    halts_at: int = 0
    failures: int = 1
    change: Callable[[State, datetime], State] = _unchanged


def judge(state: State, chosen: Plan, report: Report, *, mode: Mode, limits: Limits, jitter: float) -> Ruling:
    """What a call of the plan's rows came to; `state` is the document that the PUT before the call made."""
    alone, bad = len(chosen.rows) == 1, [*report.failed, *report.rejected]
    if bad and not {row.id for row in chosen.rows}.issuperset(bad):
        report, bad = Report("raised"), []
    rule = Rule(state, chosen, mode, limits, jitter)
    if report.end == "later":
        return rule.waits(report.seconds)
    if report.end == "raised" or (alone and report.end == "returned" and report.failed):
        return rule.blocks_or_sets_aside() if alone else rule.fails(chosen.rows[-1])
    if not bad:
        return rule.passes(report)
    if mode == "quarantine" and (report.end == "returned" or rule.room > 0):
        return rule.rejects(report) if report.end == "rejected" and not alone else rule.passes_or_blocks(report)
    return rule.stops_at(next(row for row in chosen.rows if row.id in bad), report)


def stopped(state: State, chosen: Plan, report: Report, id_: str, *, limits: Limits, jitter: float) -> Ruling:
    """What a call came to that named this row, which cannot have a record: the rows before it are passed, those that
    were named among them listed, and the row is handed over alone next, so that those behind it come again once."""
    return Rule(state, chosen, "quarantine", limits, jitter).stops_short(id_, report)


class Rule:
    """One ruling in the making."""

    def __init__(self, state: State, chosen: Plan, mode: Mode, limits: Limits, jitter: float) -> None:
        self.state = state
        self.plan = chosen
        self.mode = mode
        self.limits = limits
        self.jitter = jitter
        self.room = aside.room(state, limits)

    def passes(self, report: Report, *, failures: int = 1) -> Ruling:
        """All rows are passed: what is named is listed, the others are done (failures 3 and 4). Behind a row that
        failed alone nothing is: it needs the room that rows which follow would take."""
        named = {*report.failed, *report.rejected}
        passes = self._upto(self.plan.rows[0]) if named and len(self.plan.rows) == 1 else len(self.plan.passes)
        listed = tuple(row for row in self.plan.rows if row.id in named) if named else ()
        done = len(self.plan.rows) - len(listed)

        def change(state: State, now: datetime) -> State:
            return self._lists(state, passes, listed, done, report, failures, now)

        opens = (*self._follows(passes), *listed)
        return Ruling(opens, passes, done, failed=bool(listed), failures=failures, change=change)

    def passes_or_blocks(self, report: Report) -> Ruling:
        """A row alone that is rejected needs room in the list; those named beside others are listed beyond it."""
        if len(self.plan.rows) == 1 and not self.has_room(self.plan.rows[0]):
            return self.blocks_or_sets_aside()
        return self.passes(report)

    def rejects(self, report: Report) -> Ruling:
        """`Reject` was raised: the row is listed where it stands, and the others come again without it."""
        rejected = tuple(row for row in self.plan.rows if row.id in report.rejected)

        def change(state: State, now: datetime) -> State:
            for row in rejected:
                state = aside.condemn(state, row, at=None, now=now)
            return window.not_begun(state)

        return Ruling(rejected, failed=True, change=change)

    def blocks_or_sets_aside(self) -> Ruling:
        """A row failed alone: it is set aside where that may be, and else tried again and again (failures 4 and 6)."""
        row = self.plan.rows[0]
        failures = 1 + (backoff.failures_of(self.state) if self.plan.window is not None else 0)
        free = aside.failing(self.state) < self.limits.max_aside or self.limits.backoff.exhausted(failures)
        if self.mode == "quarantine" and free and self.has_room(row):
            return self.passes(Report(failed=(row.id,)), failures=failures)
        found = self.plan.window or window.opened(self.state, until=row.cursor, suspect=row.cursor)
        halts_at = self.limits.max_attempts if self.mode == "halt" else 0

        def change(state: State, now: datetime) -> State:
            # Counted from the document that is written: somebody may have resumed meanwhile.
            known = backoff.failures_of(state) if self.plan.window is not None else 0
            return self._waiting(window.stored(state, window.suspected(found, row.cursor)), known + 1, now)

        return Ruling(failed=True, releases=True, halts_at=halts_at, change=change)

    def fails(self, suspect: RowFacts, *, halts: bool = False) -> Ruling:
        """All rows of a larger call failed: the next attempt waits, the next half does not (failures 1 and 2)."""
        standing = self.plan.window
        if standing is None or halts:
            failures = backoff.failures_of(self.state) + 1
            return Ruling(
                failed=True,
                releases=True,
                halts=halts,
                change=lambda state, now: self._waiting(window.not_begun(state), failures, now),
            )
        narrowed = window.suspected(standing, suspect.cursor)

        def change(state: State, now: datetime) -> State:  # noqa: ARG001
            return backoff.at_once(window.stored(state, narrowed))

        return Ruling(failed=True, change=change)

    def stops_at(self, row: RowFacts, report: Report) -> Ruling:
        """Strict order: what was done before the first named row is passed, nothing behind it (failures 3)."""
        halts = self.mode == "halt" and bool(report.rejected)
        before = self.plan.rows.index(row) if report.end == "returned" else 0
        if len(self.plan.rows) == 1 and not halts:
            return self.blocks_or_sets_aside()
        if before == 0:
            return self.fails(row, halts=halts)
        passes = self.plan.passes.index(row)

        def change(state: State, now: datetime) -> State:
            state = self.passed(state, passes, before, now)
            if state.delivery.window is not None:
                state = window.stored(state, window.suspected(state.delivery.window, row.cursor))
            return self._waiting(state, 1 if self.plan.window is None else 0, now)

        return Ruling(self._follows(passes), passes, before, failed=True, releases=True, halts=halts, change=change)

    def stops_short(self, id_: str, report: Report) -> Ruling:
        """See `stopped`."""
        row = next(row for row in self.plan.rows if row.id == id_)
        named = {*report.failed, *report.rejected}
        before = self.plan.rows[: self.plan.rows.index(row)]
        listed = tuple(one for one in before if one.id in named)
        passes, done = self.plan.passes.index(row), len(before) - len(listed)
        until = self.plan.passes[-1].cursor if self.plan.window is None else self.plan.window.until

        def change(state: State, now: datetime) -> State:
            if passes:
                state = self._lists(state, passes, listed, done, report, 1, now)
            alone = window.opened(state, until=until, suspect=row.cursor)
            return self._waiting(window.stored(state, alone), 0, now)

        return Ruling((*self._follows(passes), *listed), passes, done, failed=True, releases=True, change=change)

    def _lists(
        self,
        state: State,
        passes: int,
        listed: Collection[RowFacts],
        done: int,
        report: Report,
        failures: int,
        now: datetime,
    ) -> State:
        """So many rows are passed, and those of them that were named are listed."""
        at = self._positions(state, passes) if listed else {}
        state = self.passed(state, passes, done, now)
        delay = self.limits.backoff.delay(failures, self.jitter)
        for row in listed:
            if row.id in report.rejected:
                state = aside.condemn(state, row, at=at[row.id], now=now)
            else:
                state = aside.set_aside(state, row, at=at[row.id], now=now, failures=failures, delay=delay)
        return state

    def waits(self, seconds: float) -> Ruling:
        """The handler asks to be called later: nothing is done, and the attempt does not count."""

        def change(state: State, now: datetime) -> State:
            attempts = max(0, state.delivery.attempts - 1)
            delivery = state.delivery.model_copy(update={"attempts": attempts})
            state = window.not_begun(state.model_copy(update={"delivery": delivery}))
            return backoff.wait(state, seconds=seconds, now=now)

        return Ruling(failed=True, releases=True, change=change)

    def _upto(self, row: RowFacts) -> int:
        """How many rows are passed with this one as the last."""
        return self.plan.passes.index(row) + 1

    def _follows(self, passes: int) -> tuple[RowFacts, ...]:
        """Which of so many rows follow."""
        if not self.plan.follows:
            return ()
        return tuple(row for row in self.plan.passes[:passes] if row in self.plan.follows)

    def has_room(self, row: RowFacts) -> bool:
        """Whether the row can be listed, with those before it that follow."""
        fits = self.plan.space >= aside.entry_size(row.cursor)
        return fits and self.room > len(self._follows(self._upto(row)))

    def _positions(self, state: State, passes: int) -> dict[str, int]:
        """The positions that the rows passed get, by their ids."""
        return {id_: state.checkpoint.position + place for id_, place in self.plan.places(passes).items()}

    def passed(self, state: State, passes: int, done: int, now: datetime) -> State:
        """What every PUT that passes rows changes; the checkpoint stands behind them already."""
        position = min(state.checkpoint.position + self.plan.count(passes), HIGHEST_COUNT)
        known = state.aside or state.quarantine or self.plan.follows
        at = self._positions(state, passes) if known else {}
        checkpoint = state.checkpoint.model_copy(update={"position": position})
        state = aside.delivered(state.model_copy(update={"checkpoint": checkpoint}), done)
        state = aside.passed(state, at)
        if self.plan.lanes < passes:
            state = lanes.over(state)
        for row in self._follows(passes):
            state = aside.follow(state, row, at=at[row.id], now=now)
        standing = self.plan.window
        if standing is None or (self.plan.last and passes == len(self.plan.passes)):
            return backoff.at_once(window.stored(state, None) if state.delivery.window is not None else state)
        return backoff.at_once(window.stored(state, window.moved(standing, state.checkpoint.cursor)))

    def names(self, report: Report) -> Ruling:
        """In one of several lanes: the named rows are listed where they stand, the others are done."""
        named = {*report.failed, *report.rejected}
        listed = tuple(row for row in self.plan.rows if row.id in named)

        def change(state: State, now: datetime) -> State:
            delay = self.limits.backoff.delay(1, self.jitter)
            for row in listed:
                if row.id in report.rejected:
                    state = aside.condemn(state, row, at=None, now=now)
                else:
                    state = aside.set_aside(state, row, at=None, now=now, failures=1, delay=delay)
            return state

        rows = len(self.plan.rows)
        return Ruling(listed, rows, rows - len(listed), failed=True, change=change)

    def _waiting(self, state: State, failures: int, now: datetime) -> State:
        return backoff.failed(state, failures=failures, backoff=self.limits.backoff, jitter=self.jitter, now=now)


def ended(
    state: State,
    chosen: Plan,
    ruling: Ruling,
    *,
    batch_id: str,
    metadata: dict[str, Any],
    error: DeliveryError | None,
    release: bool,
    now: datetime,
    blame: str = "a row",
    memory: dict[str, Any] | None = None,
    facts: Mapping[str, Any] | None = None,
) -> State:
    """The PUT after the call. With `release` (nothing else is to be done) or where the ruling says so, the lease is
    given back by it. `blame`: what failed, for the reason of a halt; `memory`, `facts`: as
    `transitions.commit`."""
    releases = release or ruling.releases
    if ruling.passes:
        state = transitions.commit(
            state,
            cursor=chosen.passes[ruling.passes - 1].cursor,
            batch_id=batch_id,
            metadata=metadata,
            release=releases,
            now=now,
            memory=memory,
            facts=facts,
        )
    elif releases:
        state = transitions.release(state, give_back=False, now=now)
    else:
        state = transitions.renew(state, now=now)
    return applied(state, ruling, error=error, blame=blame, now=now)


def applied(state: State, ruling: Ruling, *, error: DeliveryError | None, blame: str, now: datetime) -> State:
    """What a ruling changes beside checkpoint and lease."""
    state = ruling.change(state, now)
    if ruling.failed and error is not None:
        state = state.model_copy(update={"delivery": state.delivery.model_copy(update={"last_error": error})})
    failures = backoff.failures_of(state)
    if ruling.halts or 0 < ruling.halts_at <= failures:
        line = "" if error is None else f": {error.type}{f': {error.message}' if error.message else ''}"
        often = "was rejected" if ruling.halts else f"failed {transitions.times(failures)}"
        state = transitions.halt(state, reason=f"{blame} {often}{line}"[:LONGEST_REASON], now=now)
    return state
