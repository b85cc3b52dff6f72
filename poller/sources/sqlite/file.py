"""Which file a SQLite engine leads to, whether there is one, and whether a session may write to it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from poller.databases.urls import sqlite_path
from poller.errors import SourceUnavailable

_IN_MEMORY = ":memory:"
_OWN = "poller_read_only"


def is_in_memory(engine: Engine) -> bool:
    """True if the database ends with its connections."""
    shared = isinstance(engine.pool, sa.StaticPool | sa.pool.SingletonThreadPool)
    return shared or sqlite_path(engine.url) == _IN_MEMORY


def look_at_file(engine: Engine) -> tuple[int, int] | None:
    """Which file SQLite's path leads to now; None for a database without a file. Raises: SourceUnavailable.

    A file that was replaced or deleted stays readable through an open connection, and never changes again: that would
    look like no rows for ever. A missing one would be created, without the table."""
    if isinstance(engine.pool, sa.pool.StaticPool):
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


def make_read_only(connection: Connection) -> None:
    """A session of ours may not write from now on."""
    connection.exec_driver_sql("PRAGMA query_only = 1")
    connection.info[_OWN] = True


def is_own(connection: Connection) -> bool:
    """True if it was made read-only by `make_read_only`, and no other changes its settings."""
    return bool(connection.info.get(_OWN))


@contextlib.contextmanager
def lifted(connection: Connection) -> Iterator[None]:
    """A read-only session may not take the write lock, so it is lifted meanwhile. Never for a user's SQL."""
    reads = 1 if is_own(connection) else connection.exec_driver_sql("PRAGMA query_only").scalar_one()
    connection.exec_driver_sql("PRAGMA query_only = 0")
    try:
        yield
    finally:
        connection.exec_driver_sql(f"PRAGMA query_only = {reads}")
