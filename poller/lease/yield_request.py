"""The note that an operator leaves for a worker that is always quicker (protocol 11)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from poller.errors import StoreError
from poller.model.limits import read_json
from poller.model.timing import Timing
from poller.ports import Found, Runtime, StateStore

NOTE_LASTS = 120.0
"""A note older than so many seconds was forgotten by its operator."""


class Note:
    """Looks for an operator's note beside the document (protocol 11).

    There is one per state file, and its clock runs on from tenure to tenure: tenures shorter than the heartbeat
    interval would never look, and keep an operator out for ever.

    Args:
        name: of the note in the store. now: the store's clock.
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
        """Whether a heartbeat interval has passed since the last look."""
        return self._runtime.monotonic() - self._looked >= self._timing.heartbeat

    def is_new(self) -> bool:
        """Whether a note stands there that we have not made way for and that is not a forgotten one."""
        self._looked = self._runtime.monotonic()
        try:
            there = self._store.read(self._name, timeout=self._timing.attempt)
            if not isinstance(there, Found):
                return False
            note = read_json(there.body)
            identity, left = note.get("id"), datetime.fromisoformat(note["at"])
            fresh = abs((self._now() - left).total_seconds()) < NOTE_LASTS
        except (StoreError, ValueError, KeyError, AttributeError, TypeError, OverflowError):
            return False  # no note, or none that says anything; the operator tries on without
        news = identity != self._seen and fresh
        self._seen = identity
        return news
