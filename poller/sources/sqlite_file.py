"""Which file a SQLite engine leads to, and whether there is one."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from poller.errors import SourceUnavailable
from poller.sources.identity import sqlite_path

_IN_MEMORY = ":memory:"


def is_in_memory(engine: Engine) -> bool:
    """Whether it is a SQLite database that ends with its connections: the program's own connections are then used, with
    their right to write. Any other connection is detached from the engine's pool."""
    if engine.dialect.name != "sqlite":
        return False
    shared = isinstance(engine.pool, sa.StaticPool | sa.pool.SingletonThreadPool)
    return shared or sqlite_path(engine.url) == _IN_MEMORY


def look_at_file(engine: Engine) -> tuple[int, int] | None:
    """Which file SQLite's path leads to now; None for a database without a file. Raises: SourceUnavailable.

    A file that was replaced or deleted stays readable through an open connection, and never changes again: that would
    look like no rows for ever. A missing one would be created, without the table."""
    if engine.dialect.name != "sqlite" or isinstance(engine.pool, sa.pool.StaticPool):
        return None
    path = sqlite_path(engine.url)
    if path == _IN_MEMORY:
        return None
    try:
        found = Path(path).stat()
    except OSError:
        raise SourceUnavailable(
            f"There is no SQLite database file {path}.", next_step="Check the path in `url`."
        ) from None
    return found.st_dev, found.st_ino
