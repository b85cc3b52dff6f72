"""A range of a table, from one value of the cursor column up to another: how it is cut, and a source of its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from poller.admin.counts import COUNTED, counted
from poller.admin.effects import BACK, direction
from poller.errors import SourceError
from poller.model.cursor import Cursor, KeyValue
from poller.model.fingerprint import SourceDescription
from poller.ports import Bound, Lag, Page, Row, Source, Table
from poller.sources import SqlSource

WORTH_CUTTING = 1_000
"""A part of fewer rows is not cut again, however empty the others are."""
UNLIMITED = 2**31 - 2
"""A cap that no count reaches within a `query_timeout`; one more is still a limit for every database."""


@dataclass(frozen=True, slots=True)
class Range:
    """From `low`, which is in it, to `high`, which is not: without a tiebreaker both mean "at or after". Where rows of
    one value were cut by their keys, it begins behind the row that `low` names, and ends with the one of `high`."""

    low: Cursor
    high: Cursor

    def split(self, source: SqlSource, count: int) -> list[Range]:
        """Up to `count` ranges of the same width that make up this one, one after the other; always the same ones.

        Raises: ValueError, if the ends are neither times nor numbers; SourceError.
        """
        middle = _between(self.low.value, self.high.value, count)
        points = [self.low, *(source.parse_cursor(text, None) for text in middle), self.high]
        distinct = list(dict.fromkeys(point.value for point in points))  # a coarse column writes some alike
        return [
            Range(self.low.model_copy(update={"value": low}), self.low.model_copy(update={"value": high}))
            for low, high in pairwise(distinct)
        ]

    def split_by_rows(self, source: SqlSource, count: int) -> list[Range] | None:
        """Up to `count` ranges of about as many rows each, cut between any two rows, those of one value too; None where
        the database does not count them within its `query_timeout`."""
        try:
            total, _ = source.count_between(self.low, self.high, cap=UNLIMITED)
            ends: list[Cursor] = []
            done = 0
            for part in range(1, count):
                upto = total * part // count
                if upto > done:
                    cut = source.cursor_at(ends[-1] if ends else self.low, self.high, upto - done)
                    if cut is None:
                        break
                    ends.append(cut)
                    done = upto
        except SourceError:
            return None
        return self.cut(ends)

    def cut(self, ends: Sequence[Cursor]) -> list[Range]:
        """The ranges up to each of these, and up to the end."""
        return [Range(low, high) for low, high in pairwise([self.low, *ends, self.high])]

    def parts(self, source: SqlSource, count: int) -> list[Range]:
        """Ranges of the same width; of about as many rows each where most rows would be in one of those, as after a
        bulk load. Raises: as `split`."""
        alike = self.split(source, count)
        try:
            counts = [source.count_between(one.low, one.high, cap=COUNTED)[0] for one in alike]
        except SourceError:
            return alike
        if max(counts) < WORTH_CUTTING or max(counts) * count <= 2 * sum(counts):
            return alike
        return self.split_by_rows(source, count) or alike

    @property
    def words(self) -> str:
        """For people."""
        if self.low.tiebreaker is None and self.high.tiebreaker is None:
            return f"from {self.low.value} to {self.high.value}"
        return in_words(self.low.value, self.low.tiebreaker, self.high.value, self.high.tiebreaker)

    def described(self) -> dict[str, Any]:
        """What a source's description says of it; the keys only where it is cut by them."""
        keys = {"from_key": self.low.tiebreaker, "to_key": self.high.tiebreaker}
        ends: dict[str, Any] = {"from": self.low.value, "to": self.high.value}
        return ends | {name: key for name, key in keys.items() if key is not None}


def in_words(
    begins: str, begins_key: Mapping[str, KeyValue] | None, ends: str, ends_key: Mapping[str, KeyValue] | None
) -> str:
    """A range for people: from a value or after a row, up to a value or a row."""
    first = f"from {begins}" if begins_key is None else f"after {begins} / {_named(begins_key)}"
    return first + (f", up to but not including {ends}" if ends_key is None else f", up to {ends} / {_named(ends_key)}")


def _named(key: Mapping[str, KeyValue]) -> str:
    return ", ".join(f"{name}={value}" for name, value in key.items())


