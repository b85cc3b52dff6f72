"""Signals that end a command in good order."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def stopped() -> Iterator[threading.Event]:
    """Set by Ctrl-C, SIGTERM, and a terminal that goes away. Not an exception: one that came while a process is being
    started would leave that behind. Outside the main thread, where Python allows no handlers, it is never set."""
    stop = threading.Event()
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    if threading.current_thread() is not threading.main_thread():
        numbers = []
    former = [(number, signal.signal(number, lambda *_: stop.set())) for number in numbers]
    try:
        yield stop
    finally:
        for number, handler in former:
            signal.signal(number, handler)
