"""Instants and their texts (sources.md, "Cursor fidelity").

A cursor's text comes from the database and is never recomputed here. Only the *bound* and the *age* are computed: from
the database's clock in UTC to the column's own form.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo

_MINUTE = timedelta(minutes=1)
_FORM = re.compile(
    r"\d{4}-\d\d-\d\d(?:(?P<sep>[T ])\d\d:\d\d(?P<sec>:\d\d(?:\.(?P<frac>\d+))?)?(?P<zone>Z|[+-]\d\d(?::?\d\d)?)?)?",
    re.ASCII,
)


def remembered(text: Any) -> datetime:
    """A moment that an earlier process remembered of the bound, in UTC. The document may have been edited: raises
    ValueError, TypeError or OverflowError where it is not a moment with a zone.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("a moment without a zone")
    return moment.astimezone(UTC)


@dataclass(frozen=True, slots=True)
class TextForm:
    """How a text column writes its timestamps; all rows must agree, because text is compared as text.

    Attributes:
        separator: `T`, a space, or empty for a date alone.
        seconds: whether seconds are written; digits: fractional digits of the row it was seen in.
        zone: the suffix (`Z`, `+00:00`), empty for none.
    """

    separator: str
    seconds: bool
    digits: int
    zone: str

    @classmethod
    def of(cls, text: str) -> TextForm | None:
        """The form of one stored text; None if it is not an ISO 8601 timestamp."""
        found = _FORM.fullmatch(text)
        if found is None:
            return None
        return cls(
            separator=found["sep"] or "",
            seconds=found["sec"] is not None,
            digits=len(found["frac"] or ""),
            zone=found["zone"] or "",
        )

    def pattern(self) -> re.Pattern[str]:
        """What every other row must match. Where `varies`, the fraction may be missing or have any length, as Python's
        isoformat and .NET write it; `below` allows for writers that cut it off."""
        if not self.separator:
            return re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
        text = rf"\d{{4}}-\d\d-\d\d{self.separator}\d\d:\d\d"
        if self.seconds:
            text += r":\d\d"
            if self.varies:
                text += r"(?:\.\d+)?"
            elif self.digits:
                text += rf"\.\d{{{self.digits}}}"
        return re.compile(text + re.escape(self.zone), re.ASCII)

    @property
    def varies(self) -> bool:
        """True if fractions may differ in length: the shorter text then sorts first, as it should. An offset's sign
        sorts before a point and a digit, a `Z` after them."""
        return self.seconds and self.zone != "Z"

    def __str__(self) -> str:
        if not self.separator:
            return "YYYY-MM-DD"
        seconds = ":SS" if self.seconds else ""
        return f"YYYY-MM-DD{self.separator}HH:MM{seconds}{'.' if self.digits else ''}{'f' * self.digits}{self.zone}"

    def render(self, moment: datetime) -> str:
        """A moment of the column's own zone (naive) as the column would write it, truncated, never rounded up."""
        text = f"{moment:%Y-%m-%d}".rjust(10, "0")
        if not self.separator:
            return text
        text += f"{self.separator}{moment:%H:%M}"
        if self.seconds:
            text += f":{moment:%S}"
            if self.digits:
                text += "." + f"{moment:%f}".ljust(self.digits, "0")[: self.digits]
        return text + self.zone

    def below(self, moment: datetime) -> str:
        """The greatest text that no row written at `moment` (naive, of the column's zone) or later sorts below: rounded
        down and, if a writer may round to seconds or less, one unit less. All writers truncate dates and minutes.

        Where fractions may differ in length, one writer may cut them off (CURRENT_TIMESTAMP) and another not, so that a
        later row may sort first: only seconds that are over are complete."""
        if not self.seconds:
            return self.render(floor_to(moment, self.unit))
        if self.digits and self.varies:
            whole = replace(self, digits=0)
            return whole.render(floor_to(moment - self.unit, whole.unit))
        return self.render(floor_to(moment, self.unit) - self.unit)

    def complete(self, text: str) -> str:
        """The same for a row's text: without its fraction, where those may differ in length."""
        return re.sub(r"\.\d+", "", text) if self.varies else text

    def offset(self) -> timedelta | None:
        """What the suffix means; None without one."""
        if not self.zone:
            return None
        return datetime.fromisoformat(f"2000-01-01T00:00:00{_full(self.zone)}").utcoffset()

    @property
    def unit(self) -> timedelta:
        """The smallest step between two texts of this form."""
        if not self.separator:
            return timedelta(days=1)
        return unit_of(self.digits) if self.seconds else timedelta(minutes=1)


def _full(zone: str) -> str:
    return zone + ":00" if len(zone) == 3 else zone


def unit_of(digits: int) -> timedelta:
    """The smallest step of a type with this many fractional digits, at least Python's microsecond."""
    return timedelta(microseconds=10 ** (6 - min(digits, 6)))


def iso_text(moment: datetime, digits: int, *, zoned: bool) -> str:
    """`YYYY-MM-DDTHH:MM:SS.ffffff`, with all the column's digits and at least six, and `Z` for zoned columns."""
    text = moment.replace(tzinfo=None).isoformat(timespec="microseconds")
    return text + "0" * max(0, digits - 6) + ("Z" if zoned else "")


def floor_to(moment: datetime, unit: timedelta) -> datetime:
    """The latest multiple of `unit` that is not after `moment`, counted from the year's first day."""
    start = datetime(moment.year, 1, 1, tzinfo=moment.tzinfo)
    return start + (moment - start) // unit * unit


def parse_utc(text: str, zone: tzinfo | None) -> datetime | None:
    """The instant that a cursor's text means, in UTC; naive ones are of `zone`. None for what Python cannot hold
    (infinities, years before 1 or after 9999) and for naive ones of an unknown zone."""
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            if zone is None:
                return None
            moment = moment.replace(tzinfo=zone)
        return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def lowest_from(moment: datetime, zone: tzinfo) -> datetime:
    """The lowest time that the clocks of `zone` show at that instant or later, naive. While they show an hour for the
    first time that will come a second time, that is the beginning of this hour."""
    local = moment.astimezone(zone)
    shown = local.replace(tzinfo=None)
    if local.fold or not _comes_twice(shown, zone):
        return shown
    shown = shown.replace(second=0, microsecond=0)
    while _comes_twice(shown - _MINUTE, zone):
        shown -= _MINUTE
    return shown


def _comes_twice(shown: datetime, zone: tzinfo) -> bool:
    first, second = (shown.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1))
    return first is not None and second is not None and first > second


@cache
def has_daylight_saving(zone: ZoneInfo) -> bool:
    """True if the zone's clocks are ever set back from 2020 on: local times then repeat."""
    first = datetime(2020, 1, 1, tzinfo=UTC)
    offsets = {(first + timedelta(days=10 * i)).astimezone(zone).utcoffset() for i in range(650)}
    return len(offsets) > 1


def plain_text(value: object) -> str:
    """A value from TOML or Python (a text, a number, a date) as text for the database to read."""
    if isinstance(value, datetime | date):
        return value.isoformat()
    return str(value)
