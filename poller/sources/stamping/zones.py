"""Time zones compared by what their clocks show over a year, not by their names: `UTC`, `Etc/UTC` and `GMT` are one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

EVERY = timedelta(days=5)
"""Shorter than any time for which two zones differ only because one changes its clocks earlier."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """One zone in which the cursor's column gets its times.

    Attributes:
        zone: its name as the database has it; empty where it cannot be told.
        source: where that is set, for people: `ALTER DATABASE shop SET timezone`, `the column's DEFAULT now()`.
        offsets: seconds ahead of UTC at some instants; None where they cannot be told.
        assumed: nothing in the database stamps the column, so whoever writes may mean another zone.
        role: the one whose sessions it is the zone of; empty where it is that of all who have none of their own.
    """

    zone: str
    source: str
    offsets: Mapping[datetime, int] | None
    assumed: bool = False
    role: str = ""

    def differs(self, zone: tzinfo) -> bool:
        """Whether its clocks ever show another time than those of `zone`; False where that cannot be told."""
        return self.offsets is not None and any(seconds(zone, at) != told for at, told in self.offsets.items())

    @property
    def iana(self) -> str | None:
        """A name that `cursor_time_zone` takes; None where none is known."""
        if self.offsets is None:
            return None
        told = set(self.offsets.values())
        if told == {0}:
            return "UTC"
        if _is_zone(self.zone) and not self.differs(ZoneInfo(self.zone)):
            return self.zone
        hours, rest = divmod(min(told), 3600)
        name = f"Etc/GMT{-hours:+d}"  # the sign is POSIX': west is positive
        return name if len(told) == 1 and not rest and _is_zone(name) else None

    def __str__(self) -> str:
        if self.offsets is None or _is_zone(self.zone):
            return self.zone or "a zone that cannot be told"
        least, most = min(self.offsets.values()), max(self.offsets.values())
        told = _offset(least) if least == most else f"{_offset(least)} to {_offset(most)}"
        return told if self.zone[:1] in {"+", "-"} else f"{self.zone} ({told})"


def instants(now: datetime) -> list[datetime]:
    """Instants all over the year of `now`, in UTC."""
    first = datetime(now.year, 1, 1, tzinfo=UTC)
    return [first + number * EVERY for number in range(366 // EVERY.days)]


def seconds(zone: tzinfo, at: datetime) -> int:
    """By how many seconds the clocks of `zone` are ahead of UTC at an instant."""
    offset = at.astimezone(zone).utcoffset()
    return 0 if offset is None else round(offset.total_seconds())


def of_name(zone: str, at: Sequence[datetime]) -> dict[datetime, int] | None:
    """The offsets of a zone by its name (`UTC`, `Europe/Berlin`) or its distance (`+02:00`); None for no known one."""
    found = re.fullmatch(r"([+-])(\d{1,2}):(\d\d)", zone)
    if found is not None:
        distance = (int(found[2]) * 60 + int(found[3])) * 60
        return dict.fromkeys(at, -distance if found[1] == "-" else distance)
    named = "UTC" if zone.upper() in {"UTC", "Z", "GMT"} else zone
    if not _is_zone(named):
        return None
    return {one: seconds(ZoneInfo(named), one) for one in at}


def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (ValueError, OSError, KeyError):  # ZoneInfoNotFoundError is a KeyError
        return False
    return bool(name)


def _offset(told: int) -> str:
    minutes = abs(told) // 60
    return f"UTC{'-' if told < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"
