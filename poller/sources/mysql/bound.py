"""MariaDB's and MySQL's bound: sessions tracked from sample to sample (sources.md, "MySQL, MariaDB")."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from poller.databases import catalog
from poller.databases.samplers import FOUR_BYTES, ReadingConnection, SharedSampler, session_of
from poller.sources.bound import Marked, Rule
from poller.sources.mysql.look import TrackerTurns, Turn, lacking, look, sessions_statement
from poller.sources.mysql.tracked import APART, Tracked
from poller.sources.sampler import BLOCKS, Asked, Sampler, on_copy, shared
from poller.sources.user_sql import NO_TABLE, tables

_COUNTER = sa.text(
    "select auto_increment from information_schema.tables"
    " where table_schema = coalesce(:schema, database()) and table_name = :table"
)
_AUTO_COLUMN = sa.text(
    "select column_name from information_schema.columns where table_schema = coalesce(:schema, database())"
    " and table_name = :table and extra like '%auto_increment%'"
)
_SERVER = "select @@global.read_only as copies, concat_ws('/', @@hostname, @@port, @@server_id) as name"
_VARIABLES = (
    "show global variables"
    " where variable_name in ('wsrep_on', 'group_replication_group_name', 'auto_increment_increment')"
)
_PLACE = (
    "select @@hostname, @@port, @@server_id, database(), current_user(), user(), version(), @@session.time_zone,"
    " @@session.sql_mode, @@session.collation_connection, @@global.read_only"
)
_READING = (
    f"{_PLACE}, concat_ws('/', @@hostname, @@port, @@server_id, cast(unix_timestamp() - variable_value as signed))"
    " as server, current_user() as username, connection_id() as session, @@session.{reads} as only_reads"
    " from {schema}.global_status where variable_name = 'Uptime'"
)
"""The server's start is its clock less its uptime, both as of this statement's beginning: the same for every
connection."""
_MAY_LOOK = "select count(*) from information_schema.innodb_cmp"
"""Needs PROCESS, as innodb_trx does, and does not disturb other readers of that view."""
_RECOVER = "xa recover"


def sampler(asked: Asked, connection: Connection) -> Sampler | str:
    """How samples are taken on this server, or the reason (a `str`) why only a delay is left. There is one way here:
    `exact` and `auto` both mean it, and its kind is `observed`.

    Raises: SourceError on a server that is read-only, as replicas are.
    """
    o, mariadb = asked.options, bool(getattr(connection.dialect, "is_mariadb", False))
    server = connection.exec_driver_sql(_SERVER).one()
    if server.copies not in (0, "OFF", "0"):
        raise on_copy("read-only, as a replica is", o.table)
    variables = {str(name): str(value) for name, value in connection.exec_driver_sql(_VARIABLES)}
    if variables.get("wsrep_on") in ("ON", "1") or variables.get("group_replication_group_name"):
        return "in a cluster other nodes' transactions cannot be seen here"

    def make(connection: Connection) -> Tracked:
        sessions = sessions_statement(connection, mariadb=mariadb)
        with TrackerTurns().turn(connection) as got:
            if got is Turn.AFTER_ANOTHER:
                time.sleep(APART)
            first = look(connection, sessions)
        return Tracked(str(server.name), sessions, first, mariadb=mariadb, ignored=o.bound_ignore_users)

    try:
        samples = shared(asked, Tracked.kind, lambda c: here(c, mariadb=mariadb)[0], make, connection)
        tracked = samples.prepare(connection)
    except DBAPIError as error:
        privilege = lacking(error)
        if privilege is None:
            raise
        needed = "PROCESS" if mariadb else "PROCESS, XA_RECOVER_ADMIN"
        return f"the user lacks {privilege}; GRANT {needed} ON *.* makes the bound observed"
    if isinstance(tracked, Tracked) and tracked.replica:
        return "a replica thread writes here with its primary's timestamps"
    kept = engines(connection, o.schema_name, o.table, o.query)
    if kept.other is not None:
        return f"{kept.other}, whose transactions cannot be seen"
    if o.is_timed:
        unseen = "" if kept.unknown is None else f"; the engines behind {kept.unknown} are not known, InnoDB is assumed"
        reason = f"sessions tracked from sample to sample{unseen}"
        return Sampler(Rule(Tracked.kind, reason, asked.column, o.settle), samples.take, samples)
    step = variables.get("auto_increment_increment") or "1"
    return _counted(asked, samples, connection, step, mariadb=mariadb)


def _counted(
    asked: Asked, samples: SharedSampler, connection: Connection, step: str, *, mariadb: bool
) -> Sampler | str:
    """For numbers that AUTO_INCREMENT hands out; `step`: by how much the server raises them."""
    o, column = asked.options, asked.column
    names = {"schema": o.schema_name, "table": o.table}
    if o.table is None or connection.execute(_AUTO_COLUMN, names).scalar_one_or_none() != column.name:
        return f"the column {column.name} is not AUTO_INCREMENT"
    if step != "1":
        return f"the server's auto_increment_increment is {step}: {BLOCKS}"
    if not mariadb:
        connection.exec_driver_sql("set session information_schema_stats_expiry = 0")  # else it is a day old

    def take(connection: Connection) -> Marked:
        at = connection.execute(_COUNTER, names).scalar_one()  # NULL: MySQL does not know it yet
        return Marked(at or 0, samples.take(connection), at)

    reason = "the table's AUTO_INCREMENT counter; sessions tracked from sample to sample"
    return Sampler(Rule(Tracked.kind, reason, column, o.extra_delay, "counts"), take, samples)


def may_look(connection: Connection) -> bool:
    """True if this session may see all open transactions. Raises what the driver raises where the connection broke."""
    return _may(connection, _MAY_LOOK)


def may_recover(connection: Connection) -> bool:
    """True if this session may see prepared transactions. Raises as `may_look`."""
    return _may(connection, _RECOVER)


def _may(connection: Connection, sql: str) -> bool:
    try:
        connection.exec_driver_sql(sql).close()
    except DBAPIError as error:
        if error.connection_invalidated:
            raise
        return False
    return True


def here(connection: Connection, *, mariadb: bool) -> tuple[ReadingConnection | None, tuple[str, ...]]:
    """This connection, for sharing samples, of all databases alike, and what the server says of where it leads. Raises
    what the driver raises."""
    names = ("information_schema", "tx_read_only") if mariadb else ("performance_schema", "transaction_read_only")
    row = None
    try:
        row = connection.exec_driver_sql(_READING.format(schema=names[0], reads=names[1])).one_or_none()
    except DBAPIError as error:
        if error.connection_invalidated:
            raise
    if row is None:
        return None, tuple(map(str, connection.exec_driver_sql(_PLACE).one()))
    return _reading(connection, row), tuple(map(str, row[:-4]))


def _reading(connection: Connection, row: Any) -> ReadingConnection | None:
    """None if it may lead to another server than
    before (behind a proxy the driver's number of the session differs from the server's), could write, or lacks the
    privilege: privileges are fixed when a connection opens, and without PROCESS the server would look idle.

    Two servers in containers may have the same host name, port and number, and have started in the same second: so the
    address is part of it as well."""
    if not (may_look(connection) and may_recover(connection)):
        return None
    session = session_of(connection)
    if not row.only_reads or session is None:
        return None
    if session % FOUR_BYTES != row.session % FOUR_BYTES:  # drivers know no more of it
        return None
    url = connection.engine.url
    address = f"{url.host}:{url.port}{url.query.get('unix_socket', '')}"
    return ReadingConnection(f"{address}/{row.server}", "", row.username, str(row.session))


ABOUT = sa.text("""
select table_type as kind, engine, (select view_definition from information_schema.views
         where table_schema = coalesce(:schema, database()) and table_name = :name) as definition
  from information_schema.tables where table_schema = coalesce(:schema, database()) and table_name = :name
