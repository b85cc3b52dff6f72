"""Times and ages as people read them, everywhere in the same form: commands, the status page, errors.

A moment is `2026-04-07 01:23:45Z`, one of today on a live screen `01:23:45Z`. A length of time has one or two units:
`45 s`, `3 min`, `2 h 5 min`, `3 d 4 h`. What was measured, such as a handler's call, may be shorter: `250 ms`, `1.5 s`.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime

FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
_LONGEST = 365_000
"""Days: about 1,000 years."""


def in_utc(at: datetime) -> datetime:
    """The same in UTC; the first or last moment of Python's, if it lies beyond."""
    try:
        return at.astimezone(UTC)
    except OverflowError:
        return FIRST if at.year == 1 else LAST


def parsed(text: str) -> datetime | None:
    """The moment of an ISO text; one without a zone is taken for UTC."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def moment(at: datetime) -> str:
    """A date and time: `2026-04-07 01:23:45Z`."""
    return in_utc(at).replace(tzinfo=None, microsecond=0).isoformat(" ") + "Z"


def clock(at: datetime) -> str:
    """A time of today: `01:23:45Z`."""
    return f"{in_utc(at):%H:%M:%S}Z"


def to_the_minute(at: datetime) -> str:
    """A time on an axis that is in UTC: `01:23`."""
    return f"{in_utc(at):%H:%M}"


def span(seconds: float | None) -> str:
    """The time that something has taken, or will take, to the second at most; it never says less than nothing."""
    if seconds is None or math.isnan(seconds):
        return "an unknown time"
    if seconds < 119.5:
        return f"{max(0.0, seconds):.0f} s"
    if seconds / 86_400 > _LONGEST:
        return "more than 1,000 years"
    minutes = int(seconds // 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days:,} d" + (f" {hours} h" if hours else "")
    if hours:
        return f"{hours} h" + (f" {minutes} min" if minutes else "")
    return f"{max(2, minutes)} min"


def took(seconds: float | None) -> str:
    """A length of time that was measured: below 10 s with the digits that matter."""
    if seconds is None or not math.isfinite(seconds) or seconds >= 9.95:
        return span(seconds)
    if seconds <= 0:
        return "0 s"
    return f"{seconds * 1000:.3g} ms" if seconds < 0.9995 else f"{seconds:.2g} s"


def ago(at: datetime, now: datetime) -> str:
    """The age of a moment before `now`: `3 min ago`; or in what time it comes: `in 40 s`."""
    seconds = (in_utc(now) - in_utc(at)).total_seconds()
    return f"in {span(-seconds)}" if seconds < -1 else f"{span(seconds)} ago"
