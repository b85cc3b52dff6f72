"""NCRONTAB, the schedules of timers in Azure Functions: `{second} {minute} {hour} {day} {month} {day-of-week}`, UTC.

Parsed here, because the semantics differ from cron's: a day must match day-of-month *and* day-of-week (in cron either
is enough), seconds come first, and Sunday is 0 and never 7. Five fields mean second 0, as in Functions. The `hh:mm:ss`
form of an interval is not supported: it counts from a process's start, so the workers of one poller would not agree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property, lru_cache
from itertools import pairwise

_MONTHS = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
_DAYS = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"]
BETWEEN = timedelta(minutes=5)
"""A moment that another follows within this time is not made up for: that one does it."""
AHEAD = timedelta(minutes=1)
"""A clock that is ahead of another by less hides no moment from it."""
_LONGEST_GAP = timedelta(days=41 * 366)
"""29 February on one given weekday comes every 28 years, and after 40 across a year such as 2100."""


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    low: int
    high: int
    words: tuple[str, ...] = ()

    def parse(self, text: str) -> frozenset[int]:
        """The values that a field's text means, such as `1-10/3,20`."""
        return frozenset(value for part in text.split(",") for value in self._part(part, text))

    def _part(self, part: str, text: str) -> Iterator[int]:
        span, slash, step_text = part.partition("/")
        step = self._number(step_text, text) if slash else 1
        if step < 1:
            raise ValueError(f"the {self.name} field {text!r} has a step of 0")
        if span == "*":
            first, last = self.low, self.high
        elif "-" in span:
            low, _, high = span.partition("-")
            first, last = self._value(low, text), self._value(high, text)
            if first > last:
                raise ValueError(f"the {self.name} field {text!r} has a range that runs backwards")
        else:
            first = self._value(span, text)
            last = self.high if slash else first
        return iter(range(first, last + 1, step))

    def _value(self, word: str, text: str) -> int:
        if len(word) >= 3 and word.isalpha():
            for position, name in enumerate(self.words):
                if name.startswith(word.lower()):
                    return position + self.low
        number = self._number(word, text)
        if not self.low <= number <= self.high:
            raise ValueError(f"the {self.name} field {text!r} must lie between {self.low} and {self.high}")
        return number

    def _number(self, word: str, text: str) -> int:
        if not (word.isascii() and word.isdigit()):
            raise ValueError(f"the {self.name} field {text!r} is not a number, range, list or step")
        return int(word)


_FIELDS = (
    _Field("second", 0, 59),
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day", 1, 31),
    _Field("month", 1, 12, tuple(_MONTHS)),
    _Field("day-of-week", 0, 6, tuple(_DAYS)),
)


class Schedule:
    """When ticks start.

    Args:
        text: an NCRONTAB expression. Raises: ValueError, saying which field is wrong, or that no such day exists.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        fields = text.split()
        if len(fields) == 1 and ":" in text:
            raise ValueError(
                f'{text!r} is an interval; only NCRONTAB is supported, for instance "*/30 * * * * *" for 30 seconds'
            )
        if len(fields) not in {5, 6}:
            raise ValueError(
                f"{text!r} has {len(fields)} fields; NCRONTAB has six: second minute hour day month day-of-week"
            )
        if len(fields) == 5:
            fields.insert(0, "0")
        sets = [field.parse(part) for field, part in zip(_FIELDS, fields, strict=True)]
        seconds, minutes, hours, self._days, self._months, self._weekdays = sets
        self._seconds, self._minutes, self._hours = sorted(seconds), sorted(minutes), sorted(hours)
        try:
            self.next_after(datetime(2000, 1, 1, tzinfo=UTC))
        except OverflowError:
            raise ValueError(f"{text!r} names a day that never comes") from None

    def __repr__(self) -> str:
        return f"Schedule({self.text!r})"

    def next_after(self, now: datetime) -> datetime:
        """The first time of the schedule strictly after `now` (zone-aware), in UTC."""
        earliest = now.astimezone(UTC).replace(microsecond=0) + timedelta(seconds=1)
        day, last = earliest.date(), earliest.date() + _LONGEST_GAP
        floor = earliest.time()
        while day <= last:
            if self._matches(day):
                found = self._time_from(floor)
                if found is not None:
                    return datetime.combine(day, found, tzinfo=UTC)
            day, floor = day + timedelta(days=1), time.min
        raise OverflowError(f"{self.text!r} names a day that never comes")

    def rests(self, now: datetime) -> bool:
        """True if its next moment is more than `BETWEEN` off."""
        return self.may_rest and self.next_after(now) - now > BETWEEN

    def owed(self, since: datetime | None, now: datetime) -> bool:
        """True if a moment passed after `since`, until when all are done with, and none follows it soon. None: nothing
        is known, so nothing is owed. A time that is still to come was written by a clock that was ahead: which moments
        it hides is not known, so one counts as owed."""
        if since is None or not self.rests(now):
            return False
        return since > now + AHEAD or self.next_after(min(since, now)) <= now

    @cached_property
    def may_rest(self) -> bool:
        """True if some two moments of it are more than `BETWEEN` apart."""
        every = (self._days, 31), (self._months, 12), (self._weekdays, 7), (self._hours, 24)
        if any(len(values) < most for values, most in every):
            return True
        hour = [timedelta(minutes=minute, seconds=second) for minute in self._minutes for second in self._seconds]
        moments = [*hour, timedelta(hours=1) + hour[0]]
        return any(later - earlier > BETWEEN for earlier, later in pairwise(moments))

    def _matches(self, day: date) -> bool:
        return day.month in self._months and day.day in self._days and day.isoweekday() % 7 in self._weekdays

    def _time_from(self, floor: time) -> time | None:
        """The first time of a matching day that is not before `floor`."""
        for hour in (h for h in self._hours if h >= floor.hour):
            whole_hour = hour > floor.hour
            for minute in (m for m in self._minutes if whole_hour or m >= floor.minute):
                whole_minute = whole_hour or minute > floor.minute
                for second in self._seconds:
                    if whole_minute or second >= floor.second:
                        return time(hour, minute, second)
        return None


@lru_cache(256)
def schedule_of(text: str) -> Schedule:
    """The schedule of this text, read once: a thousand pollers have a few. Raises: ValueError."""
    return Schedule(text)
