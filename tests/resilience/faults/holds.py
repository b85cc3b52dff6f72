"""What waits inside the proxy: held requests and answers, late writes, silent connections. A test lets them
go by tag.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from tests.resilience.faults.request import Record


@dataclass(eq=False, slots=True)
class _Hold:
    record: Record
    tag: str
    let_go: Callable[[], None]
    late: bool = False
    timer: threading.Timer | None = None


class Holds:
    """The waiting ones, in order of their arrival. Thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._holds: list[_Hold] = []
        self._timers: list[threading.Timer] = []
        self._closed = False

    def wait(self, record: Record, tag: str, seconds: float | None) -> None:
        """Block this thread until `seconds` have passed or the tag is released.

        Raises ConnectionAbortedError if the proxy was closed instead: then nothing more is to happen to the
        request.
        """
        freed = threading.Event()
        hold = self._add(_Hold(record, tag, freed.set))
        freed.wait(seconds)
        self._remove(hold)
        if self._closed:
            raise ConnectionAbortedError("the proxy was closed")

    def defer(self, record: Record, tag: str, seconds: float | None, action: Callable[[], None]) -> None:
        """Have `action` run once: after `seconds`, or in the thread that releases the tag; never after
        `close`.
        """
        hold = _Hold(record, tag, action, late=True)

        def when_due() -> None:
            if self._remove(hold):
                action()

        if seconds is not None:
            hold.timer = threading.Timer(seconds, when_due)
            hold.timer.name = "fault-proxy-late"
            hold.timer.daemon = True
            with self._changed:
                self._timers = [*(one for one in self._timers if one.is_alive()), hold.timer]
                self._add(hold)
                hold.timer.start()
        else:
            self._add(hold)

    def during(self, record: Record, tag: str, let_go: Callable[[], None], wait: Callable[[], None]) -> None:
        """Run `wait`, which blocks; a release calls `let_go`, which must end it."""
        hold = self._add(_Hold(record, tag, let_go))
        try:
            wait()
        finally:
            self._remove(hold)

    def held(self, tag: str | None = None) -> list[Record]:
        """What waits under that tag, or under any."""
        with self._changed:
            return [one.record for one in self._holds if tag in (None, one.tag)]

    def release(self, tag: str | None, timeout: float) -> list[Record]:
        """Let go, and wait until the server has dealt with each. Raises AssertionError after `timeout`
        seconds.
        """
        with self._changed:
            going = [one for one in self._holds if tag in (None, one.tag)]
        for hold in going:
            if self._remove(hold):
                hold.let_go()
        for hold in going:
            assert hold.record.finished.wait(timeout), f"released, but not finished after {timeout} s: {hold.record}"
        return [one.record for one in going]

    def close(self) -> None:
        """Free the waiting threads, now and from now on; late writes that have not landed never do."""
        with self._changed:
            self._closed = True
            going, self._holds = self._holds, []
            timers, self._timers = self._timers, []
        for timer in timers:
            timer.cancel()
        for hold in going:
            self._abandon(hold)
        for timer in timers:
            timer.join()

    @staticmethod
    def _abandon(hold: _Hold) -> None:
        if not hold.late:
            hold.let_go()
        hold.record.finished.set()

    def _add(self, hold: _Hold) -> _Hold:
        with self._changed:
            closed = self._closed
            if not closed:
                self._holds.append(hold)
                self._changed.notify_all()
        if closed:
            self._abandon(hold)
        return hold

    def _remove(self, hold: _Hold) -> bool:
        """Take it off the list; False if somebody else already has, and so deals with it."""
        with self._changed:
            if hold not in self._holds:
                return False
            self._holds.remove(hold)
        if hold.timer is not None:
            hold.timer.cancel()
        return True
