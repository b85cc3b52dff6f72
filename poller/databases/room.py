"""The connections that a database server takes, of all users, of one user, and to one database, and those that are
open.

PostgreSQL: `max_connections` less what is reserved, a role's and a database's CONNECTION LIMIT. MySQL and MariaDB:
`max_connections` and `max_user_connections`. No other server is asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from poller.databases.errors import codes

Scope: TypeAlias = Literal["server", "user", "database"]

_POSTGRESQL = """
SELECT CAST(current_setting('max_connections') AS integer)
       - CAST(current_setting('superuser_reserved_connections') AS integer)
       - CAST(coalesce(current_setting('reserved_connections', true), '0') AS integer),
       (SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user),
       (SELECT datconnlimit FROM pg_database WHERE datname = current_database()),
       count(*), count(*) FILTER (WHERE usename = current_user), count(*) FILTER (WHERE datname = current_database())
  FROM pg_stat_activity WHERE datid IS NOT NULL AND coalesce(backend_type, 'client backend') = 'client backend'
"""
"""Who may not see another session's `backend_type` sees that it is there."""
_MYSQL = "SELECT @@global.max_connections, @@session.max_user_connections"
_MYSQL_IN_USE = "SHOW GLOBAL STATUS LIKE 'Threads_connected'"
_MYSQL_OF_USER = "SELECT COUNT(*) FROM information_schema.processlist WHERE user = SUBSTRING_INDEX(USER(), '@', 1)"
_REFUSED: tuple[tuple[str, Scope], ...] = (
    ("connections for role", "user"),
    ("connections for database", "database"),
    ("too many clients already", "server"),
    ("remaining connection slots", "server"),
    ("no more connections allowed", "server"),  # PgBouncer
)
"""psycopg gives no SQLSTATE where no connection was made."""
_NUMBERS: dict[int | None, Scope] = {1040: "server", 1203: "user", 1226: "user"}


@dataclass(frozen=True, slots=True)
class Room:
    """`most`: so many connections may be open; `in_use`: so many are, this one and other processes' included."""

    most: int
    in_use: int


def room_of(connection: Connection, family: str) -> dict[Scope, Room]:
    """Ask the server; empty if it does not say. Raises: what the driver raises where the connection broke."""
    ask = {"postgresql": _postgresql, "mysql": _mysql}.get(family)
    try:
        return {} if ask is None else ask(connection)
    except DBAPIError as refused:
        if refused.connection_invalidated:
            raise
        return {}  # a server that only has the protocol


def refused_for_room(error: BaseException) -> Scope | None:
    """For which of them a server made no connection; None if it refused for another reason."""
    original: Any = getattr(error, "orig", None)
    if original is None:
        return None
    state, number = codes(original)
    if number in _NUMBERS:
        return _NUMBERS[number]
    said = str(original)
    return next((scope for text, scope in _REFUSED if text in said), "server" if state == "53300" else None)


def _postgresql(connection: Connection) -> dict[Scope, Room]:
    most, of_user, of_database, *in_use = connection.exec_driver_sql(_POSTGRESQL).one()
    limits: tuple[tuple[Scope, Any], ...] = ("server", most), ("user", of_user), ("database", of_database)
    return {
        scope: Room(int(limit), int(used))
        for (scope, limit), used in zip(limits, in_use, strict=True)
        if limit is not None and int(limit) >= 0
    }


def _mysql(connection: Connection) -> dict[Scope, Room]:
    most, of_user = map(int, connection.exec_driver_sql(_MYSQL).one())
    found: dict[Scope, Room] = {"server": Room(most, int(connection.exec_driver_sql(_MYSQL_IN_USE).one()[1]))}
    if of_user:
        found["user"] = Room(of_user, int(connection.exec_driver_sql(_MYSQL_OF_USER).scalar_one()))
    return found
