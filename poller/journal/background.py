"""Writes that no caller waits for: one thread at a time makes them in order, and only so much may wait.

For what is worth having and never worth a tick's time: the audit trail, the delivery log. A store that hangs holds up
one thread, and what does not fit behind it is refused, so that neither threads nor memory grow with the work.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from poller import forks
from poller.ports import Runtime, Task

Write: TypeAlias = Callable[[], None]


class BackgroundWriter:
    """A bounded queue and the thread that empties it, which lives while there is something to do.

    Args:
        name: of the thread. room: how much may wait, in the unit of `put`'s `size`; one write alone always may.
    """

    def __init__(self, runtime: Runtime, name: str, *, room: int) -> None:
        self._runtime = runtime
        self._name = name
        self._room = room
        self._reset_after_fork()
        forks.in_child(self._reset_after_fork)

    def _reset_after_fork(self) -> None:
        """In a child process too: the thread, and what waits for it, are the parent's."""
        self._lock = self._runtime.lock()
        self._waiting: deque[tuple[Write, int]] = deque()
        self._taken = 0
        self._at_work = False
        self._task: Task | None = None

    def put(self, write: Write, size: int = 1) -> bool:
        """Have it made soon; False if there is no room or no thread for it, and it never will be. Raises
        nothing. What `write` raises ends its thread, not the queue: the next `put` goes on with what waits."""
        self._lock.acquire()
        try:
            if self._waiting and self._taken + size > self._room:
                return False
            self._waiting.append((write, size))
            self._taken += size
            if self._at_work:
                return True
            self._at_work = True
            try:
                self._task = self._runtime.spawn(self._work, self._name)
            except RuntimeError:  # the process has as many threads as it may have
                self._at_work = False
                self._waiting.pop()
                self._taken -= size
                return False
            return True
        finally:
            self._lock.release()

    def settle(self, seconds: float) -> None:
        """Wait until nothing is left to do, but no longer than this."""
        if self._task is not None:
            self._task.join(max(0.0, seconds))

    def _work(self) -> None:
        try:
            while (write := self._next()) is not None:
                write()
        except BaseException:
            self._at_work = False
            raise

    def _next(self) -> Write | None:
        self._lock.acquire()
        try:
            if not self._waiting:
                self._at_work = False
                return None
            write, size = self._waiting.popleft()
            self._taken -= size
            return write
        finally:
            self._lock.release()
