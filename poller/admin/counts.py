"""Numbers of rows for people: everywhere in the same words, and counted up to the same number before a change."""

from __future__ import annotations

from collections.abc import Callable

from poller.errors import SourceUnavailable
from poller.tick.watches import PENDING_CAP

COUNTED = 1_000_000
"""Before a change, rows are counted up to here, if the database does that within `query_timeout`."""


def number(count: int, capped: bool = False) -> str:
    """`3`, or `10,000 or more`."""
    return f"{count:,}{' or more' * capped}"


def rows(count: int, capped: bool = False) -> str:
    """`1 row`, `3 rows`, `10,000 or more rows`."""
    return f"{number(count, capped)} row{'' if count == 1 and not capped else 's'}"


def counted(count: Callable[[int], tuple[int, bool]]) -> tuple[int, bool]:
    """What `count` says of a cap: of `COUNTED`, or of a lower one where that takes the database too long.

    Raises: SourceError.
    """
    try:
        return count(COUNTED)
    except SourceUnavailable:
        return count(PENDING_CAP)
