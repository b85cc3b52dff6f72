"""What differs between databases: one small module per family, each with a `base.Dialect`.

A family's module is imported with the first source of that family: SQLAlchemy's dialects of other databases would slow
down the start of every command.
"""

from __future__ import annotations

from importlib import import_module

from poller.errors import ConfigError
from poller.sources.dialects.base import Dialect

__all__ = ["Dialect", "dialect_for"]

_HOMES = {
    "postgresql": "PostgreSql",
    "mysql": "MySql",
    "sqlite": "Sqlite",
    "mssql": "SqlServer",
    "oracle": "Oracle",
}
"""The class of a family; its module, in this package, has the family's name."""


def dialect_for(family: str) -> Dialect:
    """The dialect of a family as `identity.family_of` names it.

    Raises: ConfigError naming `url` for a database we have no rules for.
    """
    if family not in _HOMES:
        raise ConfigError(
            f"`url` names a {family} database, and there are no rules for reading one without skipping rows.",
            key="url",
            next_step=f"Supported: {', '.join(sorted(_HOMES))} (MariaDB as mysql).",
        )
    made: Dialect = getattr(import_module(f"{__name__}.{family}"), _HOMES[family])()
    return made
