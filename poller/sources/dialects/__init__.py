"""What differs between databases: one small module per family, all of the same shape (`base.Dialect`)."""

from __future__ import annotations

from poller.errors import ConfigError
from poller.sources.dialects.base import Dialect
from poller.sources.dialects.mssql import SqlServer
from poller.sources.dialects.mysql import MySql
from poller.sources.dialects.oracle import Oracle
from poller.sources.dialects.postgresql import PostgreSql
from poller.sources.dialects.sqlite import Sqlite

__all__ = ["Dialect", "dialect_for"]

_ALL: dict[str, type[Dialect]] = {d.family: d for d in (PostgreSql, MySql, Sqlite, SqlServer, Oracle)}


def dialect_for(family: str) -> Dialect:
    """The dialect of a family as `identity.family_of` names it.

    Raises: ConfigError naming `url` for a database we have no rules for.
    """
    if family not in _ALL:
        raise ConfigError(
            f"`url` names a {family} database, and there are no rules for reading one without skipping rows.",
            key="url",
            next_step=f"Supported: {', '.join(sorted(_ALL))} (MariaDB as mysql).",
        )
    return _ALL[family]()
