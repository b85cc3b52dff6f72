"""The storage service's clock as the client sees it: what the proxy does to `Date` and `Last-Modified`.

Expiry compares these two (protocol 3), so each must be falsified as a real clock would: a clock that is
simply wrong shifts both, a step changes what comes after it and leaves the times of older writes
as they were.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from email.utils import formatdate, parsedate_to_datetime

from tests.resilience.faults.wire import Message


@dataclass(frozen=True, slots=True)
class _Segment:
    """From `start` (the real time, in seconds) on, the clock shows `shown` and what passes since."""

    start: float
    shown: float

    def at(self, real: float) -> float:
        return self.shown + real - self.start


class ServerClock:
    """A piecewise linear map from the server's real time to the time it shows. Thread-safe.

    Headers carry whole seconds, so "before or after the step" cannot be known from a `Last-Modified` alone:
    the clock remembers under which segment each ETag was written through the proxy, and goes by the time only
    for others. Only headers are changed; the times inside a listing's XML are not.
    """

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._segments = [_Segment(0.0, 0.0)]
        self._written: dict[str, int] = {}
        self._true = True

    def shift(self, seconds: float) -> None:
        """A clock that has always been wrong: every time it shows, or ever showed, moves by `seconds`."""
        with self._lock:
            self._segments = [replace(one, shown=one.shown + seconds) for one in self._segments]
            self._true = False

    def step(self, seconds: float) -> None:
        """The clock jumps now: later answers are moved by `seconds`, the times of earlier writes stay."""
        self._begin(seconds)

    def reset(self) -> None:
        """Show the truth again, also for earlier writes."""
        with self._lock:
            self._segments = [_Segment(0.0, 0.0)]
            self._written.clear()
            self._true = True

    def show(self) -> float:
        """The time that the clock shows now, in seconds since 1970."""
        with self._lock:
            return self._segments[-1].at(self._now())

    def wrote(self, etag: str | None) -> None:
        """Note that this ETag was written under the clock as it now is."""
        if etag is not None:
            with self._lock:
                self._written[etag] = len(self._segments) - 1

    def retell(self, answer: Message) -> Message:
        """The answer with its two times as this clock would have written them."""
        with self._lock:
            if self._true:
                return answer
            now = self._segments[-1]
            etag = answer.get("etag")
            modified = answer.get("last-modified")
            if modified is not None:
                real = parsedate_to_datetime(modified).timestamp()
                segment = self._segment(real, etag)
                answer = answer.replacing("last-modified", _http_date(segment.at(real)))
        date = answer.get("date")
        return answer if date is None else answer.replacing("date", _http_date(now.at(_seconds(date))))

    def _segment(self, real: float, etag: str | None) -> _Segment:
        index = self._written.get(etag) if etag is not None else None
        if index is not None:
            return self._segments[index]
        return next(one for one in reversed(self._segments) if one.start <= real)

    def _begin(self, seconds: float) -> None:
        with self._lock:
            last, now = self._segments[-1], self._now()
            self._segments.append(_Segment(now, last.at(now) + seconds))
            self._true = False


def moved(answer: Message, name: str, seconds: float) -> Message:
    """The answer with one of its HTTP dates moved."""
    value = answer.get(name)
    return answer if value is None else answer.replacing(name, _http_date(_seconds(value) + seconds))


def _seconds(http_date: str) -> float:
    return parsedate_to_datetime(http_date).timestamp()


def _http_date(seconds: float) -> str:
    return formatdate(seconds // 1, usegmt=True)
