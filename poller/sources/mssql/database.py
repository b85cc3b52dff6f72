"""SQL Server: two ranges, `datetime2(7)` to the last 100 ns. Tested by its compiled SQL, not on a server."""

from __future__ import annotations

import decimal
import math
import re
import uuid
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Any, ClassVar

import sqlalchemy as sa
from sqlalchemy.dialects import mssql
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from poller.errors import SourceError
from poller.ports import Bound
from poller.sources.bound import Rule
from poller.sources.columns import CursorColumn, Family
from poller.sources.database import Asked, Dialect, NameQuestion, Sampler, by_value, family_by_type, on_copy
from poller.sources.faults import Fault
from poller.sources.options import ReadOptions

_STATES = {
    "HYT00": Fault.TIMEOUT,
    "HYT01": Fault.UNREACHABLE,
    "42S02": Fault.NO_TABLE,
    "42S22": Fault.NO_COLUMN,
    "28000": Fault.LOGIN,
    "08001": Fault.UNREACHABLE,
    "08S01": Fault.DISCONNECTED,
    "22007": Fault.VALUE,
    "22018": Fault.VALUE,
}


_OBJECT = """
SELECT DB_NAME(), OBJECT_SCHEMA_NAME(OBJECT_ID(:name)),
       (SELECT CONCAT('object ', object_id, ', created ', CONVERT(varchar(23), create_date, 126))
          FROM sys.objects WHERE object_id = OBJECT_ID(:name)), NULL
"""


class SqlServer(Dialect):
    """No row values, so a tie is read as a separate range."""

    family: ClassVar[str] = "mssql"
    is_untried: ClassVar[bool] = True
    clock: ClassVar[str] = "STUFF(LEFT(CONVERT(varchar(27), SYSUTCDATETIME(), 121), 26), 11, 1, 'T') + 'Z'"

    def asks_where(self, options: ReadOptions, *, mariadb: bool = False) -> NameQuestion | None:
        """Which object a table's name means, and since when."""
        if options.table is None:
            return NameQuestion("SELECT DB_NAME(), NULL, NULL, NULL")
        return NameQuestion(_OBJECT, {"name": _named(options)})

    def connect_args(self, driver: str, timeout: timedelta) -> dict[str, Any]:
        """The login timeout."""
        return {"timeout": 10} if driver == "pyodbc" else {}

    def adopt(self, dbapi: Any, timeout: timedelta) -> None:
        """The query timeout is the driver's."""
        if hasattr(dbapi, "timeout"):
            dbapi.timeout = max(1, math.ceil(timeout.total_seconds()))

    def sampler(self, asked: Asked, connection: Connection) -> Sampler | str:
        return sampler(asked, connection)

    def from_type(self, name: str, kind: Any, nullable: bool | None) -> CursorColumn:
        """`datetime` counts in 1/300 s; datetime2(7) is exact enough to restore it."""
        family, sql_type, digits = family_by_type(kind), "", 7
        if isinstance(kind, mssql.DATETIMEOFFSET):
            family, sql_type = Family.TIMESTAMPTZ, "datetimeoffset(7)"
            digits = 7 if kind.precision is None else int(kind.precision)
        elif isinstance(kind, mssql.DATETIME2):
            sql_type, digits = "datetime2(7)", 7 if kind.precision is None else int(kind.precision)
        elif isinstance(kind, mssql.SMALLDATETIME):
            sql_type, digits = "smalldatetime", 0
        elif isinstance(kind, sa.DateTime):
            sql_type, digits = "datetime", 2
        elif isinstance(kind, mssql.TIMESTAMP):
            family, sql_type = Family.BYTES, "binary(8)"
        elif isinstance(kind, mssql.UNIQUEIDENTIFIER) or family is Family.UUID:
            family, sql_type = Family.UUID, "uniqueidentifier"
        elif family is Family.DATE:
            sql_type = "date"
        elif family is Family.NUMERIC:
            sql_type = f"numeric({kind.precision or 38}, {kind.scale or 0})"
        elif family is Family.TEXT:
            # As narrow as the column: compared with nvarchar, a varchar column would not use its index.
            narrow = {"VARCHAR": "varchar", "CHAR": "char", "NCHAR": "nchar"}
            sql_type = f"{narrow.get(kind.__visit_name__, 'nvarchar')}({kind.length or 'max'})"
        return CursorColumn(name=name, family=family, sql_type=sql_type, digits=digits, nullable=nullable)

    def from_value(self, name: str, value: Any, description: Sequence[Any]) -> CursorColumn:
        """A query's column; where the driver does not report a number's digits, as many as are likely."""
        digits = tuple(description[4:6])
        precision, scale = digits if len(digits) == 2 and None not in digits else (38, 10)
        if isinstance(value, datetime):
            if value.tzinfo is not None:
                return CursorColumn(name=name, family=Family.TIMESTAMPTZ, sql_type="datetimeoffset(7)", digits=7)
            return CursorColumn(name=name, family=Family.TIMESTAMP, sql_type="datetime2(7)", digits=7)
        kinds = (
            (date, Family.DATE, "date"),
            (decimal.Decimal, Family.NUMERIC, f"numeric({precision}, {scale})"),
            (uuid.UUID, Family.UUID, "uniqueidentifier"),
        )
        return by_value(name, value, kinds)

    def render(self, sql: str, column: CursorColumn) -> str:
        """Style 121 of a datetime2(7) always has seven digits; style 126 leaves out a fraction of zero."""
        if column.family in {Family.TIMESTAMP, Family.TIMESTAMPTZ}:
            zoned = column.family is Family.TIMESTAMPTZ
            naive = f"SWITCHOFFSET({sql}, '+00\\:00')" if zoned else sql
            length = 20 + (7 if column.digits > 6 or column.sql_type == "datetime" else 6)
            text = f"CONVERT(varchar(27), CAST({naive} AS datetime2(7)), 121)"
            return f"STUFF(LEFT({text}, {length}), 11, 1, 'T')" + (" + 'Z'" if zoned else "")
        match column.family:
            case Family.DATE:
                return f"CONVERT(varchar(10), {sql}, 23)"
            case Family.BYTES:
                return f"LOWER(CONVERT(varchar(max), {sql}, 2))"
            case Family.TEXT:
                return f"CAST({sql} AS nvarchar(max))"
            case _:
                return f"CAST({sql} AS varchar(64))"

    def text(self, sql: str, column: CursorColumn) -> str:
        """The cast to text; a type that is not known, such as a query's, is as wide as any."""
        return f"CAST({sql} AS nvarchar(max))" if column.family is Family.UNFIT else self.render(sql, column)

    def casts(self, column: CursorColumn) -> tuple[str, ...]:
        """The older types read only three digits from a text, so it goes through datetime2(7)."""
        older = column.sql_type in {"datetime", "smalldatetime"}
        return ("datetime2(7)", column.sql_type) if older else super().casts(column)

    def limited(self, select: str, rest: str, limit: int) -> str:
        """TOP."""
        return f"SELECT TOP ({limit:d}) {select} {rest}"

    def unreadable(self, error: BaseException) -> bool:
        """A type that pyodbc does not know (hierarchyid, geography) is a driver's error."""
        if isinstance(error, DBAPIError):
            return "is not yet supported" in str(error.orig)
        return super().unreadable(error)

    def classify(self, error: DBAPIError) -> Fault:
        """By SQLSTATE, which ODBC gives first; 4060 is a missing database, 229 a missing permission."""
        args = getattr(error.orig, "args", ())
        state, text = str(args[0]) if args else "", str(error.orig)
        if "(4060)" in text:
            return Fault.NO_DATABASE
        if "(229)" in text or "(230)" in text:
            return Fault.FORBIDDEN
        return _STATES.get(state, Fault.DISCONNECTED if error.connection_invalidated else Fault.OTHER)


