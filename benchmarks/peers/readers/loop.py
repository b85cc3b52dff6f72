"""What every reader has in common: polled at an interval until its standard input ends, and on until nothing comes.

A reader is a separate program, so that each peer runs in its own environment. It is started with one argument,
a JSON object such as ``{"url": ..., "poll": 0.2, "quiet": 12, "settings": {}}``, and prints one: the keys delivered
while there were writers, those delivered after, and how many polls it made. This file imports nothing but the standard
library.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

LONGEST_REST = 120.0
"""Seconds after which what is still to come counts as lost."""


def plan() -> dict[str, Any]:
    """What was asked for."""
    asked: dict[str, Any] = json.loads(sys.argv[1])
    return asked


def run(poll: Callable[[], list[int]], report: dict[str, Any], *, version: str) -> None:
    """Poll until the standard input ends, and then until no new key has come for `quiet` seconds; then report.

    `poll` returns the keys that were delivered. "ready" is printed once it has answered for the first time, so that
    what a library needs for its start is not held against it. What is merely late is waited for: it is not lost.
    """
    asked = plan()
    ended = threading.Event()
    during: list[int] = list(poll())
    after: list[int] = []
    print("ready", flush=True)
    threading.Thread(target=_end_with_input, args=(ended,), daemon=True).start()
    took: list[float] = []
    known = set(during)
    news = over = time.monotonic()
    while True:
        writing = not ended.is_set()
        began = time.monotonic()
        keys = poll()
        took.append(time.monotonic() - began)
        (during if writing else after).extend(keys)
        if writing or not known.issuperset(keys):
            news = time.monotonic()
        over = time.monotonic() if writing else over
        known.update(keys)
        if time.monotonic() - news > asked["quiet"] or time.monotonic() - over > LONGEST_REST:
            break
        time.sleep(max(0.0, asked["poll"] - took[-1]))
    took.sort()
    result = {
        "version": version,
        "polls": len(took),
        "poll_ms_median": round(1000 * took[len(took) // 2], 1),
        "during": during,
        "after": after,
    }
    print(json.dumps({**result, **report}), flush=True)


def _end_with_input(ended: threading.Event) -> None:
    sys.stdin.read()
    ended.set()
