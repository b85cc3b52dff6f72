"""One look at a time, shared by all who ask meanwhile: a hundred callers start one thread, and wait for it together."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Generic, TypeVar

T = TypeVar("T")

PATIENCE = 8.0
"""Seconds that a caller waits for a look; a proxy's own patience ends at 10 s or later."""
HURRY = 2.0
"""Seconds that a caller waits for a look where the result of the one before still serves."""
STALE = 30.0
"""Seconds for which a result serves further, while the next look is under way: one database that hangs for longer than
callers wait must not hide what is known of all others."""
KEPT = 1.0
"""Seconds for which what a look found is given to all who ask, and what it failed with: so a flood of callers costs the
store one request a second."""
SHARE, LONGEST = 2.0, 20.0
"""A look that took long serves for so many times as long, up to so many seconds: looking must not become what a process
does."""


class NoAnswer(Exception):
    """The look has not ended in time. It goes on, and no other is begun before it ends."""


class SharedLook(Generic[T]):
    """What `look` returns, from one call at a time.

    A look that hangs holds one thread, however many ask, and each of them is answered in time: with what the look
    before it found, where that is not long ago.

    Args:
        look: called on a thread of its own. patience: seconds that a look may take. hurry: those after which the
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
        self._changes = 0

    def take(self) -> T:
        """The result of the look that is under way, or was a moment ago; else of one that begins now.

        Raises: NoAnswer; whatever `look` raises.
        """
        with self._lock:
            last, left = self._last, self._patience
            if last is None or (last.done() and self._now() >= self._until):
                last = self._last = self._begin()
            else:
                left = self._began + self._patience - self._now()
        spent = self._patience - left
        try:
            return last.result(max(0.0, min(left, self._hurry - spent) if self._serves() else left))
        except TimeoutError:
            if last.done():
                return last.result()  # it ended this moment, or raised a TimeoutError of its own
            before = self._before
            if before is not None and self._serves():
                return before[1]
            raise NoAnswer from None

    def _serves(self) -> bool:
        """Whether the last result may be given out while the next look is under way."""
        return self._before is not None and self._now() - self._before[0] <= STALE

    def forget(self) -> None:
        """What was found until now counts no longer: something was changed."""
        with self._lock:
            self._changes += 1
            self._until, self._before = self._now(), None

    def settle(self, seconds: float) -> None:
        """Wait for a look that is under way, since it uses connections that are about to be closed."""
        with self._lock:
            last = self._last
        if last is not None:
            wait([last], seconds)

    def _begin(self) -> Future[T]:
        """Raises: RuntimeError, where the process may not start another thread."""
        future: Future[T] = Future()
        began, changes = self._now(), self._changes
        self._began = began

        def run() -> None:
            try:
                result = self._look()
                self._before = self._now(), result
                now = self._now()
                serves = max(self._kept, min(LONGEST, SHARE * (now - began)))
                self._until = now + serves if self._changes == changes else now
                future.set_result(result)
            except BaseException as error:  # noqa: BLE001 - it is the callers'
                self._before, self._until = None, self._now() + KEPT
                # A driver's SystemExit ends no caller.
                future.set_exception(error if isinstance(error, Exception) else RuntimeError(type(error).__name__))

        threading.Thread(target=run, name="poller-http-look", daemon=True).start()
        return future
