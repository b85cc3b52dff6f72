"""What many pollers did, in one line now and then: no person reads a line for each tick of 300 pollers."""

from __future__ import annotations

from datetime import datetime, timedelta

from poller.admin.counts import rows
from poller.observability import PollerEvent, TickFinished

MANY = 20
"""With more pollers than this the ticks without trouble are counted, on a terminal."""
EVERY = timedelta(seconds=10)
_WITHOUT_TROUBLE = frozenset({"idle", "delivered", "held_elsewhere"})


class Digest:
    """Counts of ticks without trouble. Time is that of the events."""

    def __init__(self) -> None:
        self._since: datetime | None = None
        self._rows: dict[str, int] = {}

    def takes(self, event: PollerEvent) -> bool:
        """True if it is counted, and needs no line of its own."""
        if not isinstance(event, TickFinished) or event.outcome not in _WITHOUT_TROUBLE:
            return False
        self._since = self._since or event.at
        if event.rows:
            self._rows[event.poller] = self._rows.get(event.poller, 0) + event.rows
        return True

    def line(self, at: datetime | None = None) -> str | None:
        """What was done since the last line, if it is time for the next one or the end (None)."""
        if self._since is None or (at is not None and at - self._since < EVERY):
            return None
        done, self._rows, self._since = self._rows, {}, at
        if not done:
            return None
        who = f"{len(done):,} pollers" if len(done) > 1 else next(iter(done))
        return f"{who} delivered {rows(sum(done.values()))}"
