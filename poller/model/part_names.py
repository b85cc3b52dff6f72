"""Names of the parts of a backfill, each with a state document, such as `replay-2of3`; and how one says its end."""

from __future__ import annotations

import re

MOST_PARTS = 32
FINISHED = "backfill_finished_at"
"""The key in a checkpoint's metadata that says that every row was delivered, and when."""
_PART = re.compile(r"-(\d{1,2})of(\d{1,2})$")


def part_suffix(part: int, count: int) -> str:
    """What a part's name ends with."""
    return f"-{part}of{count}"


def part_of(name: str) -> tuple[int, int] | None:
    """Which part of how many a name ends with; None for one that is whole."""
    found = _PART.search(name)
    return (int(found[1]), int(found[2])) if found else None


def base(name: str) -> str:
    """A backfill's name, without the part's number."""
    return _PART.sub("", name)
