"""MySQL and MariaDB: two ranges, sessions in UTC, every page in autocommit."""

from __future__ import annotations

import contextlib
import decimal
import importlib
import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, timedelta
from typing import Any, ClassVar

import sqlalchemy as sa
from sqlalchemy.dialects import mysql
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from poller.databases import urls
from poller.databases.errors import codes
from poller.sources.columns import NAIVE_UTC, CursorColumn, Family, ValueFormat, exact_of
from poller.sources.database import (
    Dialect,
    NameQuestion,
    ServerPlace,
    Settings,
    StatementRunner,
    TypeLookup,
    by_value,
    family_by_type,
)
from poller.sources.facts import Watch
from poller.sources.faults import Fault
from poller.sources.mysql.bound import here, may_see
from poller.sources.options import ReadOptions
from poller.sources.rows import CODEC

_NUMBERS = {
    1969: Fault.TIMEOUT,  # MariaDB max_statement_time
    3024: Fault.TIMEOUT,  # MySQL max_execution_time
    1205: Fault.BUSY,
    1045: Fault.LOGIN,
    1698: Fault.LOGIN,
    1044: Fault.LOGIN,
    4151: Fault.LOGIN,  # MariaDB: the account is locked
    3118: Fault.LOGIN,  # MySQL: the account is locked
    1049: Fault.NO_DATABASE,
    1146: Fault.NO_TABLE,
    1054: Fault.NO_COLUMN,
    1142: Fault.FORBIDDEN,
    1143: Fault.FORBIDDEN,
    1227: Fault.FORBIDDEN,
    1401: Fault.FORBIDDEN,  # MySQL 8: XA RECOVER without XA_RECOVER_ADMIN
    1040: Fault.UNREACHABLE,
    1203: Fault.UNREACHABLE,  # as many connections as this user may have
    1226: Fault.UNREACHABLE,
    2002: Fault.UNREACHABLE,
    2003: Fault.UNREACHABLE,
    2005: Fault.UNREACHABLE,
    2026: Fault.UNREACHABLE,  # no TLS, where it is required
    2006: Fault.DISCONNECTED,
    2013: Fault.DISCONNECTED,
    2055: Fault.DISCONNECTED,
    1053: Fault.DISCONNECTED,
    1792: Fault.WRITES,
    1292: Fault.VALUE,
    1525: Fault.VALUE,
    1366: Fault.VALUE,
}

_TIMESTAMP_CODE = 7  # MYSQL_TYPE_TIMESTAMP: stored in UTC, unlike DATETIME
_DATE_CODE, _DATETIME_CODE, _DECIMAL = 10, 12, 246
_TIMES = frozenset({_TIMESTAMP_CODE, _DATETIME_CODE})
_CONVERTERS = {
    Family.TIMESTAMPTZ: "convert_datetime",
    Family.TIMESTAMP: "convert_datetime",
    Family.DATE: "convert_date",
}
_STRING_CODES = frozenset({15, 16, 249, 250, 251, 252, 253, 254})
"""VARCHAR, BIT, the BLOBs and TEXTs, VAR_STRING, STRING: of characters or of bytes, which these codes do not say."""


_UTC = "+00:00"
_OTHER_TEXTS = ("PAD_CHAR_TO_FULL_LENGTH", "EMPTY_STRING_IS_NULL")
"""Modes under which texts are other ones: with spaces at their end, or no value."""
JSON_COLUMN = re.compile(
    r"^\s*`((?:[^`]|``)+)` (?:json\b|longtext\b.*\bCHECK \(json_valid\(`\1`\)\))", re.IGNORECASE | re.MULTILINE
)

_MADE = "FROM information_schema.tables WHERE table_schema = coalesce(:schema, database()) AND table_name = :table"
_NUMBERED = {True: "innodb_sys_tables", False: "innodb_tables"}
"""Of MariaDB, of MySQL."""
_YOUNG = "create_time >= now() - INTERVAL 3 SECOND"
_NAMED = "name = concat(table_schema, '/', table_name)"

_SETTINGS = (
    "SHOW SESSION VARIABLES WHERE Variable_name IN ('time_zone', 'sql_mode', 'tx_isolation', 'transaction_isolation',"
    " 'tx_read_only', 'transaction_read_only', 'autocommit', 'sql_select_limit', 'character_set_client',"
    " 'character_set_connection', 'character_set_results', 'collation_connection', 'collation_database',"
    " 'group_concat_max_len', 'lc_time_names', 'div_precision_increment', 'sql_auto_is_null')"
)

_IN_USE = "SELECT database(), NULL, NULL, {server}"
_STARTED = "select unix_timestamp()"
_UPTIME = "show global status like 'Uptime'"


