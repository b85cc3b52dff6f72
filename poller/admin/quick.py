"""The question whether nothing at all waits: one statement over a connection that all checks of one database share.

Most pollers of many are idle, and a whole look at each (its table's columns, a bound, a page, a count) would keep a
processor busy. So a whole look is made every few minutes; between two of them, one statement shows that there is no row
after the checkpoint, below the bound or not. Anything else leads to a whole look.
"""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

from poller import forks
from poller.admin.wired import WiredPoller
from poller.model.document import State
from poller.sources import SqlSource
from poller.sources.probing import NoAnswer, RowProbe

WHOLE_EVERY = 300.0
"""Seconds between two whole looks at a poller for which nothing waits, at most; by its name down to half of that."""
TIMEOUT = timedelta(seconds=5)
TURN = 1.0
"""Seconds to wait for the connection; then a whole look is made."""


class QuickLooks:
    """The shared connections, by database. Safe to call from several threads."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._whole: dict[str, tuple[float, int]] = {}
        """When the last whole look was made, and how many rows without a cursor it counted."""
        self._reset_after_fork()
        forks.in_child(self._reset_after_fork)

    def _reset_after_fork(self) -> None:
        self._lock = threading.Lock()
        self._databases: dict[object, tuple[threading.Lock, RowProbe]] = {}

    def looked(self, poller: str, null_cursors: int | None) -> None:
        """A whole look was made, and counted these rows without a cursor; None if it was not complete."""
        if null_cursors is not None:
            spread = zlib.crc32(poller.encode()) % 1000 / 2000  # so that those of many are not all due at once
            self._whole[poller] = self._monotonic() - spread * WHOLE_EVERY, null_cursors
        else:
            self._whole.pop(poller, None)

    def nothing_waits(self, poller: WiredPoller, state: State) -> int | None:
        """The number of rows without a cursor, if surely no row waits; None also if that is not known, or a whole
        look is due. Raises nothing of a database. A document of another source is none to ask by."""
        source, (last, null_cursors) = poller.source, self._whole.get(poller.name, (None, 0))
        if not isinstance(source, SqlSource) or state.facts is None or last is None:
            return None
        if self._monotonic() - last >= WHOLE_EVERY:
            return None
        cursor = state.checkpoint.cursor
        if cursor is not None and cursor.snapshot is not None:  # rows of the table may wait, which are no changes
            return None
        if not source.describe().belongs(state.source_fingerprint, state.source):
            return None
        subject = source.subject
        with self._lock:
            if subject.database not in self._databases:
                self._databases[subject.database] = (
                    threading.Lock(),
                    RowProbe(subject, TIMEOUT, timedelta(seconds=TURN)),
                )
            turn, lookout = self._databases[subject.database]
        if not turn.acquire(timeout=TURN):
            return None
        try:
            with suppress(NoAnswer):
                prepared = lookout.prepare(subject, state.facts, None)
                nothing = prepared is None or not lookout.waits(prepared, state.checkpoint.cursor, None)
                return null_cursors if nothing else None
            return None
        finally:
            lookout.rest()
            turn.release()

    def close(self) -> None:
        """Close the connections, but for one that is in use."""
        with self._lock:
            for url, (turn, lookout) in [*self._databases.items()]:
                if turn.acquire(blocking=False):
                    lookout.close()
                    del self._databases[url]
                    turn.release()
