"""Words for where a poller stands: `poller status`, `watch` and `peek` share them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from poller.admin.counts import number, rows
from poller.admin.health_words import waited
from poller.backfill.status import BackfillStatus
from poller.errors import (
    ConfigError,
    FingerprintMismatch,
    PollerError,
    SourceUnavailable,
    StateCorrupt,
    StoreDenied,
    StoreError,
)
from poller.model.escape import cut
from poller.model.transitions import times
from poller.model.when import ago, moment, span

if TYPE_CHECKING:
    from poller.admin.status import PollerStatus
    from poller.delivery.result import BoundOutput
    from poller.model.cursor import Cursor

STALLED = 60.0
"""For so many seconds rows may wait for a tick before it is said."""

_HALTED = {False: "halted", True: "halted, and paused"}


def waits_above(pending: int, capped: bool, bound: BoundOutput | None) -> str:
    """That rows are there, and that none of them may be read yet."""
    value = "" if bound is None or bound.value is None else f" {bound.value}"
    return f"{rows(pending, capped)} wait{'s' * (pending == 1)} above the bound{value} (poller check says why)"


def stalled(status: PollerStatus) -> str | None:
    """That nobody delivers what waits, where that has been so for longer than ticks take."""
    seconds = status.stalled_seconds
    if seconds is None or seconds < STALLED or not status.pending:
        return None
    return f"{waited(seconds)} (poller health)"


def at_work(status: PollerStatus) -> bool:
    """Whether a worker holds its lease."""
    return bool(status.lease.live) and status.lease.kept_by is None


def _word_of_backfill(status: BackfillStatus) -> tuple[str, str]:
    """By its document, whatever the database or the configuration says."""
    words = (
        (status.finished, "finished", "green"),
        (bool(status.halted), _HALTED[bool(status.paused)], "red"),
        (bool(status.paused), _word_of_pause(status), "yellow"),
        (at_work(status), "working", "green"),
        (bool(status.lease.live), "waiting", "yellow"),
        (is_failing(status), "failing", "red"),
    )
    return next(((word, colour) for so, word, colour in words if so), ("not running", "yellow"))


def _word_of_pause(status: PollerStatus) -> str:
    """A pause lets the batch in hand be finished and committed; a cancel does not."""
    if not at_work(status):
        return "paused"
    return "cancelling" if status.control.cancelled else "pausing"


def is_failing(status: PollerStatus) -> bool:
    """Whether its pending batch failed, and is tried again."""
    found = status.failing
    searches = found.searched_up_to is not None or found.row is not None
    return status.last_error is not None and bool(status.attempts or found.failures or searches)


def state_word(status: PollerStatus) -> tuple[str, str]:
    """One word for the whole, and its colour."""
    if isinstance(status, BackfillStatus):
        return _word_of_backfill(status)
    if status.error is not None:
        return "not known in full" if status.exists else "not known", "red"
    if status.halted:
        return _HALTED[bool(status.paused)], "red"
    if status.paused:
        return _word_of_pause(status), "yellow"
    if not status.exists:
        return "never ran", "dim"
    if status.bound is not None and status.bound.below_checkpoint:
        return "held", "red"
    if status.lease.live:
        return ("working", "green") if at_work(status) else ("waiting", "yellow")
    if status.failing.blocked and (status.pending or status.failing.failures):
        return "blocked", "red"
    if is_failing(status):
        return "failing", "red"
    if status.above_bound:
        return "waiting", "yellow"
    return ("behind", "yellow") if status.pending else ("idle", "green")


def cursor_text(status: PollerStatus) -> str:
    """Where it stands; of a poller that never ran, where it will start."""
    if status.lease.fencing_token is None or (not status.exists and status.error is not None):
        return "not known"
    place = cut(str(status.cursor or "the beginning"))
    return place if status.exists else f"will start at {place}"


def lease_text(status: PollerStatus) -> str:
    """Who holds the lease, since when, and how long still."""
    lease = status.lease
    if lease.fencing_token is None:
        return "not known"
    if lease.owner_id is None:
        return f"free, fencing token {lease.fencing_token}"
    if not lease.live:
        return f"expired, last held by {cut(lease.owner_id)}, fencing token {lease.fencing_token}"
    if lease.kept_by is not None:
        left = "" if lease.expires_in_seconds is None else f" for {span(lease.expires_in_seconds)}"
        return f"kept for {lease.kept_by}, no worker starts{left}, fencing token {lease.fencing_token}"
    parts = [cut(lease.owner_id), f"fencing token {lease.fencing_token}"]
    if lease.acquired_at is not None:
        parts.append(f"since {moment(lease.acquired_at)}")
    if lease.heartbeat_age_seconds is not None:
        parts.append(f"last heartbeat {span(lease.heartbeat_age_seconds)} ago")
    if lease.expires_in_seconds is not None:
        parts.append(f"expires in {span(lease.expires_in_seconds)}")
    return ", ".join(parts)


_TROUBLE: tuple[tuple[type[PollerError], str], ...] = (
    (FingerprintMismatch, "another source"),
    (ConfigError, "wrong configuration"),
    (StateCorrupt, "state unreadable"),
    (StoreDenied, "store refuses"),
    (StoreError, "store away"),
    (SourceUnavailable, "database away"),
    (PollerError, "table unreadable"),
)
"""By kind of error, the special ones first."""


def why(status: PollerStatus) -> str:
    """Why it is what `state_word` says, in a few words; nothing where that word says it all."""
    found = status.failing
    if status.failure is not None or status.error is not None:
        return next((words for kind, words in _TROUBLE if isinstance(status.failure, kind)), "a fault in poller")
    if status.halted:
        return _culprit(status) or f"batch never finished, started {times(status.attempts or 0)}"
    if status.paused:
        how = "cancelled by" if status.control.cancelled else "by"
        reason = f": {cut(status.control.reason)}" if status.control.reason else ""
        return f"{how} {cut(status.control.by or 'unknown')}{reason}"
    if status.bound is not None and status.bound.below_checkpoint:
        return "database behind its checkpoint"
    if status.lease.live:
        kept = status.lease.kept_by
        return f"kept for {kept}" if kept is not None else ""
    if found.blocked and (status.pending or found.failures):
        return "quarantine full"
    if is_failing(status):
        return _culprit(status) + _next_try(status)
    return _waits_for(status)


def _waits_for(status: PollerStatus) -> str:
    """What a poller waits for that is neither at work nor failing."""
    found = status.failing
    if clock_went_back(status):
        return "the database's clock went back"
    if status.above_bound:
        held = None if status.bound is None else status.bound.held_by
        return f"held by {held}" if held else "rows not readable yet"
    if stalled(status) is not None:
        return f"no tick for {span(status.stalled_seconds)}"
    if found.quarantined:
        return f"{number(found.quarantined)} quarantined"
    if found.aside:
        return f"{number(found.aside)} set aside"
    return f"{number(status.null_cursors)} without cursor" if status.null_cursors else ""


def clock_went_back(status: PollerStatus) -> bool:
    """Whether rows are not read until the database's clock is where it was before."""
    return status.bound is not None and "clock went back" in (status.bound.reason or "")


