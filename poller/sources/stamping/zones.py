"""Time zones compared by their offsets over a year, not by their names: `UTC`, `Etc/UTC` and `GMT` are the same."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from sqlalchemy.engine import Connection

EVERY = timedelta(days=5)
"""Shorter than any time for which two zones differ only because one changes its clocks earlier."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """One zone in which the cursor's column gets its times.

    Attributes:
        zone: its name in the database; empty where it is unknown.
        source: where that is set, for people: `ALTER DATABASE shop SET timezone`, `the column's DEFAULT now()`.
        offsets: seconds ahead of UTC at some instants; None where they are unknown.
        assumed: nothing in the database stamps the column, so the writers may mean another zone.
        role: whose sessions have this zone; empty where it is the default of all roles.
    """

    zone: str
    source: str
    offsets: Mapping[datetime, int] | None
    assumed: bool = False
    role: str = ""

    def differs(self, zone: tzinfo) -> bool:
        """Whether its offset ever differs from that of `zone`; False where that is unknown."""
        return self.offsets is not None and any(seconds(zone, at) != ahead for at, ahead in self.offsets.items())

    @property
    def iana(self) -> str | None:
        """A name that `cursor_time_zone` takes; None where none is known."""
        if self.offsets is None:
            return None
        offsets = set(self.offsets.values())
        if offsets == {0}:
            return "UTC"
        if _is_zone(self.zone) and not self.differs(ZoneInfo(self.zone)):
            return self.zone
        hours, rest = divmod(min(offsets), 3600)
        name = f"Etc/GMT{-hours:+d}"  # the sign of POSIX: west is positive
        return name if len(offsets) == 1 and not rest and _is_zone(name) else None

    def __str__(self) -> str:
        if self.offsets is None or _is_zone(self.zone):
            return self.zone or "an unknown zone"
        least, most = min(self.offsets.values()), max(self.offsets.values())
        offset = _offset(least) if least == most else f"{_offset(least)} to {_offset(most)}"
        return offset if self.zone[:1] in {"+", "-"} else f"{self.zone} ({offset})"


def instants(now: datetime) -> list[datetime]:
    """Instants throughout the year of `now`, in UTC."""
    first = datetime(now.year, 1, 1, tzinfo=UTC)
    return [first + number * EVERY for number in range(366 // EVERY.days)]


def seconds(zone: tzinfo, at: datetime) -> int:
    """How many seconds `zone` is ahead of UTC at an instant."""
    offset = at.astimezone(zone).utcoffset()
    return 0 if offset is None else round(offset.total_seconds())


def of_name(zone: str, at: Sequence[datetime]) -> dict[datetime, int] | None:
    """The offsets of a zone by its name (`UTC`, `Europe/Berlin`) or distance (`+02:00`); None for an unknown one."""
    found = re.fullmatch(r"([+-])(\d{1,2}):(\d\d)", zone)
    if found is not None:
        distance = (int(found[2]) * 60 + int(found[3])) * 60
        return dict.fromkeys(at, -distance if found[1] == "-" else distance)
    named = "UTC" if zone.upper() in {"UTC", "Z", "GMT"} else zone
    if not _is_zone(named):
        return None
    return {one: seconds(ZoneInfo(named), one) for one in at}


def by_name(connection: Connection, zone: str, at: Sequence[datetime]) -> dict[datetime, int] | None:
    """`of_name`, for databases that are not asked about zones."""
    return of_name(zone, at)


def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (ValueError, OSError, KeyError):  # ZoneInfoNotFoundError is a KeyError
        return False
    return bool(name)


def _offset(ahead: int) -> str:
    minutes = abs(ahead) // 60
    return f"UTC{'-' if ahead < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"
