"""Time of a profiled call, summed by who spends it."""

from __future__ import annotations

import cProfile
import gc
import pstats
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

DATABASE, STORAGE = "waiting for the database", "waiting for storage"
READING, TICKING, STORING = "poller: reading rows", "poller: tick, lease, batches", "poller: state document"
ORM, DRIVER, CLIENT = "SQLAlchemy", "psycopg", "storage client, requests"
REST = "Python's library, pydantic"
GROUPS = (DATABASE, STORAGE, DRIVER, ORM, READING, TICKING, STORING, CLIENT, REST)
_PLACES = (
    (DATABASE, r"/psycopg/connection\.py:\d+\(wait\)"),
    (READING, r"/poller/(sources|databases)/|^<columns>"),
    (STORING, r"/poller/(stores|config)/|/poller/lease/state_file|/poller/model/document"),
    (TICKING, r"/poller/"),
    (ORM, r"/sqlalchemy/"),
    (DRIVER, r"/psycopg(_binary)?/"),
    (CLIENT, r"/(azure|requests|urllib3|isodate|certifi|http|email|urllib)/"),
)
_WAITS = {"recv_into", "sendall", "recv", "send", "poll", "select"}
_PAUSES = ("'acquire' of '_thread.lock'", "time.sleep")
_Function = tuple[str, int, str]


def group(function: _Function) -> str:
    """Who spends the time of this function itself."""
    file, line, name = function
    place = f"{file}:{line}({name})"
    return next((found for found, pattern in _PLACES if re.search(pattern, place)), REST)


def spent(call: Callable[[], object], *, threads: bool = False) -> dict[str, Any]:
    """Run the call under `cProfile`, on this thread, or with the threads that it starts; then waits for each other and
    for the handler are left out. Returns the milliseconds by group, and those of Python's collector among them. What C
    does is counted where it is called from; a profiler makes Python slower, not C."""
    collected, began = 0.0, 0.0

    def watch(phase: str, _: dict[str, int]) -> None:
        nonlocal collected, began
        if phase == "start":
            began = time.perf_counter()
        else:
            collected += time.perf_counter() - began

    profiles = [cProfile.Profile()]

    def begin(*_: Any) -> None:
        profiles.append(cProfile.Profile())
        profiles[-1].enable()

    gc.callbacks.append(watch)
    if threads:
        threading.setprofile(begin)
    try:
        profiles[0].enable()
        call()
        profiles[0].disable()
    finally:
        threading.setprofile(None)
        gc.callbacks.remove(watch)
    found: Counter[str] = Counter()
    for profile in profiles:
        found.update(_by_group(profile, leave_out=_PAUSES if threads else ()))
    return {"ms": {name: 1000 * found[name] for name in GROUPS}, "collector_ms": 1000 * collected}


def _by_group(profile: cProfile.Profile, leave_out: Sequence[str]) -> Counter[str]:
    """Seconds."""
    found: Counter[str] = Counter()
    try:
        statistics: dict[_Function, Any] = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    except TypeError:  # of a thread that did nothing
        return found
    for function, (_, _, own, _, callers) in statistics.items():
        file, _, name = function
        if file != "~":
            found[group(function)] += own
        elif any(one in name for one in leave_out):
            continue
        elif (wait := re.search(r"method '(\w+)' of '(?:_socket|select)", name)) and wait[1] in _WAITS:
            found[STORAGE] += own
        else:
            for caller, (_, _, own_of_caller, _) in callers.items():
                found[REST if caller[0] == "~" else group(caller)] += own_of_caller
    return found
