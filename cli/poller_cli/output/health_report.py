"""What `poller health` shows people: one line per poller."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from poller_cli.output.status_words import COLOURS
from poller_cli.terminal.layout import columns, distinct, wrapped
from poller_cli.terminal.printing import coloured, copyable, printable

if TYPE_CHECKING:
    from poller.admin.health import Health, PollerHealth


def lines(looked: Health) -> list[str]:
    """One line per poller, the worst first: name, verdict, why, and what to do or what it waits for. On a terminal that
    is too narrow for that, it goes on beneath."""
    names, room = [one.name for one in looked.pollers], columns(sys.stdout)
    if room is not None:
        names = distinct(names, max(20, room // 4)) or names
    width = max(map(len, names), default=0)
    return [line for one, name in zip(looked.pollers, names, strict=True) for line in _lines(one, name, width, room)]


def _lines(one: PollerHealth, name: str, width: int, room: int | None) -> list[str]:
    word, colour = one.severity, COLOURS[one.severity]
    said = [each.sentence for each in one.conditions if each.severity != "well"] or [one.sentence] * (
        one.word != "idle"
    )
    if one.next_step:
        said.append(f"Next: {copyable(one.next_step)}")
    text = " ".join(said)
    head = f"{name:<{width}}  "
    hang = len(head) + 11 if room is None or room >= 70 else 4
    first, *more = wrapped(f"{head}{word:<9}  {printable(text)}".rstrip(), room, hang=hang, statement=True)
    return [first.replace(f"  {word}", f"  {coloured(word, colour, sys.stdout)}", 1), *more]
