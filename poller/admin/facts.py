"""What a document, a page of one row and an error say of a poller (`poller.model.view`)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from poller.admin.wired import WiredPoller
from poller.config import PollerOptions
from poller.errors import (
    CaptureGap,
    ConfigError,
    FingerprintMismatch,
    LeaseHeld,
    PollerError,
    SourceUnavailable,
    StateCorrupt,
    StoreDenied,
    StoreError,
)
from poller.lease.state_file import Copy
from poller.model import aside, backoff, window
from poller.model.changes import cancelled_worker, kept_by, operators_change
from poller.model.cursor import Cursor
from poller.model.document import OperatorChange, State
from poller.model.memory import is_ahead
from poller.model.redact import error_line
from poller.model.schedule import Schedule
from poller.model.view import PollerFacts, PollerLimits
from poller.ports import Bound, Page
from poller.tick.result import TickResult
from poller.tick.watches import PENDING_CAP

_FAILED = frozenset({"handler_failed", "backing_off", "blocked"})
"""Outcomes of a tick after which the rows of its batch still wait."""
_MOVES = frozenset({"reset-to-beginning", "reset-to-cursor", "reset-to-checkpoint", "clone-checkpoint", "import"})
"""Changes that say where a checkpoint stands."""


def limits_of(poller: WiredPoller, *, backfill: bool = False) -> PollerLimits:
    """By which options a poller is judged."""
    options = poller.options
    return PollerLimits(
        following=Schedule(options.schedule).next_after,
        ttl=options.timing.ttl,
        heartbeat=options.timing.heartbeat,
        handler_timeout=options.handler_limit.total_seconds(),
        max_lag=None if options.max_lag is None else options.max_lag.total_seconds(),
        max_bound_age=None if options.max_bound_age is None else options.max_bound_age.total_seconds(),
        on_poison=options.on_poison,
        max_quarantined=options.max_quarantined,
        starts_now=not backfill and bool(getattr(poller.source, "starts_now", False)),
        backfill=backfill,
    )


def _is_move(change: OperatorChange) -> bool:
    """True if the change says where the checkpoint stands."""
    before, after = change.before or {}, change.after or {}
    return change.kind in _MOVES or (change.kind == "undo" and before.get("generation") != after.get("generation"))


def facts_of(name: str, copy: Copy, poller: WiredPoller, now: datetime) -> PollerFacts:
    """What a document says. `now`: the store's clock."""
    state, options = copy.state, poller.options
    checkpoint, control, delivery, lease = state.checkpoint, state.control, state.delivery, state.lease
    available = copy.availability(options.timing, poller.runtime.monotonic())
    keeps = None if available.free else kept_by(state)
    change = operators_change(state)
    changed_at = None if change is None else _believable(change.at, now)
    moved = change if change is not None and _is_move(change) else None
    at, moved_at = _believable(checkpoint.updated_at, now), None if moved is None else changed_at
    committed = checkpoint.last_successful_batch_id is not None and (moved_at is None or at is None or at > moved_at)
    listed = aside.after_reset(state)
    due = aside.all_due(listed, now, limits=options.limits)
    since = [_believable(row.retry_at, now) or _believable(row.since, now) or now for row in due]
    failed = delivery.last_error if delivery.attempts or backoff.fails(state) or control.halted else None
    heartbeat = None if lease.owner_id is None else _believable(lease.heartbeat_at, now)
    return PollerFacts(
        name=name,
        now=now,
        created_at=None if committed else at,
        committed_at=at if committed else None,
        changed_at=changed_at,
        moved_at=moved_at,
        moved_by=None if moved is None else f"{moved.kind} by {moved.by}",
        paused=control.paused,
        cancelled=not available.free and cancelled_worker(state) is not None,
        halted=control.halted,
        by=control.by,
        why=control.reason,
        at=_believable(control.at, now),
        worker=None if available.free or keeps is not None else lease.owner_id,
        kept_by=keeps,
        lease_live=not available.free,
        lease_since=_believable(lease.acquired_at, now),
        heartbeat_age=None if heartbeat is None else (now - heartbeat).total_seconds(),
        expires_in=None if available.free else available.expires_in,
        attempts=delivery.attempts,
        failures=backoff.failures_of(state),
        retry_at=retry_at(state, options, now),
        error_type=None if failed is None else failed.type,
        error_text=None if failed is None else failed.message,
        error_at=None if failed is None else failed.at,
        searching=window.standing(state) is not None,
        aside=len(listed.aside),
        aside_due=len(due),
        aside_due_since=min(since, default=None),
        quarantined=len(listed.quarantine),
        unfinished=state.unfinished,
        left_until=lease.released_at or lease.expires_at,
    )


