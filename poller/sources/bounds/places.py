"""Where a session of a pool leads. What a source learned on one session (types, names, the way to its bound) is true on
another one of the same place; on any other it is learned anew.

A place is the server with its start, database, user, the settings that names, texts and times depend on, and the
privileges that a session keeps from when it was opened. On databases that are not asked each session is its own place:
that is always right, and costs the learning.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from poller.databases.samplers import Reading

_POSTGRESQL = """
select coalesce(host(inet_server_addr()), 'local'), current_setting('port'), cast(pg_postmaster_start_time() as text),
       current_database(), cast(current_user as text), cast(session_user as text), pg_is_in_recovery(),
       pg_has_role(current_user, 'pg_read_all_stats', 'usage'),
       current_setting('search_path'), current_setting('TimeZone'), current_setting('DateStyle'),
       current_setting('lc_monetary'), current_setting('row_security'), current_setting('server_encoding'),
       current_setting('default_transaction_read_only')
"""
_MYSQL = (
    "select @@hostname, @@port, @@server_id, database(), current_user(), user(), version(), @@session.time_zone,"
    " @@session.sql_mode, @@session.collation_connection, @@global.read_only"
)
_STARTED = "select unix_timestamp()"
_UPTIME = "show global status like 'Uptime'"


class Place(NamedTuple):
    """Equal places are alike. `reading`: for sharing samples; None where they cannot be shared."""

    place: Hashable
    reading: Reading | None


def place_of(connection: Connection, family: str) -> Place:
    """Ask a session of a pool, once. Raises what the driver raises where the connection broke."""
    asked = {"postgresql": _postgresql, "mysql": _mysql}.get(family)
    if asked is not None:
        try:
            return asked(connection)
        except DBAPIError as error:  # a server that only has the protocol
            if error.connection_invalidated:
                raise
    return Place(object(), None)


def _postgresql(connection: Connection) -> Place:
    from poller.sources.bounds import postgresql

    reading = postgresql.reading_of(connection)
    driver: Any = connection.connection.driver_connection
    info = getattr(driver, "info", None)
    asked_for = getattr(info, "host", None), getattr(info, "port", None)
    said = tuple(connection.exec_driver_sql(_POSTGRESQL).one())
    return Place(("postgresql", asked_for, said, reading is None), reading)


def _mysql(connection: Connection) -> Place:
    from poller.sources.bounds import mysql

    mariadb = bool(getattr(connection.dialect, "is_mariadb", False))
    said = tuple(map(str, connection.exec_driver_sql(_MYSQL).one()))
    reading = mysql.reading_of(connection, mariadb=mariadb)
    if reading is not None:
        return Place(("mysql", said, reading._replace(session="")), reading)
    # Its start to about a second: where that differs by one, the same is learned twice.
    now = int(connection.exec_driver_sql(_STARTED).scalar_one())
    started = now - int(connection.exec_driver_sql(_UPTIME).one()[1])
    may = mysql.may_look(connection), mysql.may_recover(connection)
    return Place(("mysql", said, started, may), None)
