"""Standard output and error after a handler that closed or removed them: what is printed next must not end the loop."""

from __future__ import annotations

import os
import sys
from contextlib import suppress


def reopen_streams() -> None:
    """Open `sys.stdout` and `sys.stderr` again where they were closed, detached or taken away, onto what they were, and
    their descriptors onto nothing: else the next file or connection would get a closed one's number, and what is
    printed. Raises nothing."""
    for number, name in ((1, "stdout"), (2, "stderr")):
        with suppress(OSError, ValueError):
            _reserve(number)
            if not _usable(name):
                # Closing a standard stream leaves its descriptor open, and so does this one.
                setattr(sys, name, os.fdopen(number, "w", 1, "utf-8", "backslashreplace", closefd=False))


def _usable(name: str) -> bool:
    stream = getattr(sys, name, None)
    try:
        return stream is not None and not getattr(stream, "closed", False)
    except Exception:  # noqa: BLE001 - of one that was detached it cannot be asked
        return False


def _reserve(number: int) -> None:
    try:
        os.fstat(number)
    except OSError:
        nothing = os.open(os.devnull, os.O_WRONLY)
        if nothing != number:
            os.dup2(nothing, number)
            os.close(nothing)
