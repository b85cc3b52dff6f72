"""Oracle: two ranges, `timestamp(9)` to the last nanosecond. Tested by its compiled SQL, not on a server."""

from __future__ import annotations

import decimal
import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar

import sqlalchemy as sa
from sqlalchemy.dialects import oracle
from sqlalchemy.exc import DBAPIError

from poller.sources.columns import Column, Family
from poller.sources.dialects.base import Dialect, by_value, family_by_type
from poller.sources.dialects.faults import Fault

_CODES = {
    "ORA-00942": Fault.NO_TABLE,
    "ORA-00904": Fault.NO_COLUMN,
    "ORA-01017": Fault.LOGIN,
    "ORA-28000": Fault.LOGIN,
    "ORA-01031": Fault.FORBIDDEN,
    "ORA-12514": Fault.NO_DATABASE,
    "ORA-12541": Fault.UNREACHABLE,
    "ORA-01013": Fault.TIMEOUT,
    "ORA-03113": Fault.DISCONNECTED,
    "DPY-4024": Fault.TIMEOUT,
    "DPY-6001": Fault.NO_DATABASE,
    "DPY-6005": Fault.UNREACHABLE,
    "DPY-4011": Fault.DISCONNECTED,
}
_SECONDS = 'YYYY-MM-DD"T"HH24:MI:SS'


class Oracle(Dialect):
    """A DATE holds seconds; its text ends with six zeros, so that all timestamps look alike."""

    family: ClassVar[str] = "oracle"
    clock: ClassVar[str] = f"TO_CHAR(SYS_EXTRACT_UTC(SYSTIMESTAMP), '{_SECONDS}.FF6\"Z\"')"
    alias_word: ClassVar[str] = ""
    takes_z: ClassVar[bool] = False
    one_row: ClassVar[str] = " FROM DUAL"

    def connect_args(self, driver: str, timeout: timedelta) -> dict[str, Any]:
        """The time limit for connecting."""
        return {"tcp_connect_timeout": 10.0} if driver == "oracledb" else {}

    def adopt(self, dbapi: Any, timeout: timedelta) -> None:
        """The query timeout is the driver's."""
        dbapi.call_timeout = max(1, round(timeout.total_seconds() * 1000))

    def from_type(self, name: str, kind: Any, nullable: bool | None) -> Column:
        """A TIMESTAMP's precision is not reflected: nine digits hold any."""
        family, sql_type, digits = family_by_type(kind), "", 9
        if isinstance(kind, oracle.TIMESTAMP | sa.TIMESTAMP):
            zoned = bool(kind.timezone or getattr(kind, "local_timezone", False))
            family = Family.TIMESTAMPTZ if zoned else Family.TIMESTAMP
            sql_type = "TIMESTAMP"
        elif isinstance(kind, oracle.DATE | sa.DateTime | sa.Date):
            family, sql_type, digits = Family.TIMESTAMP, "DATE", 0
        elif family is Family.NUMERIC:
            sql_type = "NUMBER"
        return Column(name=name, family=family, sql_type=sql_type, digits=digits, nullable=nullable)

    def from_value(self, name: str, value: Any, description: Sequence[Any]) -> Column:
        """A query's column."""
        if isinstance(value, datetime):
            family = Family.TIMESTAMPTZ if value.tzinfo is not None else Family.TIMESTAMP
            return Column(name=name, family=family, sql_type="TIMESTAMP", digits=9)
        kinds = ((decimal.Decimal, Family.NUMERIC, "NUMBER"),)
        return by_value(name, value, kinds)

    def render(self, sql: str, column: Column) -> str:
        """TO_CHAR, in UTC for zoned columns."""
        match column.family:
            case Family.TIMESTAMPTZ:
                return f"TO_CHAR(SYS_EXTRACT_UTC({sql}), '{_SECONDS}.FF9\"Z\"')"
            case Family.TIMESTAMP if column.sql_type == "DATE":
                return f"TO_CHAR({sql}, '{_SECONDS}') || '.000000'"
            case Family.TIMESTAMP:
                return f"TO_CHAR({sql}, '{_SECONDS}.FF9')"
            case Family.BYTES:
                return f"LOWER(RAWTOHEX({sql}))"
            case _:
                return f"TO_CHAR({sql})"

    def cast(self, bind: str, column: Column) -> str:
        """TO_TIMESTAMP with a format: a plain CAST would follow the session's NLS settings."""
        match column.family:
            case Family.TIMESTAMPTZ:
                return f"FROM_TZ(TO_TIMESTAMP({bind}, '{_SECONDS}.FF9'), 'UTC')"
            case Family.TIMESTAMP if column.sql_type == "DATE":
                return f"CAST(TO_TIMESTAMP({bind}, '{_SECONDS}.FF9') AS DATE)"
            case Family.TIMESTAMP:
                return f"TO_TIMESTAMP({bind}, '{_SECONDS}.FF9')"
            case Family.NUMERIC:
                return f"TO_NUMBER({bind})"
            case _:
                return bind

    def limited(self, select: str, rest: str, limit: int) -> str:
        """FETCH FIRST."""
        return f"SELECT {select} {rest} FETCH FIRST {limit:d} ROWS ONLY"

    def at(self, select: str, rest: str, skip: int) -> str:
        """OFFSET FETCH."""
        return f"SELECT {select} {rest} OFFSET {skip:d} ROWS FETCH NEXT 1 ROWS ONLY"

    def classify(self, error: DBAPIError) -> Fault:
        """By the ORA- or DPY- code in the text."""
        found = re.search(r"\b(?:ORA|DPY)-\d+", str(error.orig))
        default = Fault.DISCONNECTED if error.connection_invalidated else Fault.OTHER
        return _CODES.get(found.group(), default) if found else default
