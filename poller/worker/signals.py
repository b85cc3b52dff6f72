"""SIGTERM, SIGHUP and Ctrl-C: the first finishes the batch in hand, a later one abandons it.

SIGHUP, of a terminal or SSH session that closes, ends a worker as SIGTERM does: configuration is read at the start
only. It never abandons a batch, since a closing terminal sends several. A process that `nohup` started goes on.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from poller.observability import BatchCommitted, BatchStarted, PollerEvent, TickFailed, TickFinished
from poller.ports import Event

ONE_SIGNAL = 0.5
"""Seconds within which further signals are one with the first: GNU timeout, and others that end processes, signal the
process and at once its group."""
HANGUP: signal.Signals | None = getattr(signal, "SIGHUP", None)
"""Windows has none."""


class BatchesInHand:
    """An observer that knows whether a batch is in hand. A signal handler may ask it: it takes no lock."""

    def __init__(self) -> None:
        self._pollers: set[str] = set()

    def __call__(self, event: PollerEvent) -> None:
        """Take note of a batch that begins or ends."""
        if isinstance(event, BatchStarted):
            self._pollers.add(event.poller)
        elif isinstance(event, (BatchCommitted, TickFinished, TickFailed)):
            self._pollers.discard(event.poller)

    def __bool__(self) -> bool:
        """True if one was begun and has not ended."""
        return bool(self._pollers)


@contextmanager
def stopped_by_signals(
    stop: Event | None = None,
    in_hand: BatchesInHand | None = None,
    *,
    exit_code: int = 1,
    now: Callable[[], float] = time.monotonic,
    form: Callable[[str], str] = "poller: {}".format,
) -> Iterator[Event]:
    """Set `stop` at SIGTERM, SIGHUP or Ctrl-C; end the process at once at one that comes `ONE_SIGNAL` seconds after the
    first or later and is no SIGHUP. Both are said on stderr. SIGHUP stays ignored where it is (`nohup`). Outside the
    main thread, where Python allows no signal handlers, it does nothing.

    Args:
        stop: for `run`; default: a new one.
        in_hand: an observer of the pollers, so that the second signal says whether a batch is abandoned.
        exit_code: of the process where it is ended at once.
        now: seconds on a clock that only goes forward.
        form: makes a line of what is said; it takes no lock.
    Returns: a context manager that yields `stop`, and puts back the former signal handlers.
    """
    stop = threading.Event() if stop is None else stop
    first: float | None = now() if stop.is_set() else None

    def say(text: str) -> None:
        with suppress(OSError):  # stderr is closed: that must not end the loop in the middle of a batch
            os.write(2, f"{form(text)}\n".encode())

    def on_signal(number: int, __: FrameType | None) -> None:
        # Only what is safe in a signal handler: no locks of the logging or of streams. Another signal may come while
        # the first is still being handled: that it came, and when, is the first thing to be known.
        nonlocal first
        at = now()
        if first is None:
            first = at
            stop.set()
            say("stopping after the batch in hand; once more to abandon it")
        elif at - first >= ONE_SIGNAL and number != HANGUP:
            batch = "; the batch in hand will come again when its lease has expired" if in_hand else ""
            try:
                say(f"abandoned{batch}")
            finally:
                os._exit(exit_code)

    numbers = [signal.SIGTERM, signal.SIGINT]
    if HANGUP is not None and signal.getsignal(HANGUP) != signal.SIG_IGN:
        numbers.append(HANGUP)
    if threading.current_thread() is not threading.main_thread():
        numbers = []
    former = [(number, signal.signal(number, on_signal)) for number in numbers]
    try:
        yield stop
    finally:
        for number, handler in former:
            signal.signal(number, handler)
