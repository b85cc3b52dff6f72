"""The console's commands, each made once for each width of a terminal: to make one takes longer than most do."""

from __future__ import annotations

import functools
import shutil
from typing import Any

from poller_cli.main import build


def built() -> Any:
    """In the place of `build`, where a process runs many commands."""
    return _at(shutil.get_terminal_size().columns)


@functools.cache  # by what `build` looks at
def _at(columns: int) -> Any:
    root = build()
    list(root.commands.values())  # each is made, and its module imported, when it is first asked for
    return root