def with_page(facts: PollerFacts, page: Page, row: Cursor | None) -> PollerFacts:
    """With what a page of one row says. `row`: the one that fails, if that is known."""
    key = {} if row is None else row.tiebreaker or {}
    readable = len(page.rows) > 0
    parts = tuple(f"{name}={value}" for name, value in key.items())
    uncounted = readable and not facts.pending
    return replace(
        _with_bound(facts, page.bound),
        readable=readable,
        pending=1 if uncounted else facts.pending,
        capped=uncounted or facts.capped,
        row=", ".join(parts) or None,
        row_key=parts,
        searching=facts.searching and row is None,
    )


def after_tick(poller: WiredPoller, copy: Copy | None, ended_with: TickResult | PollerError) -> PollerFacts:
    """What a tick found, without a further look: the document as it left it, and what its result or its error says."""
    now = poller.runtime.utcnow() if copy is None else copy.server_time or poller.runtime.utcnow()
    nothing = PollerFacts(name=poller.name, now=now, document="none")
    facts = nothing if copy is None else facts_of(poller.name, copy, poller, now)
    if not isinstance(ended_with, TickResult):
        return ended(facts, ended_with)
    bound, pending, failed = ended_with.bound, ended_with.pending or 0, ended_with.outcome in _FAILED
    facts = replace(
        facts,
        readable=failed or (pending > 0 and not ended_with.held_up and ended_with.outcome != "idle"),
        pending=max(pending, int(failed)),
        capped=pending >= PENDING_CAP,
        age=ended_with.lag_seconds if pending else None,
    )
    return facts if bound is None else _with_bound(facts, bound)


def _with_bound(facts: PollerFacts, bound: Bound) -> PollerFacts:
    """With what a bound says."""
    return replace(
        facts,
        distance=0.0 if _is_held(bound) else bound.age_seconds or 0.0,
        held_by=bound.held_by,
        clock_back=bound.clock_back,
        below_checkpoint=bound.below_checkpoint,
    )


def ended(facts: PollerFacts, error: Exception) -> PollerFacts:
    """With what kept the look from being complete."""
    if isinstance(error, LeaseHeld):  # a tick of this process has the only source that there is
        return replace(facts, source="unasked")
    if not isinstance(error, PollerError):
        fault = f"{type(error).__name__}: {error_line(error)}. This is a fault in poller."
        return replace(facts, source="error", trouble=fault)
    facts = replace(facts, trouble=error.message, step=error.next_step or None)
    if isinstance(error, ConfigError):
        return replace(facts, config=error.message)
    if isinstance(error, StateCorrupt):
        return replace(facts, document=error.what)
    if isinstance(error, StoreError):
        return replace(facts, store="denied" if isinstance(error, StoreDenied) else "away")
    if isinstance(error, FingerprintMismatch):
        return replace(facts, source="other", differs=error.message)
    if isinstance(error, CaptureGap):
        return replace(facts, source="gap")
    return replace(facts, source="away" if isinstance(error, SourceUnavailable) else "error")


def retry_at(state: State, options: PollerOptions, now: datetime) -> datetime | None:
    """When the next call may be made after one that failed; it may have passed. None if none failed, or if the time was
    written by a clock that was far ahead."""
    if not backoff.waits(state):
        return None
    at = state.delivery.retry_at
    if at is not None and at <= now:
        return at
    return backoff.waits_until(state, now, options.limits.backoff)


def _is_held(bound: Bound) -> bool:
    """True if a transaction or a clock holds a bound back, so that its age is not its usual one."""
    return bound.held_by is not None or bound.clock_went_back or (bound.value is None and bound.kind != "none")


def _believable(at: datetime | None, now: datetime) -> datetime | None:
    """A moment that has been; None for one of a clock that was far ahead."""
    if at is None or is_ahead(at, now):
        return None
    return min(at, now)
