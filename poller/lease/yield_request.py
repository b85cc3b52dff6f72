"""The request that an operator leaves for a worker whose writes always win (protocol 11)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from poller.errors import StoreError
from poller.model.limits import read_json
from poller.model.timing import Timing
from poller.ports import Found, Runtime, StateStore

LASTS = 120.0
"""Seconds after which a request counts as forgotten by its operator."""


class YieldRequest:
    """Looks for an operator's request beside the document (protocol 11).

    There is one per state file, and its clock runs on from tenure to tenure: tenures shorter than the heartbeat
    interval would never look, and keep an operator out for ever.

    Args:
        name: of the request in the store. now: the store's clock.
    """

    def __init__(
        self, store: StateStore, name: str, *, runtime: Runtime, timing: Timing, now: Callable[[], datetime]
    ) -> None:
        self._store = store
        self._name = name
        self._runtime = runtime
        self._timing = timing
        self._now = now
        self._looked = runtime.monotonic()
        self._seen: str | None = None

    def due(self) -> bool:
        """True if a heartbeat interval has passed since the last look."""
        return self._runtime.monotonic() - self._looked >= self._timing.heartbeat

    def is_new(self) -> bool:
        """True if a request is there that this process has not yielded to, and that was not forgotten."""
        self._looked = self._runtime.monotonic()
        try:
            there = self._store.read(self._name, timeout=self._timing.attempt)
            if not isinstance(there, Found):
                return False
            request = read_json(there.body)
            identity, left = request.get("id"), datetime.fromisoformat(request["at"])
            fresh = abs((self._now() - left).total_seconds()) < LASTS
        except (StoreError, ValueError, KeyError, AttributeError, TypeError, OverflowError):
            return False  # none, or an invalid one; the operator tries on without
        news = identity != self._seen and fresh
        self._seen = identity
        return news
