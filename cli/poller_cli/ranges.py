"""Part of a table, from one value of the cursor column up to another, as a source of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from poller.errors import SourceError
from poller.model.cursor import Cursor
from poller.model.fingerprint import SourceDescription
from poller.ports import Bound, Lag, Page, Row
from poller.sources import SqlSource
from poller_cli.effects import BACK, direction


@dataclass(frozen=True, slots=True)
class Range:
    """From `low`, which is in it, to `high`, which is not. Neither has a tiebreaker: both mean "at or after"."""

    low: Cursor
    high: Cursor

    def split(self, source: SqlSource, count: int) -> list[Range]:
        """Up to `count` ranges of the same width that make up this one, one after the other; always the same ones.

        Raises: ValueError, where the ends are neither times nor numbers; SourceError.
        """
        middle = _between(self.low.value, self.high.value, count)
        points = [self.low, *(source.parse_cursor(text, None) for text in middle), self.high]
        distinct = list(dict.fromkeys(point.value for point in points))  # a coarse column writes some alike
        return [
            Range(self.low.model_copy(update={"value": low}), self.low.model_copy(update={"value": high}))
            for low, high in pairwise(distinct)
        ]


def _between(low: str, high: str, count: int) -> list[str]:
    if low.lstrip("-").isdigit() and high.lstrip("-").isdigit():
        first, last = int(low), int(high)
        return [str(first + (last - first) * i // count) for i in range(1, count)]
    begin, end = datetime.fromisoformat(low), datetime.fromisoformat(high)
    if (begin.tzinfo is None) != (end.tzinfo is None):
        raise ValueError("one end has a time zone and the other has none")
    return [(begin + (end - begin) * i / count).isoformat() for i in range(1, count)]


class RangeSource:
    """The rows of a range. A source (`poller.ports.Source`) whose description holds the range: its checkpoint belongs
    to this range and to no other. Row keys are those of the whole source.

    Attributes:
        bound: below what rows were read last; None before the first page.
    """

    def __init__(self, whole: SqlSource, part: Range) -> None:
        self._whole = whole
        self._part = part
        self.bound: Bound | None = None

    @property
    def query_timeout(self) -> timedelta:
        """As of the whole source."""
        return self._whole.query_timeout

    def describe(self) -> SourceDescription:
        """See `poller.ports.Source.describe`."""
        told = self._whole.describe().model_dump()
        return SourceDescription.model_validate({**told, "from": self._part.low.value, "to": self._part.high.value})

    def start(self) -> Cursor | None:
        """See `poller.ports.Source.start`."""
        return self._part.low

    def page(self, after: Cursor | None, limit: int) -> Page:
        """See `poller.ports.Source.page`. The beginning of this source is the beginning of the range."""
        page = self._whole.page(after or self._part.low, limit, until=self._part.high)
        self.bound = page.bound
        return page

    def lag(self, after: Cursor | None, *, cap: int) -> Lag:
        """See `poller.ports.Source.lag`. A range of the past is not behind anything: only the rows are counted."""
        count, capped = self._whole.count_between(after or self._part.low, self._part.high, cap=cap)
        return Lag(seconds=None, pending=count, pending_capped=capped)

    def count_between(self, low: Cursor | None, high: Cursor | None, *, cap: int) -> tuple[int, bool]:
        """Rows of the range between two cursors, and whether `cap` cut the count. Raises: as `lag`."""
        return self._whole.count_between(low or self._part.low, high or self._part.high, cap=cap)

    def key(self, row: Row, cursor: Cursor) -> str:
        """See `poller.ports.Source.key`."""
        return self._whole.key(row, cursor)

    def remember(self) -> dict[str, Any] | None:
        """See `poller.ports.Source.remember`."""
        return self._whole.remember()

    def recall(self, memory: Mapping[str, Any]) -> None:
        """See `poller.ports.Source.recall`."""
        self._whole.recall(memory)

    def close(self) -> None:
        """See `poller.ports.Source.close`."""
        self._whole.close()

    def settled(self) -> bool:
        """Whether no row can appear in the range any more, by what the last page was read below."""
        return self.bound is not None and is_settled(self.bound, self._part.high)


def is_settled(bound: Bound, high: Cursor) -> bool:
    """Whether every row below `high` may be read already. Without any bound nobody can tell; it is taken as so."""
    if bound.kind == "none":
        return True
    if bound.value is None:
        return False
    value = bound.value
    if bound.inclusive and value.lstrip("-").isdigit():
        value = str(int(value) + 1)
    return direction(high, Cursor(kind=high.kind, value=value)) not in (None, BACK)


def pending(source: SqlSource, after: Cursor | None, part: Range, *, cap: int) -> tuple[int, bool] | None:
    """Rows of the range after a cursor, and whether `cap` cut the count; None where the database does not tell."""
    try:
        return source.count_between(after or part.low, part.high, cap=cap)
    except SourceError:
        return None
