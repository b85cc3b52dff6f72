"""The console's commands, made once for each width of a terminal: to make all of them takes longer than most do."""

from __future__ import annotations

import functools
import shutil
from typing import Any

import typer.main

from poller_cli.main import build


def built() -> Any:
    """In the place of `build`, where a process runs many commands."""
    return _at(shutil.get_terminal_size().columns)


@functools.cache  # by what `build` looks at
def _at(columns: int) -> Any:
    return typer.main.get_command(build())
