"""Sessions on the source only read (security.md): a filter that calls `nextval`, or a function that writes, fails.

PostgreSQL, MySQL and MariaDB refuse each statement of such a session that writes; SQLite has `query_only`. SQL Server
and Oracle have nothing of that kind for a session: `ApplicationIntent=ReadOnly` only chooses a server, and Oracle's
read-only transactions keep one snapshot, where every page needs a new one. There a SELECT cannot advance a sequence in
a condition or subquery, nor call a function that writes (Oracle: unless that is autonomous), and the grants of the
poller's user are the guard.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from poller.databases.samplers import session_of

NEXT_STEP = (
    "A poller only reads: take what writes (nextval, a function that inserts, FOR UPDATE) out of `filter` and `query`."
)


def begin(connection: Connection, family: str) -> None:
    """Let a new session that is our own only read. Raises what the driver raises."""
    if family == "postgresql":
        _postgresql(connection)
    elif family == "mysql":
        connection.exec_driver_sql("SET SESSION TRANSACTION READ ONLY")
    elif family == "sqlite":
        connection.exec_driver_sql("PRAGMA query_only = 1")


@contextlib.contextmanager
def lifted(connection: Connection) -> Iterator[None]:
    """SQLite: the write lock is asked for, which a session that only reads may not have. No SQL of a user's within."""
    reads = connection.exec_driver_sql("PRAGMA query_only").scalar_one()
    connection.exec_driver_sql("PRAGMA query_only = 0")
    try:
        yield
    finally:
        connection.exec_driver_sql(f"PRAGMA query_only = {reads}")


def _postgresql(connection: Connection) -> None:
    """For the session, whatever the URL, the role or the database sets, where the session is our own. Behind a pooler
    it may be another's with the next statement, and its writes would fail: there each statement is a transaction."""
    setting = "set_config('default_transaction_read_only', 'on', false)"
    told = session_of(connection) or 0
    found = connection.exec_driver_sql(f"SELECT CASE WHEN pg_backend_pid() = {told} THEN {setting} END")
    if found.scalar() != "on":
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
