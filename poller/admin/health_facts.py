"""What a state document, a page and a lag say to the rule of health (`poller.model.health`); for `status` too."""

from __future__ import annotations

from datetime import datetime

from poller.admin.failing import full
from poller.admin.wired import WiredPoller
from poller.config import PollerOptions
from poller.lease.state_file import Copy
from poller.model import aside, backoff
from poller.model.changes import kept_by, operators_change
from poller.model.document import State
from poller.model.health import Rule
from poller.model.health_memory import Facts, Rows, is_ahead
from poller.model.schedule import Schedule
from poller.ports import Bound, Lag, Page


def rule_of(poller: WiredPoller) -> Rule:
    """By which options a poller is judged."""
    options = poller.options
    return Rule(
        schedule=Schedule(options.schedule),
        ttl=options.timing.ttl,
        handler_limit=options.handler_limit.total_seconds(),
        max_lag=None if options.max_lag is None else options.max_lag.total_seconds(),
        max_bound_age=None if options.max_bound_age is None else options.max_bound_age.total_seconds(),
        starts_now=bool(getattr(poller.source, "starts_now", False)),
    )


def facts_of(copy: Copy, poller: WiredPoller, now: datetime, rows: Rows | None = None) -> Facts:
    """What a document says. `now`: the store's clock."""
    state, options = copy.state, poller.options
    change = operators_change(state)
    aside_due = aside.all_due(aside.parking_ended(state), now, limits=options.limits)
    since = [_believable(row.retry_at, now) or _believable(row.since, now) or now for row in aside_due]
    return Facts(
        now=now,
        paused=state.control.paused,
        halted=state.control.halted,
        blocked=full(state, options) is not None,
        committed_at=_believable(state.checkpoint.updated_at, now),
        generation=state.checkpoint.generation,
        began=state.checkpoint.last_successful_batch_id is None,
        changed_at=None if change is None else _believable(change.at, now),
        retry_at=retry_at(state, options, now),
        aside_due_at=min(since, default=None),
        aside_due=len(aside_due),
        at_work_since=_at_work_since(copy, poller, now),
        rows=rows,
    )


def worker_of(copy: Copy, poller: WiredPoller) -> str | None:
    """The worker that holds the live lease; None where nobody does, or an operator keeps it."""
    free = copy.availability(poller.options.timing, poller.runtime.monotonic()).free
    return None if free or kept_by(copy.state) is not None else copy.state.lease.owner_id


def retry_at(state: State, options: PollerOptions, now: datetime) -> datetime | None:
    """When the next call may be made after one that failed; it may have passed. None where none failed, or where the
    time was written by a clock that was far ahead."""
    if not backoff.waits(state):
        return None
    at = state.delivery.retry_at
    if at is not None and at <= now:
        return at
    return backoff.waits_until(state, now, options.limits.backoff)


def rows_of(page: Page, lag: Lag | None) -> Rows:
    """What a page of one row, and the lag asked after it, say; `lag` is None where it could not be counted in time."""
    bound = page.bound
    readable = len(page.rows) > 0
    return Rows(
        readable=readable,
        above=not readable and lag is not None and lag.pending > 0,
        age=None if lag is None or not lag.pending else lag.seconds,
        bound_age=bound.age_seconds,
        held=is_held(bound),
        below_checkpoint=bound.below_checkpoint,
    )


def is_held(bound: Bound) -> bool:
    """Whether somebody or something holds a bound back, so that its age is not its usual one."""
    return bound.held_by is not None or bound.clock_went_back or (bound.value is None and bound.kind != "none")


def _at_work_since(copy: Copy, poller: WiredPoller, now: datetime) -> datetime | None:
    """In the first try of a batch: one that crashes or fails each time makes no progress, however often it starts."""
    state = copy.state
    if worker_of(copy, poller) is None or state.delivery.attempts > 1 or backoff.fails(state):
        return None
    return _believable(state.lease.acquired_at, now)


def _believable(at: datetime | None, now: datetime) -> datetime | None:
    """A moment that has been; None for one of a clock that was far ahead."""
    if at is None or is_ahead(at, now):
        return None
    return min(at, now)
