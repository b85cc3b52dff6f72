"""The clock under the write lock of a SQLite file, shared for a moment by the readers of this process.

Whoever stamped a row with an earlier time did so under the lock, before it was taken for this clock: its transaction
has ended, and every page that begins later sees it. So one reader's clock is true for all that read the same file, and
a shared one (at most `samplers.WINDOW` old) only lets rows of that moment wait.

What makes it the same file: device and inode, and a connection that was open before the lock was taken. As long as a
file is open nobody else gets its inode. A reader's first sample is its own and is not shared: where the file was
replaced just after the connection was made, that is known only when the connection is used again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from sqlalchemy.engine import Connection

from poller import forks
from poller.databases import samplers


class _Taken(NamedTuple):
    began: float
    clock: datetime


class _Clocks:
    """Of all files of this process, the last of each. Safe to use from several threads."""

    def __init__(self) -> None:
        self._start()
        forks.in_child(self._start)

    def _start(self) -> None:
        self._lock = threading.Lock()
        self._last: dict[Hashable, _Taken] = {}

    def find(self, file: Hashable) -> _Taken | None:
        with self._lock:
            return self._last.get(file)

    def put(self, file: Hashable, taken: _Taken) -> None:
        with self._lock:
            self._last = {key: one for key, one in self._last.items() if taken.began - one.began <= samplers.WINDOW}
            self._last[file] = taken


_CLOCKS = _Clocks()


class SharedClock:
    """One reader of a file's clocks; used by one thread at a time, with one connection, which is open."""

    def __init__(self, connection: Connection) -> None:
        self._file = _file_of(connection)
        self._since = time.monotonic()
        self._handed_over = float("-inf")
        self._own = 0
        """How many were taken on this connection."""

    def find(self, known: datetime | None) -> datetime | None:
        """Another reader's, where it is new enough and not before `known`, the highest clock that was seen."""
        asked = time.monotonic()
        last = None if self._file is None or not self._own else _CLOCKS.find(self._file)
        if last is None or last.began < self._since or asked - last.began > samplers.WINDOW:
            return None
        if asked - self._handed_over <= samplers.WINDOW or (known is not None and last.clock < known):
            return None
        self._handed_over = asked
        return last.clock

    def share(self, began: float, clock: datetime) -> None:
        """One's own. `began`: when the lock was asked for, by `time.monotonic`."""
        self._own += 1
        self._handed_over = time.monotonic()
        if self._file is not None and self._own > 1:
            _CLOCKS.put(self._file, _Taken(began, clock))


def _file_of(connection: Connection) -> Hashable | None:
    """Which file is locked, and by which rules; None for a database without one, and where others are attached: the
    lock is taken on all of them."""
    paths = {row[1]: row[2] for row in connection.exec_driver_sql("PRAGMA database_list")}
    if not paths.get("main") or paths.keys() - {"main", "temp"}:
        return None
    try:
        found = Path(paths["main"]).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, tuple(sorted(connection.engine.url.query.items()))
