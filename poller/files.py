"""Files that hold a checkpoint or a configuration: made for their owner alone, and never through somebody's link."""

from __future__ import annotations

import os
from pathlib import Path

PRIVATE = 0o600
OTHERS = 0o077
"""The rights of everybody but the owner."""


def create_private(path: Path) -> int:
    """Make a file where nothing is, neither a file nor a link, and open it for writing; its descriptor.

    Raises: FileExistsError, OSError; ValueError (no name of a file).
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    return os.open(path, flags, PRIVATE)
