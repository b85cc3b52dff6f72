"""Files that commands write: whole or not at all, and never over one that was not meant."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(file: Path, text: str, *, overwrite: bool) -> None:
    """Write a file that is never seen half written, also where the process is killed meanwhile.

    Raises: FileExistsError, where it exists and is not to be replaced; OSError; ValueError (no name of a file).
    """
    part = file.with_name(f".{file.name}.{os.getpid()}.part") if file.name else file
    part.write_text(text, encoding="utf-8")
    try:
        if overwrite:
            part.replace(file)
        else:
            _place(part, file)
    finally:
        part.unlink(missing_ok=True)


def _place(part: Path, file: Path) -> None:
    """Under its own name, where nothing has that. Never seen half written. Raises: FileExistsError, OSError."""
    try:
        os.link(part, file)
    except FileExistsError:
        raise
    except OSError:  # a share without hard links: its name is taken first
        file.touch(exist_ok=False)
        part.replace(file)