def _between(low: str, high: str, count: int) -> list[str]:
    if low.lstrip("-").isdigit() and high.lstrip("-").isdigit():
        first, last = int(low), int(high)
        return [str(first + (last - first) * i // count) for i in range(1, count)]
    begin, end = datetime.fromisoformat(low), datetime.fromisoformat(high)
    if (begin.tzinfo is None) != (end.tzinfo is None):
        raise ValueError("one end has a time zone and the other has none")
    return [(begin + (end - begin) * i / count).isoformat() for i in range(1, count)]


class RangeSource(Source):
    """The rows of a range. A source (`poller.ports.Source`) whose description holds the range: its checkpoint belongs
    to this range and to no other. Row keys are those of the whole source.

    Attributes:
        bound: below what rows were read last; None before the first page.
    """

    can_order = True

    def __init__(self, whole: SqlSource, part: Range) -> None:
        self._whole = whole
        self._part = part
        self.bound: Bound | None = None

    @property
    def ordering_key(self) -> tuple[str, ...]:
        """See `poller.ports.Source`."""
        return self._whole.ordering_key

    @ordering_key.setter
    def ordering_key(self, columns: tuple[str, ...]) -> None:
        self._whole.ordering_key = columns

    @property
    def exact(self) -> bool:
        """See `poller.ports.Source`."""
        return self._whole.exact

    @exact.setter
    def exact(self, wanted: bool) -> None:
        self._whole.exact = wanted

    @property
    def query_timeout(self) -> timedelta:
        """As of the whole source."""
        return self._whole.query_timeout

    def describe(self) -> SourceDescription:
        """See `poller.ports.Source.describe`."""
        return self._whole.describe().extended(**self._part.described())

    def start(self) -> Cursor | None:
        """See `poller.ports.Source.start`."""
        return self._part.low

    def page(self, after: Cursor | None, limit: int, *, lag_cap: int | None = None) -> Page:  # noqa: ARG002
        """See `poller.ports.Source.page`. The beginning of this source is the beginning of the range."""
        page = self._whole.page(after or self._part.low, limit, until=self._part.high)
        self.bound = page.bound
        return page

    def next_page(self, after: Cursor | None, limit: int, *, lag_cap: int | None = None) -> Page:  # noqa: ARG002
        """See `poller.ports.Source.next_page`."""
        page = self._whole.next_page(after or self._part.low, limit, until=self._part.high)
        self.bound = page.bound
        return page

    def facts(self) -> dict[str, Any] | None:
        """As of the whole source."""
        return self._whole.facts()

    def rests_on(self, facts: Mapping[str, Any] | None) -> None:
        """As of the whole source. A tie that begins again may begin before the range: rows of it come once more."""
        self._whole.rests_on(facts)

    def dated(self, cursor: Cursor) -> datetime | None:
        """As of the whole source."""
        return self._whole.dated(cursor)

    def table_of(self, rows: Sequence[Row]) -> Table | None:
        """As of the whole source."""
        return self._whole.table_of(rows)

    def lag(self, after: Cursor | None, *, cap: int) -> Lag:
        """See `poller.ports.Source.lag`. A range of the past is not behind anything: only the rows are counted."""
        count, capped = self._whole.count_between(after or self._part.low, self._part.high, cap=cap)
        return Lag(seconds=None, pending=count, pending_capped=capped)

    def count_between(self, low: Cursor | None, high: Cursor | None, *, cap: int) -> tuple[int, bool]:
        """Rows of the range between two cursors, and whether `cap` cut the count. Raises: as `lag`."""
        return self._whole.count_between(low or self._part.low, high or self._part.high, cap=cap)

    def span(self, low: Cursor | None, high: Cursor | None, limit: int) -> Page:
        """See `poller.ports.Source.span`."""
        return self._whole.span(low or self._part.low, high or self._part.high, limit)

    def row_of(self, pk: Mapping[str, str]) -> Page:
        """See `poller.tick.current_row`: empty also for a row that lies outside of the range."""
        page = self._whole.row_of(pk)
        return page if all(map(self._holds, page.cursors)) else replace(page, rows=(), cursors=(), ordering=None)

    def _holds(self, cursor: Cursor) -> bool:
        """True if a row of the table is one of the range, by the database's order."""
        behind, _ = self._whole.count_between(self._part.low, cursor, cap=1)
        beyond, _ = self._whole.count_between(self._part.high, cursor, cap=1)
        return behind > 0 and beyond == 0

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
        """True if no row can appear in the range any more, by what the last page was read below."""
        return self.bound is not None and is_settled(self.bound, self._part.high)


def is_settled(bound: Bound, high: Cursor) -> bool:
    """True if every row below `high` may be read already. Without any bound it is not known, and taken as so."""
    if bound.kind == "none":
        return True
    if bound.value is None:
        return False
    value = bound.value
    if bound.inclusive and value.lstrip("-").isdigit():
        value = str(int(value) + 1)
    return direction(high, Cursor(kind=high.kind, value=value)) not in (None, BACK)


def pending(source: SqlSource, after: Cursor | None, part: Range) -> tuple[int, bool] | None:
    """Rows of the range after a cursor, and whether there are more; None if the database does not count them."""
    try:
        return counted(lambda cap: source.count_between(after or part.low, part.high, cap=cap))
    except SourceError:
        return None
