"""What every tick of one poller shares, and the name of this process in its lease."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from poller.config import PollerOptions
from poller.handler.call import Executor
from poller.journal.audit import AuditTrail
from poller.journal.delivery_log import DeliveryLog
from poller.lease.state_file import StateFile
from poller.model.cursor import Cursor
from poller.observability import BoundHeld, ClockWentBack, Emitter, ServerBelowCheckpoint
from poller.ports import Bound, Lag, Runtime, Source


def instance_name() -> str:
    """What tells this process from others, for people: the Functions instance, or host and process id."""
    site = os.environ.get("WEBSITE_INSTANCE_ID") or os.environ.get("CONTAINER_NAME")
    return f"{site[:16]}-{os.getpid()}" if site else f"{socket.gethostname()}-{os.getpid()}"


class BoundWatch:
    """Tells what holds the bound, at most once per change of reason."""

    def __init__(self, emit: Emitter) -> None:
        self._emit = emit
        self._told: str | None = None

    def __call__(self, poller: str, at: datetime, bound: Bound) -> None:
        """Look at the bound of a page. Raises nothing."""
        if bound.below_checkpoint:
            told = "checkpoint"
        elif bound.clock_went_back:
            told = "clock"
        elif bound.held_by is not None or (bound.value is None and bound.clock is not None):
            told = bound.reason or "held"
        else:
            told = None
        if told is None or told == self._told:
            self._told = told
            return
        self._told = told
        if bound.below_checkpoint:
            self._emit(ServerBelowCheckpoint(poller=poller, at=at, kind=bound.kind, reason=bound.reason))
        elif bound.clock_went_back:
            self._emit(ClockWentBack(poller=poller, at=at, clock=bound.clock, reason=bound.reason))
        else:
            self._emit(
                BoundHeld(
                    poller=poller,
                    at=at,
                    kind=bound.kind,
                    held_by=bound.held_by,
                    reason=bound.reason,
                    age_seconds=bound.age_seconds,
                )
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What every tick of one poller shares.

    `lag(after, fresh)`: how far behind, or None where the database does not tell now.
    """

    name: str
    app_name: str
    source: Source
    file: StateFile
    audit: AuditTrail
    options: PollerOptions
    executor: Executor
    runtime: Runtime
    emit: Emitter
    watch: BoundWatch
    lag: Callable[[Cursor | None, bool], Lag | None]
    seen: DeliveryLog