""")


@dataclass(frozen=True, slots=True)
class Engines:
    """What holds the rows.

    Attributes:
        other: a table whose engine is not InnoDB, and the engine, in words; None if there is none.
        unknown: what could not be inspected, in words; None where everything could.
    """

    other: str | None = None
    unknown: str | None = None


def engines(connection: Connection, schema: str | None, table: str | None, query: str | None) -> Engines:
    """Look through views and queries down to the tables. Raises what the driver raises."""
    unknown: str | None = None
    waiting = [(schema, table)] if table is not None else tables(query or "", schema, "mysql")
    if waiting is None:
        return Engines(unknown="the query")
    if not waiting:
        return Engines(other=NO_TABLE)
    known = set(waiting)
    while waiting:
        database, name = waiting.pop()
        rows = catalog.rows(connection, ABOUT, {"schema": database, "name": name})
        row = rows[0] if rows else None
        if row is None:
            unknown = name
        elif row.engine is not None and row.engine.lower() != "innodb":
            whose = "the table's engine" if name == table else f"the engine of {name}"
            return Engines(other=f"{whose} is {row.engine}")
        elif "VIEW" in row.kind.upper():
            below = tables(row.definition, database, "mysql") if row.definition else None
            if below is None:
                unknown = name
            for one in set(below or ()) - known:
                known.add(one)
                waiting.append(one)
    return Engines(unknown=unknown)
