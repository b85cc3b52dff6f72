"""Where a driver returns a column's value with nothing lost, its text is made here, as the database would write it.

A page then has no second column for the cursor's text, and the text is made of the rows whose cursor is asked for:
mostly the last one. Values that Python cannot hold, or that the database writes in another form, it renders itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from operator import itemgetter
from typing import Any

from poller.sources.columns import Column, Family


@dataclass(frozen=True, slots=True)
class Exact:
    """How the values of a column are written.

    Attributes:
        kind: the only type that they may have. text: of one value, as `Dialect.render` has it written.
        zoned: whether the values are times with a zone (of any zone: instants); None where they are no times.
        alike: whether the driver gives all values of the column this type, or fails.
    """

    kind: type
    text: Callable[[Any], str]
    zoned: bool | None = None
    alike: bool = False

    def covers(self, records: Sequence[Sequence[Any]], place: int) -> bool:
        """Whether the text of each of these, in the column's order, can be made here. The ends of Python's calendar are
        left to the database: an instant of them may be of another year in UTC."""
        if not records:
            return True
        first, last = records[0][place], records[-1][place]
        looked_at = (records[0], records[-1]) if self.alike else records
        if set(map(type, map(itemgetter(place), looked_at))) != {self.kind}:
            return False
        if not isinstance(first, date):
            return True
        return first.year > 1 and last.year < 9999 and self.zoned == (getattr(first, "tzinfo", None) is not None)


_UNZONED = len("2026-01-01T00:00:00.000000")


def _instant(value: datetime) -> str:
    return value.astimezone(UTC).isoformat(timespec="microseconds")[:_UNZONED] + "Z"


def _naive(value: datetime) -> str:
    return value.isoformat(timespec="microseconds")


NAIVE_UTC = Exact(datetime, lambda value: _naive(value) + "Z", zoned=False)
"""Instants that the driver returns without a zone, in a session in UTC."""
_EXACT = {
    Family.TIMESTAMPTZ: Exact(datetime, _instant, zoned=True),
    Family.TIMESTAMP: Exact(datetime, _naive, zoned=False),
    Family.DATE: Exact(date, date.isoformat, zoned=False),
    Family.INTEGER: Exact(int, str),
    Family.TEXT: Exact(str, str),
}


def exact_of(column: Column) -> Exact | None:
    """Of times, dates, integers and texts in the form of sources.md, "Cursor fidelity"; None for the other families."""
    return _EXACT.get(column.family)
