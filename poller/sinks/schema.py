"""The two tables of a fenced sink, in the target's own database: `poller_fence` and `poller_applied`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy import BigInteger, Column, Integer, LargeBinary, MetaData, String, Table
from sqlalchemy.dialects import registry
from sqlalchemy.engine import Dialect
from sqlalchemy.schema import CreateTable
from sqlalchemy.types import TypeEngine

from poller.databases.urls import read_url
from poller.errors import ConfigError

LONGEST_NAME = 64
"""Characters of an application's, a poller's, a shard's or a part's name."""
FAMILIES = {"postgresql": "postgresql", "mysql": "mysql", "mariadb": "mysql", "sqlite": "sqlite"}
"""Which databases can be fenced, by SQLAlchemy's name, and as which of three they are asked."""
_INNODB: dict[str, Any] = {
    f"{dialect}_{option}": value
    for dialect in ("mysql", "mariadb")
    for option, value in (("engine", "InnoDB"), ("charset", "utf8mb4"), ("collate", "utf8mb4_bin"))
}


@dataclass(frozen=True, slots=True)
class LedgerTables:
    """The tables on one family of databases.

    Attributes:
        fence: the highest fencing token that has written, one row for each poller (and shard).
        applied: the ledger: which rows were applied, one row for each fenced transaction whose rows may come again.
    """

    fence: Table
    applied: Table


@lru_cache
def tables_for(family: str) -> LedgerTables:
    """The tables as `family` (of `FAMILIES`) has them."""
    name, keys = _types(family)
    metadata = MetaData()
    options = _INNODB if family == "mysql" else {}  # SQLAlchemy loads the dialect that an option is for

    def names(*columns: str) -> list[Column[Any]]:
        return [Column(column, name, primary_key=True, nullable=False) for column in columns]

    fence = Table(
        "poller_fence",
        metadata,
        *names("app", "poller", "shard"),
        Column("token", BigInteger, nullable=False),
        **options,
    )
    applied = Table(
        "poller_applied",
        metadata,
        *names("app", "poller", "shard", "part"),
        Column("id", BigInteger, primary_key=True, autoincrement=False, nullable=False),
        Column("lane", Integer, nullable=False),
        Column("generation", BigInteger, nullable=False),
        Column("token", BigInteger, nullable=False),
        Column("through", BigInteger, nullable=False),
        Column("row_keys", keys, nullable=False),
        **options,
    )
    return LedgerTables(fence, applied)


def family_of(dialect: str) -> str:
    """Which family a SQLAlchemy dialect (its `name`) belongs to. Raises: ConfigError."""
    if dialect not in FAMILIES:
        raise ConfigError(
            f"A sink in {dialect} cannot be fenced.",
            next_step="PostgreSQL, MariaDB, MySQL and SQLite can; docs/handlers.md has recipes for others.",
        )
    return FAMILIES[dialect]


def ddl(url: str) -> list[str]:
    """The statements that create the tables in the database of a SQLAlchemy URL. Connects to nothing.

    Raises: ConfigError (not a URL, or of a database that cannot be fenced).
    """
    parsed = read_url(url, key="URL")
    tables = tables_for(family_of(parsed.get_backend_name()))
    dialect = registry.load(family_of(parsed.get_backend_name()))()
    return [_statement(table, dialect) for table in (tables.fence, tables.applied)]


def _statement(table: Table, dialect: Dialect) -> str:
    text = str(CreateTable(table, if_not_exists=True).compile(dialect=dialect)).replace("\t", "    ")
    return "\n".join(line.rstrip() for line in text.strip().splitlines()).replace(")ENGINE", ") ENGINE")


def _types(family: str) -> tuple[TypeEngine[Any], TypeEngine[Any]]:
    """Of names, which compare byte by byte, and of packed keys."""
    if family == "mysql":
        from sqlalchemy.dialects import mysql

        return mysql.VARCHAR(LONGEST_NAME, charset="utf8mb4", collation="utf8mb4_bin"), mysql.LONGBLOB()
    return String(LONGEST_NAME), LargeBinary()
