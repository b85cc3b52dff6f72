"""Files that commands write: whole or not at all, for their owner alone, and never over one that was not meant."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
from pathlib import Path

from poller.files import create_private


def write_whole(file: Path, text: str, *, overwrite: bool) -> None:
    """Write a file that is never seen half written, also where the process is killed meanwhile. A new one may be read
    by its owner alone; of one that is replaced the rights stay.

    A link is neither followed, since somebody else may have put it there, nor replaced, since `/dev/stdout` is one.

    Raises: FileExistsError, where it exists and is not to be replaced; OSError; ValueError (no name of a file).
    """
    if file.is_symlink():
        raise OSError(errno.ELOOP, "it is a link, and nothing is written through one: give the file that it leads to")
    part = file.with_name(f".{file.name}.{secrets.token_hex(8)}.part") if file.name else file
    try:
        write_new(part, text)
        if overwrite:
            with contextlib.suppress(FileNotFoundError):
                shutil.copymode(file, part, follow_symlinks=False)  # who may read it stays
            part.replace(file)
        else:
            _place(part, file)
    finally:
        part.unlink(missing_ok=True)


def write_new(path: Path, text: str) -> None:
    """A file of a name that nothing has. Raises: OSError, ValueError."""
    with os.fdopen(create_private(path), "w", encoding="utf-8") as out:
        out.write(text)


def _place(part: Path, file: Path) -> None:
    """Under its own name, where nothing has that. Never seen half written. Raises: FileExistsError, OSError."""
    try:
        os.link(part, file)
    except FileExistsError:
        raise
    except OSError:  # a share without hard links: its name is taken first
        os.close(create_private(file))
        part.replace(file)
