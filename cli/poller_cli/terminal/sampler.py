"""Looking again and again on a thread of its own, so that keys work while a database does not answer."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class NoMoreSamples(Exception):
    """There are no further samples."""


class IntervalSampler(Generic[T]):
    """Takes a sample per interval. A context manager: the thread lives inside it.

    Args:
        look: takes one. interval: seconds from one to the next. count: end after so many; None: at the end of the
            context.
    """

    def __init__(self, look: Callable[[], T], interval: float, count: int | None) -> None:
        self._look = look
        self._interval = interval
        self._count = count
        self._stop = threading.Event()
        self._samples: queue.Queue[tuple[T] | BaseException | None] = queue.Queue()
        self._thread = threading.Thread(target=self._run, name="poller-watch", daemon=True)

    def __enter__(self) -> IntervalSampler[T]:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Take no further one; waits for the one under way, for a moment."""
        self._stop.set()
        self._thread.join(2.0)

    def next(self, timeout: float) -> T | None:
        """The next sample, or None within `timeout` seconds. Raises: Ended after the last one; what `look` raised."""
        try:
            sample = self._samples.get(timeout=timeout)
        except queue.Empty:
            return None
        if isinstance(sample, BaseException):
            raise sample
        if sample is None:
            raise NoMoreSamples
        return sample[0]

    def _run(self) -> None:
        taken = 0
        try:
            while not self._stop.is_set():
                began = time.monotonic()
                self._samples.put((self._look(),))
                taken += 1
                if self._count is not None and taken >= self._count:
                    break
                self._stop.wait(max(0.0, began + self._interval - time.monotonic()))
            self._samples.put(None)
        except Exception as error:  # noqa: BLE001 - raised where the samples are shown
            self._samples.put(error)
