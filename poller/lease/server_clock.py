"""The store's clock, as the answers of the store show it."""

from __future__ import annotations

from datetime import datetime, timedelta

from poller.ports import Runtime

WHOLE, FINE = timedelta(seconds=1), timedelta(milliseconds=10)
"""How much may be cut from a server's time: the fraction of its second, or what is finer than its database's clock."""


class ServerClock:
    """The store's clock, estimated for stamps that people read, and for `released_at`, which frees a lease only close
    to the store's own time of that write. Never used to judge whether a lease that is held has expired.

    An answer was dated between its question and its arrival, and the date is cut: so it says "at least this late" and
    "no later than that". The latest claim of the first kind is kept until an answer proves it wrong by the second.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._zero: datetime | None = None
        """The server's time when the runtime's monotonic clock was at zero."""

    def saw(self, server_time: datetime | None, sent: float | None = None) -> None:
        """Take in the server's time from an answer that has just arrived; `sent`: when it was asked for, on the
        runtime's monotonic clock (None: just now)."""
        if server_time is None:
            return
        arrived = self._runtime.monotonic()
        asked = arrived if sent is None else sent
        cut = FINE if server_time.microsecond else WHOLE
        if self._zero is None or self._zero < server_time - timedelta(seconds=arrived):
            self._zero = server_time - timedelta(seconds=arrived)
        elif self._zero > server_time + cut - timedelta(seconds=asked):
            self._zero = server_time - timedelta(seconds=(asked + arrived) / 2)

    def now(self) -> datetime:
        """The estimate; before the first answer, this machine's wall clock."""
        if self._zero is None:
            return self._runtime.utcnow()
        return self._zero + timedelta(seconds=self._runtime.monotonic())
