"""What moving a checkpoint does to rows: how many come again, how many never come. Counted by the database, up to a
cap and within the source's `query_timeout`; where it cannot be counted, the worse is assumed."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

from pydantic import ConfigDict, Field

from poller.admin.counts import counted
from poller.admin.counts import rows as rows_of
from poller.errors import SourceError
from poller.model.cursor import Cursor
from poller.model.result import ResultModel
from poller.ports import Bound, InspectableSource, Source

_T = TypeVar("_T")

BACK, SAME, FORWARD = -1, 0, 1
UNCOUNTED = "the source does not count rows"
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d(:?\d\d)?)?")


class Effect(ResultModel):
    """What a moved checkpoint does to rows."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)

    redelivered: int | None = 0
    """Rows that come again; null if they were not counted."""
    skipped: int | None = 0
    """Rows that will never be delivered; null if they were not counted."""
    capped: bool = False
    """There are at least so many."""
    open_ended: bool = False
    """Rows that are yet to appear may be skipped too: the new cursor is not below the bound."""
    not_counted: str | None = None
    """Why rows were not counted."""
    unknown: bool = Field(default=False, exclude=True)
    """It is not known that the move does not skip anything."""

    @property
    def skips(self) -> bool:
        """True if rows may be left undelivered."""
        return bool(self.skipped) or self.open_ended or self.unknown

    def lines(self) -> list[str]:
        """For people."""
        lines = []
        if self.redelivered:
            lines.append(f"{rows_of(self.redelivered, self.capped)} will be delivered again")
        if self.skipped:
            lines.append(f"{rows_of(self.skipped, self.capped)} will never be delivered")
        if self.open_ended:
            lines.append(
                "later rows up to the new cursor will never be delivered either"
                if self.skipped
                else "rows that appear up to the new cursor will never be delivered"
            )
        if self.not_counted is not None:
            lines.append(f"not counted: {self.not_counted}")
        if self.unknown:
            lines.append("rows may be skipped")
        return lines or ["no row is delivered again, none is skipped"]


NOTHING = Effect()


def measure(source: Source, before: Cursor | None, after: Cursor | None, *, foreign: bool = False) -> Effect:
    """What moving from `before` to `after` does to the rows of this source (None: the beginning). Raises nothing.

    `foreign`: `before` belongs to another source, so that nothing lies between the two.
    """
    if before == after and not foreign:
        return NOTHING
    way = BACK if after is None else None if foreign else direction(before, after)
    if way == SAME:
        return NOTHING
    if foreign:
        return uncounted("the checkpoint belongs to another source", way)

    def asked(source: InspectableSource) -> Effect:
        # Both ways, whatever the texts say: the database knows its order, and the wrong way round is an empty range.
        again, capped = counted(lambda cap: source.count_between(after, before, cap=cap))
        ahead, many = counted(lambda cap: source.count_between(before, after, cap=cap))
        risky = way != BACK and not again  # rows that wait there already do not say that no more will come
        open_ended = risky and not _below(source.bound(), after)
        return Effect(redelivered=again, skipped=ahead, capped=capped or many, open_ended=open_ended)

    if not isinstance(source, InspectableSource):  # nor is its order known
        way = BACK if after is None else None
    found = _asked(source, asked)
    return uncounted(found, way) if isinstance(found, str) else found


def of_first(source: Source, after: Cursor | None) -> Effect:
    """What a poller's first checkpoint does: what stands up to it was delivered elsewhere, but what is yet to appear
    there never will be. Raises nothing."""
    bound = _asked(source, lambda asked: asked.bound())
    if isinstance(bound, str):
        return uncounted(bound, None)
    return Effect(open_ended=bound.value is not None and not _below(bound, after))


def _asked(source: Source, question: Callable[[InspectableSource], _T]) -> _T | str:
    """What a source answers; or why it does not."""
    if not isinstance(source, InspectableSource):
        return UNCOUNTED
    try:
        return question(source)
    except SourceError as error:
        return error.message.rstrip(".")
    except OverflowError:
        return "a value is out of the column's range"


def direction(before: Cursor | None, after: Cursor | None) -> int | None:
    """Which way `after` lies from `before`, by their texts; None where these do not show it."""
    if before == after:
        return SAME
    if before is None or after is None:
        return FORWARD if before is None else BACK
    way = _compare(before.value, after.value)
    if way != SAME:
        return way
    if before.tiebreaker is None or after.tiebreaker is None:
        return FORWARD if before.tiebreaker is None else BACK
    pairs = [(before.tiebreaker.get(name), value) for name, value in after.tiebreaker.items()]
    for one, other in pairs:
        if not isinstance(one, int) or not isinstance(other, int):
            return None  # how text compares is the database's business
        if one != other:
            return FORWARD if other > one else BACK
    return SAME


def _compare(one: str, other: str) -> int | None:
    if one == other:
        return SAME
    for infinity, way in (("-infinity", FORWARD), ("infinity", BACK)):
        if one == infinity or other == infinity:
            return way if one == infinity else -way
    if one.lstrip("-").isdigit() and other.lstrip("-").isdigit():
        try:
            return FORWARD if int(other) > int(one) else BACK
        except ValueError:
            return None
    if _MOMENT.fullmatch(one) and _MOMENT.fullmatch(other):
        alike = (one[10], one[19:20], one[-1]) == (other[10], other[19:20], other[-1])
        if alike and len(one) == len(other) and (one[-1] == "Z" or "+" not in one + other):
            return FORWARD if other > one else BACK
        try:
            first, second = datetime.fromisoformat(one), datetime.fromisoformat(other)
            return None if first == second else FORWARD if second > first else BACK
        except (ValueError, TypeError):
            return None
    if len(one) == len(other) and all(c in "0123456789abcdef" for c in one + other):
        return FORWARD if other > one else BACK  # a rowversion
    return None


def _below(bound: Bound, cursor: Cursor | None) -> bool:
    """True if no row can appear up to `cursor` any more: it lies below what open transactions may still write."""
    if cursor is None or bound.value is None:
        return cursor is None
    return _compare(cursor.value, bound.value) in ((FORWARD, SAME) if bound.inclusive else (FORWARD,))


def uncounted(why: str, way: int | None) -> Effect:
    """The effect of a move in this direction, if the database does not say."""
    if way == BACK:
        return Effect(redelivered=None, skipped=0, not_counted=why)
    return Effect(redelivered=None, skipped=None, not_counted=why, unknown=True)


def rows_up_to(source: Source, cursor: Cursor | None) -> str:
    """The number of rows up to a cursor, for people. Raises nothing."""
    found = _asked(source, lambda asked: counted(lambda cap: asked.count_between(None, cursor, cap=cap)))
    return f"rows (not counted: {found})" if isinstance(found, str) else rows_of(*found)
