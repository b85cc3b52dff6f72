"""Files that hold a checkpoint or a configuration: whole or not at all, for their owner alone, never through a link."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
from pathlib import Path

PRIVATE = 0o600
OTHERS = 0o077
"""The permission bits of all others than the owner."""


def create_private(path: Path) -> int:
    """Make a file where nothing is, neither a file nor a link, and open it for writing; its descriptor.

    Raises: FileExistsError, OSError; ValueError (not a file name).
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    return os.open(path, flags, PRIVATE)


def write_whole(file: Path, text: str | bytes, *, overwrite: bool) -> None:
    """Write a file that is never seen half written, also where the process is killed meanwhile. A new one may be read
    by its owner alone; one that is replaced keeps its rights.

    A link is neither followed, since another user may have put it there, nor replaced, since `/dev/stdout` is one.

    Raises: FileExistsError, if it exists and is not to be replaced; OSError; ValueError (not a file name).
    """
    if file.is_symlink():
        raise OSError(errno.ELOOP, "it is a link, and nothing is written through one: give the file that it leads to")
    if overwrite and file.exists() and not (file.is_file() or file.is_dir()):
        raise OSError(errno.EINVAL, "it is a device, pipe or socket, and would be replaced")
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


def write_new(path: Path, text: str | bytes) -> None:
    """Write a file where nothing is. Raises: as `create_private`."""
    with os.fdopen(create_private(path), "wb") as out:
        out.write(text.encode() if isinstance(text, str) else text)


def _place(part: Path, file: Path) -> None:
    """Under its own name, where nothing has that. Never seen half written. Raises: FileExistsError, OSError."""
    try:
        os.link(part, file)
    except FileExistsError:
        raise
    except OSError:  # a share without hard links: its name is taken first
        os.close(create_private(file))
        part.replace(file)
