"""Where the handler of one poller runs: on the caller's thread, with several lanes on one event loop, or in one child
process a lane."""

from __future__ import annotations

import threading

from poller import forks
from poller.handler.call import Executor, ThreadExecutor
from poller.handler.loop import LoopExecutor
from poller.handler.portable import SPARE
from poller.ports import Runtime


class Executors:
    """Those of one poller, each made when it is first needed. May be asked from several threads.

    Attributes:
        spare: how many seconds longer than its limit a call may take before it is taken for hung.
    """

    def __init__(self, runtime: Runtime, *, processes: bool) -> None:
        self._runtime = runtime
        self._processes = processes
        self.spare = SPARE if processes else ThreadExecutor.spare
        self._thread = ThreadExecutor()
        self._children: dict[int, Executor] = {}
        self._reset_after_fork()
        forks.in_child(self._reset_after_fork)

    def _reset_after_fork(self) -> None:
        """In a child process: the event loop is the parent's. Each child forgets its own process."""
        self._making = threading.Lock()  # held while one is made
        self._loop: LoopExecutor | None = None

    def of(self, lane: int, lanes: int) -> Executor:
        """That of a lane, of so many."""
        if not self._processes and lanes == 1:
            return self._thread
        with self._making:
            if self._processes:
                if lane not in self._children:
                    from poller.handler.subprocess import ProcessExecutor

                    self._children[lane] = ProcessExecutor(self._runtime)
                return self._children[lane]
            if self._loop is None:
                self._loop = LoopExecutor()
            return self._loop

    def close(self) -> None:
        """Let go of what was kept for the next batch."""
        with self._making:
            loop, self._loop = self._loop, None
        if loop is not None:
            loop.close()
        for child in self._children.values():
            child.close()
