"""The operator's console: the command `poller` (design, "The `poller` command").

Its first statements see to it that no signal is lost while the rest is imported, which takes a while: the first
process of a container (PID 1) has no default action, so SIGTERM would do nothing until `poller run` has a handler. One
that came still earlier waits, if the process was started by `env --block-signal=TERM,HUP`, as in our image.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from types import FrameType


def _end(number: int, _: FrameType | None) -> None:
    os._exit(128 + number)


def _hear_signals() -> None:
    """Nothing is in hand yet: SIGTERM and SIGHUP end this process, as they end any other."""
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    with suppress(ValueError):  # imported outside the main thread, where Python allows no signal handlers
        for number in numbers:
            if os.getpid() == 1 and signal.getsignal(number) == signal.SIG_DFL:
                signal.signal(number, _end)
        if hasattr(signal, "pthread_sigmask"):
            signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)


_hear_signals()
