"""The note that an operator leaves for a worker that is always quicker (protocol 11)."""

from __future__ import annotations

import json
from datetime import datetime

from poller.errors import StoreError
from poller.ports import Found
from poller.statefile import StateFile

NOTE_LASTS = 120.0
"""A note older than so many seconds was forgotten by its operator."""


class Note:
    """Looks for an operator's note beside the document (protocol 11)."""

    def __init__(self, file: StateFile) -> None:
        self._file = file
        self._looked = file.runtime.monotonic()
        self._seen: str | None = None

    def due(self) -> bool:
        """Whether a heartbeat interval has passed since the last look."""
        return self._file.runtime.monotonic() - self._looked >= self._file.timing.heartbeat

    def is_new(self) -> bool:
        """Whether a note stands there that we have not made way for and that is not a forgotten one."""
        self._looked = self._file.runtime.monotonic()
        try:
            there = self._file.store.read(self._file.note_name, timeout=self._file.timing.attempt)
            if not isinstance(there, Found):
                return False
            note = json.loads(there.body)
            identity, left = note.get("id"), datetime.fromisoformat(note["at"])
            fresh = abs((self._file.clock.now() - left).total_seconds()) < NOTE_LASTS
        except (StoreError, ValueError, KeyError, AttributeError, TypeError, OverflowError, RecursionError):
            return False  # no note, or none that says anything; the operator tries on without
        news = identity != self._seen and fresh
        self._seen = identity
        return news