class MySql(Dialect):
    """Two ranges: row values scan the whole index here, and with `>= AND (OR)` the optimizer scans the whole table
    where it expects a large tie (MariaDB 10.11, DATETIME of whole seconds, half of the rows in one tie)."""

    family: ClassVar[str] = "mysql"
    keeps_objects = False
    schemas_are_databases: ClassVar[bool] = True
    ties_are_ranges: ClassVar[bool] = True
    files_of_places: ClassVar[tuple[str, ...]] = ("read_default_file", "read_default_group")
    session_number: ClassVar[str] = "SELECT connection_id()"
    takes_z: ClassVar[bool] = False
    holds_impossible_dates: ClassVar[bool] = True
    forced: ClassVar[frozenset[str]] = frozenset({"use_unicode"})
    catalog_first: ClassVar[str] = "SET SESSION sql_select_limit = DEFAULT"
    keeps_privileges: ClassVar[bool] = True
    clock: ClassVar[str] = "DATE_FORMAT(UTC_TIMESTAMP(6), '%Y-%m-%dT%H:%i:%s.%fZ')"

    def asks_where(self, options: ReadOptions, *, mariadb: bool = False) -> NameQuestion | None:
        """MariaDB's servers have no id."""
        return NameQuestion(_IN_USE, servers=("NULL",) if mariadb else ("@@server_uuid", "NULL"))

    def reached(self, driver: Any) -> dict[str, Any]:
        """As PyMySQL's connection says it."""
        socket = getattr(driver, "unix_socket", None)
        host, port = socket or getattr(driver, "host", None), getattr(driver, "port", None)
        if not isinstance(host, str) or not host:
            return {}
        return {
            "database.host": host if host.startswith("/") else host.lower(),
            "database.port": port if isinstance(port, int) and not socket else None,
        }

    def connect_args(self, driver: str, timeout: timedelta) -> dict[str, Any]:
        """The wait for a server that vanished ends a little after the server itself would have ended the query. Text
        comes as text, not as bytes."""
        args: dict[str, Any] = {} if driver == "mariadbconnector" else {"use_unicode": True}
        if driver in {"pymysql", "mysqldb"}:
            args["connect_timeout"] = 10
        if driver == "pymysql":
            args["read_timeout"] = _wait(timeout)
        return args

    def place(self, connection: Connection) -> ServerPlace:
        """By the server's own word. A server that only has the protocol is not asked."""
        mariadb = bool(getattr(connection.dialect, "is_mariadb", False))
        try:
            reading, said = here(connection, mariadb=mariadb)
            if reading is not None:
                return ServerPlace(("mysql", said, reading._replace(session="")), reading)
            # Its start to about a second: where that differs by one, the same is learned twice.
            now = int(connection.exec_driver_sql(_STARTED).scalar_one())
            started = now - int(connection.exec_driver_sql(_UPTIME).one()[1])
            return ServerPlace(("mysql", said, started, may_see(connection)), None)
        except DBAPIError as error:
            if error.connection_invalidated:
                raise
            return super().place(connection)

    def adopt(self, dbapi: Any, timeout: timedelta) -> None:
        """With another character set keys lose characters, and their rows are read again and again."""
        urls.use_utf8mb4(dbapi)

    def session(self, connection: Connection, timeout: timedelta) -> list[str]:
        """TIMESTAMP columns are converted to the session's zone: make it UTC. CHAR columns have no spaces at their end.
        READ COMMITTED as well as autocommit, so that no setting of the server gives a page an older snapshot. The modes
        are taken out by SPACE(0): where an empty literal is NULL, it would clear all of them. The server refuses each
        statement of such a session that writes."""
        modes = "@@SESSION.sql_mode"
        for one in _OTHER_TEXTS:
            modes = f"REPLACE({modes}, '{one}', SPACE(0))"
        names = "tx" if getattr(connection.dialect, "is_mariadb", False) else "transaction"
        reads = f"SESSION {names}_isolation = 'READ-COMMITTED', SESSION {names}_read_only = 1"
        return [f"SET SESSION time_zone = '{_UTC}', SESSION sql_mode = {modes}, {reads}, {_limit(connection, timeout)}"]

    def settings(self, connection: Connection) -> Any:
        """Those that change what a statement reads."""
        return [tuple(row) for row in connection.exec_driver_sql(_SETTINGS)]

    def restore(self, connection: Connection, timeout: timedelta, before: Any) -> bool:
        """There is no statement for that: they are looked at."""
        return bool(before == self.settings(connection))

    def limit(self, connection: Connection, dbapi: Any, timeout: timedelta) -> list[str]:
        """The server's, and pymysql's wait for an answer, unless the URL says how long that is."""
        if hasattr(dbapi, "_read_timeout") and "read_timeout" not in connection.engine.url.query:
            dbapi._read_timeout = _wait(timeout)
        return [f"SET {_limit(connection, timeout)}"]

    def is_instant(self, kind: Any) -> bool:
        """A TIMESTAMP is one."""
        return isinstance(kind, mysql.TIMESTAMP)

    def from_type(self, name: str, kind: Any, nullable: bool | None) -> CursorColumn:
        """DATETIME is naive, TIMESTAMP is an instant; ENUM sorts by number and compares as text, so it is unfit."""
        family, sql_type, digits = family_by_type(kind), "", 6
        if isinstance(kind, mysql.TIMESTAMP | sa.TIMESTAMP):
            family = Family.TIMESTAMPTZ
        if isinstance(kind, mysql.BIT | mysql.SET | mysql.ENUM):
            family = Family.UNFIT
        if type(kind).__name__ in {"UUID", "Uuid"}:
            family, sql_type = Family.UUID, "UUID"
        if family in {Family.TIMESTAMP, Family.TIMESTAMPTZ}:
            digits = int(getattr(kind, "fsp", None) or 0)
            sql_type = f"DATETIME({digits})"
        elif family is Family.DATE:
            sql_type = "DATE"
        elif family is Family.NUMERIC:
            sql_type = f"DECIMAL({kind.precision or 65}, {kind.scale or 0})"
        return CursorColumn(name=name, family=family, sql_type=sql_type, digits=digits, nullable=nullable)

    def from_value(self, name: str, value: Any, description: Sequence[Any]) -> CursorColumn:
        """A query's column; its digits are unknown, so the coarsest are assumed (a bound is rounded by them). Times by
        the type that the server names: the first may be 0000-00-00, which drivers return as text."""
        code = description[1]
        if isinstance(value, datetime) or code in {_TIMESTAMP_CODE, _DATETIME_CODE}:
            family = Family.TIMESTAMPTZ if code == _TIMESTAMP_CODE else Family.TIMESTAMP
            return CursorColumn(name=name, family=family, sql_type="DATETIME(6)", digits=0)
        if isinstance(value, date) or code == _DATE_CODE:
            return CursorColumn(name=name, family=Family.DATE, sql_type="DATE")
        kinds = (
            (decimal.Decimal, Family.NUMERIC, "DECIMAL(65, 30)"),
            (uuid.UUID, Family.UUID, "UUID"),
        )
        return by_value(name, value, kinds)

    def watch(self, look: TypeLookup, texts: Sequence[str], run: StatementRunner, connection: Connection) -> Watch:
        """The collations as the server derives them, also without a row; of a table also when it was made, which each
        change of its definition and each renaming sets again, its engine and, for who may see it, its number."""
        columns = [look.columns[name] for name in texts]
        derived = [f"COLLATION((SELECT {column} FROM {look.relation} LIMIT 0))" for column in columns]  # noqa: S608
        if look.options.table is None:
            sql = f"SELECT {', '.join(derived)}" if texts else ""
            found = tuple(run(sql).rows[0]) if texts else ()
            described = look.described
            shown = list(zip(described.names, described.description, strict=False)) if described else []
            digits = {name: one[5] for name, one in shown if one[1] in _TIMES and one[5] in range(7)}
            # Of a number only the places after the point are surely shown; before it, as many as any may have.
            scales = {name: one[5] for name, one in shown if one[1] == _DECIMAL and one[5] in range(31)}
            types = {name: f"DECIMAL({35 + scale}, {scale})" for name, scale in scales.items()}
            collations = dict(zip(texts, map(str, found), strict=True))
            return Watch(sql, found=found, collations=collations, digits=digits, types=types)
        params = {"schema": look.options.schema_name, "table": look.options.table}
        maria = bool(getattr(connection.dialect, "is_mariadb", False))
        number = f"(SELECT table_id FROM information_schema.{_NUMBERED[maria]} WHERE {_NAMED})"  # noqa: S608
        asked = ["create_time", "engine", *derived]
        try:
            rows = run(f"SELECT {', '.join([*asked, _YOUNG, number])} {_MADE}", params).rows
        except DBAPIError as error:  # the number is not for everyone
            if error.connection_invalidated:
                raise
            rows = run(f"SELECT {', '.join([*asked, 'NULL', 'NULL'])} {_MADE}", params).rows
        *said, young, which = rows[0] if rows else [None] * (len(asked) + 2)
        if young and which:  # the time is of a whole second, in which there may have been two tables of this name
            asked, said = [*asked, f"IF({_YOUNG}, {number}, 0)"], [*said, which]
        numbered = f"number {which}, " if which else ""
        made = None if said[0] is None else f"{numbered}created {said[0]}"
        collations = {name: str(one) for name, one in zip(texts, said[2:], strict=False) if one is not None}
        return Watch(f"SELECT {', '.join(asked)} {_MADE}", params, tuple(said), made, collations)

    def render(self, sql: str, column: CursorColumn) -> str:
        """The session is in UTC, so a TIMESTAMP's text is too."""
        match column.family:
            case Family.TIMESTAMPTZ:
                return f"DATE_FORMAT({sql}, '%Y-%m-%dT%H:%i:%s.%fZ')"
            case Family.TIMESTAMP:
                return f"DATE_FORMAT({sql}, '%Y-%m-%dT%H:%i:%s.%f')"
            case Family.DATE:
                return f"DATE_FORMAT({sql}, '%Y-%m-%d')"
            case Family.BYTES:
                return f"LOWER(HEX({sql}))"
            case _:
                return f"CAST({sql} AS CHAR)"

    def rests_on(self, columns: Iterable[CursorColumn]) -> Settings | None:
        """TIMESTAMP columns are compared, too, as the session's zone shows them."""
        if any(column.family is Family.TIMESTAMPTZ for column in columns):
            return Settings("SELECT @@SESSION.time_zone", {"time_zone": _UTC})
        return None

    def exact(self, column: CursorColumn, dbapi: Any) -> ValueFormat | None:
        """Pymysql's own converters lose nothing, and return as text what is not a date."""
        if column.family not in _CONVERTERS or not type(dbapi).__module__.startswith("pymysql."):
            return None
        own = getattr(importlib.import_module("pymysql.converters"), _CONVERTERS[column.family])
        codes = (_DATE_CODE,) if column.family is Family.DATE else (_TIMESTAMP_CODE, _DATETIME_CODE)
        if any(dbapi.decoders.get(code) is not own for code in codes):
            return None
        return NAIVE_UTC if column.family is Family.TIMESTAMPTZ else exact_of(column)

    def types(self, look: TypeLookup, run: StatementRunner) -> dict[str, CursorColumn]:
        """A query's strings may be of characters or of bytes."""
        found = super().types(look, run)
        if look.reflected is not None:
            either = [name for name in found if isinstance(look.reflected[name]["type"], mysql.BIT)]
        else:
            described = run(self.limited(", ".join(look.columns.values()), f"FROM {look.relation}", 0)).description
            either = [name for name, one in zip(found, described, strict=True) if one[1] in _STRING_CODES]
        return found | {name: CursorColumn(name=name, family=Family.OTHER) for name in either}

    def text(self, sql: str, column: CursorColumn) -> str:
        """As text, bytes that are no valid text would all be the same."""
        if column.family is Family.OTHER:
            return f"IF(CHARSET({sql}) = 'binary', LOWER(HEX({sql})), CAST({sql} AS CHAR))"
        return self.render(sql, column)

    def json_columns(self, table: str, schema: str | None, run: StatementRunner) -> frozenset[str]:
        """In MariaDB JSON is LONGTEXT with a check."""
        made = str(run(f"SHOW CREATE TABLE {table if schema is None else f'{schema}.{table}'}").rows[0][1])
        return frozenset(name.replace("``", "`") for name in JSON_COLUMN.findall(made))

    @contextlib.contextmanager
    def lenient(self, dbapi: Any) -> Iterator[None]:
        """Pymysql returns dates that no calendar has as text anyway; only text that is not valid UTF-8 (half surrogate
        pairs, which the server accepts) it cannot decode."""
        if not type(dbapi).__module__.startswith("pymysql."):
            yield
            return
        before, dbapi.encoding = dbapi.encoding, CODEC
        try:
            yield
        finally:
            dbapi.encoding = before

    def classify(self, error: DBAPIError) -> Fault:
        """By the server's or client's error number."""
        number = codes(error.orig)[1] or 0
        if number == 2013 and "timed out" in str(error.orig):
            return Fault.TIMEOUT
        if number in _NUMBERS:
            return _NUMBERS[number]
        return Fault.DISCONNECTED if error.connection_invalidated else Fault.OTHER


def _wait(timeout: timedelta) -> int:
    return max(1, round(timeout.total_seconds())) + 5


def _limit(connection: Connection, timeout: timedelta) -> str:
    seconds = timeout.total_seconds()
    maria = bool(getattr(connection.dialect, "is_mariadb", False))
    limit = f"max_statement_time = {seconds:.3f}" if maria else f"max_execution_time = {round(seconds * 1000)}"
    return f"SESSION {limit}"
