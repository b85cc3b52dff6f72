"""A handler's traceback as its author wants it: from their own code on, without the frames that called it, bounded."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from poller.model.redact import BEYOND, LONGEST_SECRET, redact

LINES = 200
"""At most so many lines are kept, from both ends."""
WIDTH = 1_000
"""The most characters of a line that are kept."""
_READ = WIDTH + BEYOND
"""So much of a line is looked through for secrets: more than is kept, so that a cut hides none from redaction."""
_CUT = "…"
"""What a line ends with that was cut."""
_PIECE = 1_000_000
"""So much of one exception's text is looked at."""
_MOST = 40_000
"""The most characters of a traceback that are kept: what is looked through for secrets takes time, in which nothing
else runs in this process, heartbeats neither."""
_PACKAGE = Path(__file__).parents[1]
_CALLERS = tuple(
    f"{folder}{os.sep}"
    for folder in (_PACKAGE, Path(asyncio.__file__).parent, Path(concurrent.futures.__file__).parent)
)


def users_frames(trace: TracebackType | None) -> TracebackType | None:
    """The traceback from the first frame on that neither poller nor an event loop has; None if they have all."""
    while trace is not None and _calls(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    return trace


def trace_of(error: BaseException) -> str:
    """The error's traceback, and those of what caused it, each from the user's own code on; bounded, not redacted.
    Only the error's type where that cannot be had: what an exception has of its own may raise anything."""
    try:
        return _trace_of(error)
    except BaseException:  # noqa: BLE001 - see above
        return type(error).__name__


def _trace_of(error: BaseException) -> str:
    whole = traceback.TracebackException.from_exception(error)
    for part in _chain(whole):
        first = next((n for n, frame in enumerate(part.stack) if not _calls(frame.filename)), len(part.stack))
        part.stack = traceback.StackSummary.from_list(part.stack[first:])
    lines = [_cut(line) for piece in whole.format() for line in piece[:_PIECE].rstrip("\n").split("\n")]
    head, tail = _first(lines), _first(lines[::-1])[::-1]
    if len(head) + len(tail) >= len(lines):
        return "\n".join(lines)
    key = next((n for n, line in enumerate(tail) if "-----END" in line or "-----BEGIN" in line), None)
    if key is not None and "-----BEGIN" not in tail[key]:
        tail = tail[key + 1 :]  # a private key whose beginning was left out: its rest is not known as one
    return "\n".join([*head, f"  ... {len(lines) - len(head) - len(tail)} lines more ...", *tail])


def shown(trace: str) -> str:
    """A traceback's text without secrets, and without overlong lines."""
    lines = redact(trace[: 2 * _MOST]).rstrip().split("\n")
    return "\n".join(line if len(line) <= WIDTH else f"{line[: WIDTH - 1]}…" for line in map(_safe, lines))


def _cut(line: str) -> str:
    return line if len(line) <= _READ else f"{line[:_READ]}{_CUT}"


def _safe(line: str) -> str:
    """As much of a line that was cut as holds no half of a secret (see `redact.shortened`)."""
    return line if not line.endswith(_CUT) else f"{line[: max(0, len(line) - LONGEST_SECRET)]}…"


def _first(lines: list[str]) -> list[str]:
    """As many from the beginning as half of what is kept."""
    room = _MOST // 2
    for number, line in enumerate(lines[: LINES // 2]):
        room -= len(line) + 1
        if room < 0:
            return lines[:number]
    return lines[: LINES // 2]


def _calls(filename: str) -> bool:
    return filename.startswith(_CALLERS)


def _chain(
    part: traceback.TracebackException, seen: frozenset[int] = frozenset()
) -> Iterator[traceback.TracebackException]:
    if id(part) in seen:
        return
    yield part
    for other in (part.__cause__, part.__context__, *(part.exceptions or ())):
        if other is not None:
            yield from _chain(other, seen | {id(part)})
