"""Pages as `pyarrow.Table`s (`format = "arrow"`).

PostgreSQL: columns that Arrow has a type for come as they are, all others as the server's text, from which the rows
that a handler asks for are made as psycopg would make them. The pages come by ADBC, or where that cannot be had by
psycopg, and look the same. Other databases: tables are built of the driver's values.
"""

from __future__ import annotations

import importlib
from typing import Any

from poller import extras
from poller.errors import ConfigError


def pyarrow() -> Any:
    """The module. Raises: ConfigError naming `format` and the extra, where it is not installed."""
    return _module("pyarrow")


def adbc() -> Any:
    """PostgreSQL's ADBC driver. Raises: as `pyarrow`."""
    return _module("adbc_driver_postgresql.dbapi")


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0].replace("_", "-")
        raise ConfigError(
            f"`format` is arrow, which needs the package {package}: {error}.",
            key="format",
            next_step=extras.step("arrow"),
        ) from None
