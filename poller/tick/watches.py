"""What is watched across the ticks of a poller: what holds its bound, and how far behind it is."""

from __future__ import annotations

import logging
from datetime import datetime

from poller.errors import SourceError
from poller.model.cursor import Cursor
from poller.observability import BoundHeld, ClockWentBack, Emitter, ServerBelowCheckpoint
from poller.ports import Bound, Lag, Runtime, Source

logger = logging.getLogger("poller")

PENDING_CAP = 10_000
"""Rows pending are counted up to here."""
LAG_EVERY = 30.0
"""Seconds between two questions for the lag of a tick that stops early (sources.md, "Lag")."""


class BoundWatch:
    """Reports what holds the bound, at most once per change of reason."""

    def __init__(self, emit: Emitter) -> None:
        self._emit = emit
        self._reported: str | None = None

    def __call__(self, poller: str, at: datetime, bound: Bound) -> None:
        """Look at the bound of a page. Raises nothing."""
        reason = _what_holds(bound)
        if reason == self._reported:
            return
        self._reported = reason
        if reason is None:
            return
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


def _what_holds(bound: Bound) -> str | None:
    if bound.below_checkpoint:
        return "checkpoint"
    if bound.clock_went_back:
        return "clock"
    if bound.held_by is not None or (bound.value is None and bound.clock is not None):
        return bound.reason or "held"
    return None


class LagWatch:
    """Asks a source how far behind a poller is, not more often than is worth its query."""

    def __init__(self, poller: str, source: Source, runtime: Runtime) -> None:
        self._poller = poller
        self._source = source
        self._runtime = runtime
        self._known: Lag | None = None
        self._asked_early = float("-inf")

    def __call__(self, after: Cursor | None, fresh: bool, said: Lag | None = None) -> Lag | None:
        """How far behind `after` is, None if the database does not answer now. `said`: by the page that was just
        read. Not `fresh`: a tick that stopped early asks at most every `LAG_EVERY`; what a tick that went well found
        before is not an answer to the first."""
        if said is not None:
            self._known = said
            return said
        if not fresh:
            now = self._runtime.monotonic()
            if now - self._asked_early < LAG_EVERY:
                return self._known
            self._asked_early = now
        try:
            self._known = self._source.lag(after, cap=PENDING_CAP)
        except SourceError as error:
            logger.debug("%s: the lag is not known: %s", self._poller, error)
            self._known = None
        return self._known
