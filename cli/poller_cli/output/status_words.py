"""Words for where a poller stands: `poller status`, `watch` and `peek` share them. Whether it is well, and why, is its
picture's alone (`poller.model.conditions`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from poller.admin.counts import rows
from poller.model.escape import cut
from poller.model.view import title
from poller.model.when import ago, moment, span

if TYPE_CHECKING:
    from poller.admin.status import OperatorsCondition, PollerStatus
    from poller.tick.result import BoundOutput

COLOURS = {"unhealthy": "red", "warning": "yellow", "well": "green"}
_DOES = frozenset({"idle", "working", "new", "behind", "scheduled", "finished"})
"""Conditions that say what a poller does, which its other lines show too."""


def state_word(status: PollerStatus) -> tuple[str, str]:
    """One word for the whole, and its colour."""
    return title(status.word), COLOURS[status.severity]


def beside(status: PollerStatus) -> Iterator[OperatorsCondition]:
    """What is so beside the worst."""
    return (one for one in status.conditions[1:] if one.name not in _DOES)


def next_steps(status: PollerStatus) -> list[str]:
    """What a person does next, if anything: each step once, those of the worst first."""
    steps = [one.next_step if status.error else one.do or one.next_step for one in status.conditions]
    return list(dict.fromkeys(step for step in steps if step))


def waits_above(pending: int, capped: bool, bound: BoundOutput | None) -> str:
    """That rows are there, and that none of them may be read yet."""
    value = "" if bound is None or bound.value is None else f" {bound.value}"
    return f"{rows(pending, capped)} wait{'s' * (pending == 1)} above the bound{value} (poller check says why)"


def at_work(status: PollerStatus) -> bool:
    """True if a worker holds its lease."""
    lease = status.lease
    return bool(lease.live) and lease.owner_id is not None and lease.kept_by is None


def cursor_text(status: PollerStatus) -> str:
    """The poller's cursor; of a poller that never ran, the place at which it will start."""
    if status.lease.fencing_token is None or (not status.exists and status.error is not None):
        return "not known"
    if status.starts_now:
        return "will start with the rows that come after its first tick"
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


def committed(status: PollerStatus) -> str:
    """The age of the last commit; empty if that is not known."""
    if status.exists is not True:
        return ""
    at, now = status.committed_at, status.seen_at
    if at is None:
        return "nothing committed yet" if status.moved_at is None else "nothing committed since it was moved"
    return f"last commit {moment(at) if now is None else ago(at, now)}"