def _culprit(status: PollerStatus) -> str:
    """The row that fails, and its error's type; as much of it as is known."""
    row, error = key_of(status.failing.row), status.last_error
    kind = "" if error is None else cut(error.type)
    return f"{kind} ({row})" if kind and row else kind or row


def _next_try(status: PollerStatus) -> str:
    at, now = status.failing.retry_at, status.seen_at
    return f", next try {ago(at, now)}" if at is not None and now is not None and at > now else ""


def key_of(row: Cursor | None) -> str:
    """A row's key: `id=7`."""
    return "" if row is None else cut(", ".join(f"{name}={value}" for name, value in (row.tiebreaker or {}).items()))


def committed(status: PollerStatus) -> str:
    """How long ago the last commit was; nothing where that is not known."""
    if status.exists is not True:
        return ""
    at, now = status.checkpoint_updated_at, status.seen_at
    committed_one = status.last_successful_batch_id is not None
    if at is None or not (committed_one or status.cursor):
        return "nothing committed yet"
    when = moment(at) if now is None else ago(at, now)
    return f"{'last commit' if committed_one else 'checkpoint set'} {when}"


_ORDER = (
    "not known",
    "not known in full",
    "halted",
    "halted, and paused",
    "held",
    "blocked",
    "failing",
    "cancelling",
    "pausing",
    "paused",
    "waiting",
    "behind",
    "not running",
    "never ran",
    "working",
    "idle",
    "finished",
)
WELL = (_ORDER.index("pausing"),)
"""From here on nobody needs to do anything that they do not know of."""


def severity(status: PollerStatus) -> tuple[int, float, str]:
    """What sorts pollers, the worst first: one whose rows nobody delivers comes right behind those that fail."""
    word = state_word(status)[0]
    place = _ORDER.index(word)
    if stalled(status) is not None or status.failing.quarantined or clock_went_back(status):
        place = min(place, _ORDER.index("cancelling"))
    return place, -(status.lag_seconds or 0.0), status.name