_STANDING = sa.text("SELECT CAST(DATABASEPROPERTYEX(DB_NAME(), 'Updateability') AS varchar(20))")
_ROWVERSION = sa.text("""
SELECT LOWER(CONVERT(varchar(18), MIN_ACTIVE_ROWVERSION(), 2)) AS least, LOWER(CONVERT(varchar(18), @@DBTS, 2)) AS used
""")
_TABLE = sa.text("SELECT COUNT(*) FROM sys.tables WHERE object_id = OBJECT_ID(:name) AND is_external = 0")
_DIRTY = re.compile(r"\b(nolock|readpast|readuncommitted)\b", re.IGNORECASE)
_NOT_SEEN = "open transactions of SQL Server are not looked at: use a rowversion column, which needs no look"
_ANY_ROWS = "a view or a query may read another database's rows, whose versions are not counted here: name the table"


def _named(o: ReadOptions) -> str:
    """The table as OBJECT_ID takes it; empty, which is none, for a query."""
    return ".".join(f"[{part.replace(']', ']]')}]" for part in (o.schema_name, o.table) if part and o.table)


def sampler(asked: Asked, connection: Connection) -> Sampler | str:
    """The lowest rowversion that an open transaction has taken; or the reason (a `str`) why only a delay is left.

    Raises: SourceError on a readable secondary, and for a query that reads uncommitted rows or skips locked ones.
    """
    o = asked.options
    if connection.execute(_STANDING).scalar() == "READ_ONLY":
        raise on_copy("read-only, as a secondary is", o.table)
    dirty = _DIRTY.search(o.query or "")
    if dirty is not None:
        raise SourceError(
            f"`query` reads with {dirty.group().upper()}: rows that are locked would be skipped, or rows that are"
            " rolled back delivered.",
            next_step="Remove the hint.",
        )
    if o.cursor_kind != "rowversion+pk":
        return _NOT_SEEN
    if not connection.execute(_TABLE, {"name": _named(o)}).scalar():
        return _ANY_ROWS
    rule = Rule("exact", "MIN_ACTIVE_ROWVERSION()", asked.column)

    def take(connection: Connection) -> Bound:
        row = connection.execute(_ROWVERSION).one()  # needs no privilege
        following = f"{int(row.used, 16) + 1:016x}"
        return Bound(kind=rule.kind, value=row.least, reason=rule.reason, next=following)

    return Sampler(rule, take)
