"""The console's commands, each made once: to make one takes longer than most do."""

from __future__ import annotations

import functools
from typing import Any

from poller_cli.main import build


@functools.cache
def built() -> Any:
    """In the place of `build`, where a process runs many commands."""
    root = build()
    list(root.commands.values())  # each is made, and its module imported, when it is first asked for
    return root
