"""Threads that are made when there is work for them, do one thing after another, and end when nothing comes.

Not `concurrent.futures`: its threads are joined when Python ends, so a handler that hangs would keep the process. These
are daemons, made by the runtime, so that a simulation has its own.
"""

from __future__ import annotations

import contextvars
import logging
import threading
from collections.abc import Callable

from poller.ports import Event, Runtime

logger = logging.getLogger("poller")

IDLE = 60.0
"""Seconds after which a thread without work ends."""

Job = Callable[[], None]


class Crew:
    """As many threads as there are jobs at once, at the most."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._lock = threading.Lock()
        self._idle: list[_Hand] = []
        self._closed = False
        self.threads = 0

    def do(self, job: Job, name: str) -> None:
        """Begin it on a thread that is called so meanwhile; return at once. Raises: RuntimeError, if this machine
        has no room for one more thread."""
        with self._lock:
            hand = self._idle.pop() if self._idle else None
        if hand is not None:
            hand.give(job, name)
            return
        first = _Hand(self._runtime.event())
        first.job, first.name = job, name
        self._runtime.spawn(lambda: self._work(first), name)

    def close(self) -> None:
        """Let the threads that have no work end, and the others when they are done."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for hand in idle:
            hand.woken.set()

    def _work(self, hand: _Hand) -> None:
        with self._lock:
            self.threads += 1
        try:
            while hand.job is not None:
                hand.work()
                hand = _Hand(self._runtime.event())
                with self._lock:
                    if self._closed:
                        return
                    self._idle.append(hand)
                if not hand.woken.wait(IDLE):
                    with self._lock:
                        if hand in self._idle:
                            self._idle.remove(hand)
                            return
                    hand.woken.wait()  # work came at the last moment
        finally:
            with self._lock:
                self.threads -= 1


class _Hand:
    """A thread without work, and then its work."""

    def __init__(self, woken: Event) -> None:
        self.woken = woken
        self.job: Job | None = None
        self.name = ""

    def give(self, job: Job, name: str) -> None:
        self.job, self.name = job, name
        self.woken.set()

    def work(self) -> None:
        """Do it: in a context of its own, so that what a handler sets there is not seen by the next."""
        thread, job = threading.current_thread(), self.job
        thread.name = self.name
        try:
            if job is not None:
                contextvars.copy_context().run(job)
        except BaseException:  # a job reports its own errors: this is ours
            logger.exception("%s ended with an error that was not reported.", self.name)
        finally:
            thread.name = "poller-idle"
