"""`batch.lost`: the event by which a handler learns that its lease can no longer be trusted."""

from __future__ import annotations

from collections.abc import Callable

from poller.ports import Event, Runtime


class LostEvent:
    """Set when the tenure is over, or as soon as one grace is left. Computed from the clock, so that it is right even
    where the thread that would have set it hangs (a dribbling answer, a C call that holds the interpreter).

    Args:
        left: seconds until the grace begins; at most 0 from then on.
    """

    def __init__(self, runtime: Runtime, left: Callable[[], float]) -> None:
        self._runtime = runtime
        self._left = left
        self._flag: Event = runtime.event()

    def reset_after_fork(self) -> None:
        """In a child process: what waits is a thread of the parent."""
        self._flag = self._runtime.event()

    def set(self) -> None:
        self._flag.set()

    def is_set(self) -> bool:
        flag = self._flag
        if not flag.is_set() and self._left() <= 0:
            flag.set()
        return flag.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        runtime = self._runtime
        end = None if timeout is None else runtime.monotonic() + timeout
        while not self.is_set():
            left = self._left()
            if end is not None:
                left = min(left, end - runtime.monotonic())
                if left <= 0:
                    return self.is_set()
            self._flag.wait(left)
        return True
