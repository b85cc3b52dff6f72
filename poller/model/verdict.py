"""What follows from the end of a call, as a value, and what it changes in a document.

A verdict can be printed and compared. It holds everything that was decided, the jitter of its delays included: a PUT
may be made again on another document, after an operator's change, and must give the same delays and lists. Only the
count of failures in a row may be relative to that document, since an operator may have resumed meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from poller.model import aside, backoff, lanes, window
from poller.model.aside import Limits, RowFacts
from poller.model.cursor import Cursor
from poller.model.document import State
from poller.model.handover import Plan
from poller.model.limits import HIGHEST_COUNT


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


@dataclass(frozen=True, slots=True)
class Verdict:
    """What follows from a call of the rows of a plan.

    Attributes:
        passes: how many rows of the plan are passed; 0: the checkpoint stays.
        moves: the checkpoint passes them; False: only their lane leaves them behind.
        delivered: how many rows the handler reported done.
        listed: rows that are listed. rejected: ids of those of them that wait for a person at once.
        failures: calls of the row alone that failed, if it is listed for that.
        search: what becomes of the window: it stays (`keep`), its piece was not begun (`idle`), the one that stands has
            another `suspect`, the plan's is narrowed to it (`narrow`), or one is opened up to `until` (`open`).
        retry: when the next call may be made: as it stands (`none`), at once (`now`), after a delay for `count`
            failures (`failed`), for one more than the document says (`failed_again`), or in so many `seconds`
            (`later`).
        failed: the PUT stores the error, and the tick ends as `handler_failed`, whatever else it still does.
        releases: the PUT gives the lease back.
        halts: the poller halts. halts_at: it halts if so many calls of the row alone failed in a row; 0: it does not.
        tried: the id of a row aside that was tried. worked: its call did not fail.
        jitter: of its delays, from 0 to 1.
    """

    passes: int = 0
    moves: bool = True
    delivered: int = 0
    listed: tuple[RowFacts, ...] = ()
    rejected: frozenset[str] = frozenset()
    failures: int = 1
    search: Literal["keep", "idle", "suspect", "narrow", "open"] = "keep"
    suspect: Cursor | None = None
    until: Cursor | None = None
    retry: Literal["none", "now", "failed", "failed_again", "later"] = "none"
    count: int = 0
    seconds: float = 0.0
    failed: bool = False
    releases: bool = False
    halts: bool = False
    halts_at: int = 0
    tried: str | None = None
    worked: bool = False
    jitter: float = 0.0


def follows(plan: Plan, passes: int) -> tuple[RowFacts, ...]:
    """Which of the first `passes` rows of a plan follow an earlier row of their key."""
    if not plan.follows:
        return ()
    return tuple(row for row in plan.passes[:passes] if row in plan.follows)


def opens(plan: Plan, verdict: Verdict) -> tuple[RowFacts, ...]:
    """The rows whose records are written before the PUT, so that no row is passed without one."""
    return (*(follows(plan, verdict.passes) if verdict.moves else ()), *verdict.listed)


def apply(state: State, plan: Plan, verdict: Verdict, *, limits: Limits, now: datetime) -> State:
    """What a verdict changes beside checkpoint, lease, error and halt; a checkpoint that it moves is behind the
    rows already."""
    if verdict.tried is not None:
        return _tried(state, verdict.tried, verdict, limits=limits, now=now)
    at: dict[str, int] = {}
    if verdict.moves and verdict.passes:
        at = _positions(state, plan, verdict.passes) if verdict.listed else {}
        state = passed(state, plan, verdict.passes, verdict.delivered, now)
    delay = limits.backoff.delay(verdict.failures, verdict.jitter)
    for row in verdict.listed:
        place = at.get(row.id)
        if row.id in verdict.rejected:
            state = aside.reject(state, row, at=place, now=now)
        else:
            state = aside.set_aside(state, row, at=place, now=now, failures=verdict.failures, delay=delay)
    return _retried(_searched(state, plan, verdict), verdict, limits=limits, now=now)


def _tried(state: State, id_: str, verdict: Verdict, *, limits: Limits, now: datetime) -> State:
    """A row aside was handed over alone (failures 5)."""
    if verdict.worked:
        return aside.remove(state, id_)
    if verdict.retry == "later":
        return aside.put_off(state, id_, seconds=verdict.seconds, now=now)
    if verdict.rejected:
        return aside.rejected_again(state, id_)
    return aside.failed_again(state, id_, limits=limits, jitter=verdict.jitter, now=now)


def _searched(state: State, plan: Plan, verdict: Verdict) -> State:
    standing, suspect = state.delivery.window, verdict.suspect
    match verdict.search:
        case "idle":
            return window.not_begun(state)
        case "suspect" if standing is not None and suspect is not None:
            return window.stored(state, window.suspected(standing, suspect))
        case "narrow" if plan.window is not None and suspect is not None:
            return window.stored(state, window.suspected(plan.window, suspect))
        case "open" if suspect is not None and verdict.until is not None:
            return window.stored(state, window.opened(state, until=verdict.until, suspect=suspect))
    return state


def _retried(state: State, verdict: Verdict, *, limits: Limits, now: datetime) -> State:
    match verdict.retry:
        case "none":
            return state
        case "now":
            return backoff.at_once(state)
        case "later":  # nothing is done, and the attempt does not count
            attempts = max(0, state.delivery.attempts - 1)
            state = state.model_copy(update={"delivery": state.delivery.model_copy(update={"attempts": attempts})})
            return backoff.wait(state, seconds=verdict.seconds, now=now)
    more = backoff.failures_of(state) + 1 if verdict.retry == "failed_again" else 0
    return backoff.failed(state, failures=verdict.count + more, backoff=limits.backoff, jitter=verdict.jitter, now=now)


def passed(state: State, plan: Plan, passes: int, done: int, now: datetime) -> State:
    """What every PUT that passes rows changes; the checkpoint is behind them already."""
    position = min(state.checkpoint.position + plan.count(passes), HIGHEST_COUNT)
    known = state.aside or state.quarantine or plan.follows
    at = _positions(state, plan, passes) if known else {}
    checkpoint = state.checkpoint.model_copy(update={"position": position})
    state = aside.delivered(state.model_copy(update={"checkpoint": checkpoint}), done)
    state = aside.passed(state, at)
    if plan.lanes < passes:
        state = lanes.over(state)
    for row in follows(plan, passes):
        state = aside.follow(state, row, at=at[row.id], now=now)
    standing = plan.window
    if standing is None or (plan.last and passes == len(plan.passes)):
        return backoff.at_once(window.stored(state, None) if state.delivery.window is not None else state)
    return backoff.at_once(window.stored(state, window.moved(standing, state.checkpoint.cursor)))


def _positions(state: State, plan: Plan, passes: int) -> dict[str, int]:
    """The positions that the rows passed get, by their ids."""
    return {id_: state.checkpoint.position + place for id_, place in plan.places(passes).items()}
