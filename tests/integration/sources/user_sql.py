"""A filter or a query as a user gives it to a source, before any database is asked."""

from __future__ import annotations

from poller.errors import ConfigError
from tests.integration.sources.tables import orders

_URLS = {
    "postgresql": "postgresql://nobody@127.0.0.1:1/none",
    "mysql": "mysql://nobody@127.0.0.1:1/none",
    "sqlite": "sqlite:///none.db",
    "mssql": "mssql://nobody:none@127.0.0.1:1/none",
}


def give(family: str, **sql: str) -> None:
    """Make a source of it. Raises: ConfigError naming `filter` or `query` if that is refused."""
    kind = "rowversion+pk" if family == "mssql" else "timestamp+pk"
    try:
        orders(_URLS[family], cursor_kind=kind, **sql).close()
    except ConfigError as error:
        if not (family == "mssql" and error.key == "url"):  # its driver cannot be loaded on every machine
            raise
