"""Sessions on the source are read-only (security.md): a filter that calls `nextval`, or a function that writes, fails.

PostgreSQL, MySQL and MariaDB refuse each statement of such a session that writes; SQLite has `query_only`. SQL Server
and Oracle have no such setting for a session: `ApplicationIntent=ReadOnly` only chooses a server, and Oracle's
read-only transactions keep one snapshot, while every page needs a new one. There a SELECT cannot advance a sequence in
a condition or subquery, nor call a function that writes (Oracle: unless it is autonomous), and the privileges of the
poller's user are the guard.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from poller.databases.samplers import session_of

_EACH = "poller_each_statement"
_OWN = "poller_read_only"
NEXT_STEP = (
    "A poller only reads: remove what writes (nextval, a function that inserts, FOR UPDATE) from `filter` and `query`."
)


def begin(connection: Connection, family: str) -> None:
    """Make a new session of ours read-only. Raises what the driver raises."""
    if family == "postgresql":
        _postgresql(connection)
    elif family == "mysql":
        connection.exec_driver_sql("SET SESSION TRANSACTION READ ONLY")
    elif family == "sqlite":
        connection.exec_driver_sql("PRAGMA query_only = 1")
        connection.info[_OWN] = True


def resume(connection: Connection) -> None:
    """The same session in another connection of SQLAlchemy: behind a pooler each statement is still a transaction."""
    if connection.info.get(_EACH):
        _each_statement(connection)


def is_pooled(connection: Connection) -> bool:
    """Whether each statement is a transaction, since the next one may run in another client's session."""
    return bool(connection.info.get(_EACH))


def is_own(connection: Connection) -> bool:
    """SQLite: whether it was made read-only by `begin`, and nobody else changes its settings."""
    return bool(connection.info.get(_OWN))


@contextlib.contextmanager
def lifted(connection: Connection) -> Iterator[None]:
    """SQLite: a read-only session may not take the write lock, so it is lifted meanwhile. Never for a user's SQL."""
    reads = 1 if is_own(connection) else connection.exec_driver_sql("PRAGMA query_only").scalar_one()
    connection.exec_driver_sql("PRAGMA query_only = 0")
    try:
        yield
    finally:
        connection.exec_driver_sql(f"PRAGMA query_only = {reads}")


def _postgresql(connection: Connection) -> None:
    """For the session, whatever the URL, the role or the database sets, where the session is our own. Behind a pooler
    the next statement may run in another client's session, whose writes would fail: there each statement is a
    transaction."""
    setting = "set_config('default_transaction_read_only', 'on', false)"
    pid = session_of(connection) or 0
    found = connection.exec_driver_sql(f"SELECT CASE WHEN pg_backend_pid() = {pid} THEN {setting} END")
    if found.scalar() != "on":
        connection.info[_EACH] = True
        _each_statement(connection)


def _each_statement(connection: Connection) -> None:
    unfinished = False

    def before(_: Any, cursor: Any, *__: Any) -> None:
        nonlocal unfinished
        if unfinished:  # the last one failed
            cursor.execute("ROLLBACK")
        cursor.execute("BEGIN READ ONLY")
        unfinished = True

    def after(held: Connection, *_: Any) -> None:
        nonlocal unfinished
        with contextlib.closing(held.connection.cursor()) as other:  # this one still holds its rows
            other.execute("COMMIT")
        unfinished = False

    sa.event.listen(connection, "before_cursor_execute", before)
    sa.event.listen(connection, "after_cursor_execute", after)
