"""Durations as people write them in `poller.toml`: `750ms`, `15s`, `4m30s`, `2h` (design, "Configuration")."""

from __future__ import annotations

import re
from datetime import timedelta

_UNITS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|[dhms])")
LONGEST = timedelta(days=3650)
"""Durations are added to times; with longer ones the sum may exceed the range of `datetime`."""
LONGEST_PAUSE = timedelta(days=1)
"""A handler that asks for more (`RetryLater`) is called again after so long: a slip of its author stops no table for a
year."""
_WHOLE = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:ms|[dhms]))+")


class TooLong(ValueError):
    """A duration of more than `LONGEST`."""

    def __init__(self) -> None:
        super().__init__("must be at most 10 years (3650d)")


def parse_duration(text: str | timedelta) -> timedelta:
    """`4m30s` as a timedelta; a timedelta is returned as it is.

    Raises: ValueError, saying what a duration looks like; TooLong.
    """
    if isinstance(text, timedelta):
        if text < timedelta(0):
            raise ValueError("a duration cannot be negative")
        if text > LONGEST:
            raise TooLong
        return text
    compact = text.strip().lower()
    if not _WHOLE.fullmatch(compact):
        raise ValueError(f"{text!r} is not a duration; write it like 750ms, 15s, 4m30s or 2h")
    seconds = sum(float(n) * _UNITS[unit] for n, unit in _PART.findall(compact))
    if seconds > LONGEST.total_seconds():  # infinity too
        raise TooLong
    return timedelta(seconds=seconds)


def format_duration(value: timedelta) -> str:
    """The shortest text that `parse_duration` reads back: 270 s is `4m30s`, zero is `0s`."""
    milliseconds = round(value.total_seconds() * 1000)
    text = ""
    for unit, size in (("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)):
        count, milliseconds = divmod(milliseconds, size)
        if count:
            text += f"{count}{unit}"
    return text or "0s"
