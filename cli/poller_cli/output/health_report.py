"""What `poller health` shows people: one line per poller."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from poller_cli.terminal.printing import coloured, copyable, printable

if TYPE_CHECKING:
    from poller.admin.health import Health, PollerHealth


def lines(looked: Health) -> list[str]:
    """One line per poller, the worst first: name, verdict, why, and what to do or what it waits for."""
    width = max(len(one.name) for one in looked.pollers) if looked.pollers else 0
    return [_line(one, width) for one in looked.pollers]


def _line(one: PollerHealth, width: int) -> str:
    word = coloured("healthy  ", "green", sys.stdout) if one.healthy else coloured("unhealthy", "red", sys.stdout)
    parts = [one.reason or ""]
    if one.error and one.error != one.reason:
        parts.append(one.error)
    if one.next_step:
        parts.append(f"Next: {copyable(one.next_step)}")
    if one.waiting_for and one.healthy:
        parts.append(f"Waits for {one.waiting_for}.")
    text = " ".join(part for part in parts if part)
    return f"{one.name:<{width}}  {word}  {printable(text)}".rstrip()
