"""What the console says of failing rows beside the picture of their poller."""

from __future__ import annotations

from collections.abc import Sequence

from poller.admin.counts import rows
from poller.tick.result import TickResult


def what_to_do(words: Sequence[str]) -> str:
    """What comes before such a command."""
    if words[1] == "list":
        return "Look at them"
    return "If every row fails, wait; else fix it, or set the row aside"


def left_behind(result: TickResult) -> str:
    """The rows that wait although none is left to deliver; empty if none does."""
    aside, person = result.aside or 0, result.quarantined or 0
    said = [f"{rows(aside)} set aside, tried again automatically"] if aside else []
    if person:
        said.append(f"{rows(person)} for a person to look at")
    return "; ".join(said)
