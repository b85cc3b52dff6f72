"""One look at a time, shared by all who ask meanwhile: a hundred callers start one thread, and wait for it together."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Generic, TypeVar

T = TypeVar("T")

PATIENCE = 8.0
"""Seconds that a caller waits for a check; a proxy's own patience ends at 10 s or later."""
HURRY = 2.0
"""Seconds that a caller waits for a check if the result of the one before still serves."""
STALE = 30.0
"""Seconds for which a result serves further, while the next look is under way: one database that hangs for longer than
callers wait must not hide what is known of all others."""
KEPT = 1.0
"""Seconds for which what a check found is given to all who ask, and what it failed with: so a flood of callers costs
the store one request a second."""
SHARE, LONGEST = 2.0, 20.0
"""The result of a slow check serves `SHARE` times as long as the check took, at most `LONGEST` seconds: checks must not
take all of a process's time."""


class LookTimedOut(Exception):
    """The look has not ended in time. It goes on, and no other is begun before it ends or is forgotten."""


class SharedLook(Generic[T]):
    """What `look` returns, from one call at a time.

    A check that hangs holds one thread, however many ask, and each of them is answered in time: with what the check
    before it found, if that is not long ago.

    Args:
        look: called on a thread of its own. patience: seconds that a check may take. hurry: those after which the
            result before it serves. kept: for how many seconds its result serves. now: seconds on a clock that only
            goes forward.
    """

    def __init__(
        self,
        look: Callable[[], T],
        *,
        patience: float = PATIENCE,
        hurry: float = HURRY,
        kept: float = KEPT,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look = look
        self._patience = patience
        self._hurry = hurry
        self._kept = kept
        self._now = now
        self._lock = threading.Lock()
        self._last: Future[T] | None = None
        self._before: tuple[float, T] | None = None
        """The last result, and when it came."""
        self._began = 0.0
        self._until = 0.0
        self._forgotten: list[Future[T]] = []
        """Looks that were under way when something was changed, and have not ended."""

    def take(self) -> T:
        """The result of the look that is under way, or was a moment ago; else of one that begins now.

        Raises: NoAnswer; what `look` raises.
        """
        with self._lock:
            last, left = self._last, self._patience
            if last is None or (last.done() and self._now() >= self._until):
                last = self._last = self._begin()
            else:
                left = self._began + self._patience - self._now()
        spent = self._patience - left
        try:
            return last.result(max(0.0, left if self._serving() is None else min(left, self._hurry - spent)))
        except TimeoutError:
            if last.done():
                return last.result()  # it ended this moment, or raised a TimeoutError of its own
            before = self._serving()
            if before is None:
                raise LookTimedOut from None
            return before[1]

    def _serving(self) -> tuple[float, T] | None:
        """The last result, if it may be given out while the next look is under way."""
        before = self._before
        return before if before is not None and self._now() - before[0] <= STALE else None

    def forget(self) -> None:
        """Something was changed: what was found until now counts no longer, nor what a check that is under way finds.
        Callers that wait for it get that; for callers who ask from now on a new one begins."""
        with self._lock:
            known = (*self._forgotten, self._last)
            self._forgotten = [one for one in known if one is not None and not one.done()]
            self._last = self._before = None

    def settle(self, seconds: float) -> None:
        """Wait for looks that are under way, since they use connections that are about to be closed."""
        with self._lock:
            known = (*self._forgotten, self._last)
        wait([one for one in known if one is not None], seconds)

    def _begin(self) -> Future[T]:
        """Raises: RuntimeError, if the process may not start another thread."""
        future: Future[T] = Future()
        began = self._began = self._now()

        def run() -> None:
            try:
                result = self._look()
            except BaseException as error:  # noqa: BLE001 - it is the callers'
                self._keep(future, None, KEPT)
                # A driver's SystemExit ends no caller.
                future.set_exception(error if isinstance(error, Exception) else RuntimeError(type(error).__name__))
            else:
                now = self._now()
                self._keep(future, (now, result), max(self._kept, min(LONGEST, SHARE * (now - began))))
                future.set_result(result)

        threading.Thread(target=run, name="poller-http-look", daemon=True).start()
        return future

    def _keep(self, future: Future[T], found: tuple[float, T] | None, seconds: float) -> None:
        """Keep what a check found, unless it was forgotten meanwhile."""
        with self._lock:
            if self._last is future:
                self._before, self._until = found, self._now() + seconds
