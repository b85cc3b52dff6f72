"""Where a poller stands, by its document alone: whether it may work, and whether it wants to though no schedule says
so.

Pure: time is an argument. The order is that of a tick, which looks again (`poller.tick.preflight`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from poller.model import aside, backoff
from poller.model.aside import Limits
from poller.model.document import State

Standing = Literal["paused", "halted", "held", "backing_off", "due", "ready"]
"""`paused`, `halted`: an operator decides. `held`: a worker is at work. `backing_off`: the next call waits for its
time. `due`: it has something to do, whatever its schedule says. `ready`: its schedule decides."""
RESTING = frozenset({"paused", "halted", "backing_off"})
"""A tick would do nothing, so a moment of the schedule that passes meanwhile is done with."""


@dataclass(frozen=True, slots=True)
class DueState:
    """Where a poller stands. `since`: for `due`, since when, on the store's clock."""

    standing: Standing
    since: datetime | None = None


def place_of(state: State, *, free: bool, now: datetime, limits: Limits) -> DueState:
    """Where it stands.

    Args:
        free: whether its lease may be taken. now: on the store's clock. limits: the poller's.
    """
    if state.control.paused:
        return DueState("paused")
    if state.control.halted:
        return DueState("halted")
    if not free:
        return DueState("held")
    if backoff.waits_until(state, now, limits.backoff) is not None:
        return DueState("backing_off")
    wanted = _tries(state, now, limits)
    return DueState("ready") if wanted is None else DueState("due", min(wanted, now))


def _tries(state: State, now: datetime, limits: Limits) -> datetime | None:
    """The moment since which a call that failed may be made again, or a row that is set aside may be tried; None if
    neither."""
    moments = []
    if backoff.waits(state) and state.delivery.retry_at is not None:
        moments.append(state.delivery.retry_at)
    if state.retrying is not None:  # the process that tried it was killed
        moments.append(state.lease.heartbeat_at or now)
    row = aside.due(aside.after_reset(state), now, limits=limits)
    if row is not None:
        moments.append(row.retry_at or row.since or now)
    return min(moments, default=None)
