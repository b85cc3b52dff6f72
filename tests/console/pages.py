"""The console's help pages: the words of `poller help`, and the files that hold them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from poller_cli.main import build

SCREENS = Path(__file__).parent / "screens"


def commands(group: Any, *words: str) -> Iterator[tuple[str, ...]]:
    """The words of a group and of all commands in it."""
    yield words
    for name, command in getattr(group, "commands", {}).items():
        yield from commands(command, *words, name)


COMMANDS = list(commands(build()))
PAGES = [*COMMANDS, ("changes",)]
"""Each page that `poller help` has."""


def file_of(words: tuple[str, ...]) -> str:
    """The name of a page's file in `screens`."""
    return f"help/{'-'.join(words) or 'poller'}"
