"""The two tables, and each database's clock.

Bodies are text, so that a person can read the state with any SQL client. Names compare byte by byte everywhere.
SQLAlchemy's dialects are imported where their database is used: each would slow down the start of every command.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    Identity,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    Unicode,
    literal_column,
)
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.types import TypeEngine

_NAME_LENGTH = 400
"""state/app/name.json needs 150, and SQL Server keys at most 900 bytes."""


def _name(dialect: str) -> TypeEngine[Any]:
    if dialect in {"mysql", "mariadb"}:
        from sqlalchemy.dialects import mysql

        return mysql.VARCHAR(_NAME_LENGTH, charset="utf8mb4", collation="utf8mb4_bin")
    if dialect == "mssql":
        from sqlalchemy.dialects import mssql

        return mssql.NVARCHAR(_NAME_LENGTH, collation="Latin1_General_100_BIN2")
    return Unicode(_NAME_LENGTH)


def _body(dialect: str) -> TypeEngine[Any]:
    if dialect in {"mysql", "mariadb"}:
        from sqlalchemy.dialects import mysql

        return mysql.LONGTEXT(charset="utf8mb4", collation="utf8mb4_bin")
    if dialect == "mssql":
        from sqlalchemy.dialects import mssql

        return mssql.NVARCHAR()  # of no length: (max)
    return Text()


_LINE_NUMBER = BigInteger().with_variant(Integer(), "sqlite")  # SQLite counts up only INTEGER


def _options(dialect: str) -> dict[str, Any]:
    """Options of a table. SQLAlchemy loads the dialect that an option is for, so none is named that is not used."""
    innodb = (("engine", "InnoDB"), ("charset", "utf8mb4"), ("collate", "utf8mb4_bin"))
    return {f"{dialect}_{option}": value for option, value in innodb if dialect in {"mysql", "mariadb"}}


@dataclass(frozen=True, slots=True)
class Clock:
    """A database's clock: the SQL that reads it at this moment, and the column that holds it.

    The statement that writes reads the clock, never before its start, so that a lease never looks older than it is
    (protocol 3). `to_utc`: None if a value may not be an instant.
    """

    now: ColumnElement[Any]
    column: TypeEngine[Any]
    to_utc: Callable[[Any], datetime | None]


def clock_of(dialect: str) -> Clock:
    """The clock of a SQLAlchemy dialect (its `name`), of microseconds where the database has them."""
    if dialect == "postgresql":
        from sqlalchemy.dialects import postgresql

        return Clock(literal_column("clock_timestamp()"), postgresql.TIMESTAMP(timezone=True), _aware)
    if dialect in {"mysql", "mariadb"}:
        from sqlalchemy.dialects import mysql

        return Clock(literal_column("utc_timestamp(6)"), mysql.DATETIME(fsp=6), _utc)
    if dialect == "sqlite":
        return Clock(literal_column("strftime('%Y-%m-%dT%H:%M:%f', 'now')"), String(32), _utc)
    if dialect == "mssql":
        from sqlalchemy.dialects import mssql

        return Clock(literal_column("sysutcdatetime()"), mssql.DATETIME2(6), _utc)  # type: ignore[no-untyped-call]
    # Elsewhere CURRENT_TIMESTAMP may be local time, which jumps by an hour: used only when it has a zone.
    return Clock(literal_column("CURRENT_TIMESTAMP"), DateTime(timezone=True), _aware)


@dataclass(frozen=True, slots=True)
class Schema:
    """The tables of one store on one dialect."""

    documents: Table
    log: Table
    clock: Clock


def schema_for(dialect: str, prefix: str) -> Schema:
    """Tables `{prefix}_documents` and `{prefix}_log`."""
    clock, metadata = clock_of(dialect), MetaData()
    documents = Table(
        f"{prefix}_documents",
        metadata,
        Column("name", _name(dialect), primary_key=True),
        Column("tag", String(32), nullable=False),
        Column("body", _body(dialect)),  # nullable: Oracle stores an empty text as NULL
        Column("modified_at", clock.column, nullable=False),
        **_options(dialect),
    )
    log = Table(
        f"{prefix}_log",
        metadata,
        Column("id", _LINE_NUMBER, Identity(), primary_key=True),
        Column("name", _name(dialect), nullable=False),
        Column("line", _body(dialect)),
        Column("written_at", clock.column, nullable=False),
        Index(f"{prefix}_log_name", "name", "id"),
        **_options(dialect),
    )
    return Schema(documents, log, clock)


def _utc(value: Any) -> datetime | None:
    at = datetime.fromisoformat(value) if isinstance(value, str) else value
    return at.replace(tzinfo=UTC) if isinstance(at, datetime) and at.tzinfo is None else _aware(at)


def _aware(value: Any) -> datetime | None:
    return value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo is not None else None
