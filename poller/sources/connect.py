"""One connection of our own, in autocommit, its session set up for reading pages."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, OperationalError
from sqlalchemy.pool import NullPool

from poller.errors import ConfigError, SourceUnavailable
from poller.sources.dialects import Dialect
from poller.sources.dialects.base import Records
from poller.sources.identity import sqlite_path

_MODULES = {"mysqldb": "MySQLdb", "mariadbconnector": "mariadb", "mysqlconnector": "mysql.connector"}


def read_url(url: str | URL | Engine) -> URL:
    """The URL of whatever was given.

    Raises: ConfigError naming `url`; the text itself is not repeated, for it may hold a password.
    """
    if isinstance(url, Engine):
        return url.url
    if isinstance(url, URL):
        return url
    if not url.strip():
        raise ConfigError(
            "`url` is empty.", key="url", next_step="Write a SQLAlchemy URL: dialect://user@host/database."
        )
    try:
        parsed = make_url(url.strip())
    except (ArgumentError, ValueError):
        raise ConfigError(
            "`url` is no SQLAlchemy URL.",
            key="url",
            # No example with a password: what looks like one is cut out of every message.
            next_step="Write dialect://user@host:port/database, the password after the user with a colon between them, "
            "special characters percent-encoded.",
        ) from None
    if _stray_at(url.strip(), parsed):
        raise ConfigError(
            "`url` holds an @ where its host or database should stand: what stands before it may be of a password.",
            key="url",
            next_step="Write an @ in the password, or in the database's name, as %40.",
        )
    return parsed.set(drivername="postgresql") if parsed.drivername == "postgres" else parsed


def _stray_at(text: str, parsed: URL) -> bool:
    """Whether a password that was not encoded was taken for a host, a database or an option: those are shown."""
    if parsed.get_backend_name() == "sqlite":
        return False
    meant = make_url(text.replace("%40", "_"))
    options = [part.partition("=")[0] for part in text.partition("?")[2].split("&")]
    return any("@" in part for part in (meant.host or "", meant.database or "", *options))


def make_engine(url: URL, dialect: Dialect, timeout: timedelta) -> Engine:
    """An engine that keeps no pool: the source holds one connection.

    Raises: ConfigError naming `url`, where the driver is not installed.
    """
    url = _with_installed_driver(url, dialect)
    args = {
        name: value
        for name, value in dialect.connect_args(url.get_driver_name(), timeout).items()
        if name not in url.query
    }
    try:
        return sa.create_engine(
            url, poolclass=NullPool, hide_parameters=True, connect_args=args, skip_autocommit_rollback=True
        )
    except (ImportError, NoSuchModuleError) as error:
        missing = getattr(error, "name", None) or url.drivername
        extra = f'pip install "poller[{dialect.extra}]"' if dialect.extra else f"pip install {missing}"
        raise ConfigError(
            f"`url` needs the database driver {missing!s}, which is not installed.",
            key="url",
            next_step=f"Run: {extra}",
        ) from None
    except (ArgumentError, TypeError) as error:
        raise ConfigError(f"`url` is refused by SQLAlchemy: {type(error).__name__}.", key="url") from None


def _with_installed_driver(url: URL, dialect: Dialect) -> URL:
    """A URL that names no driver takes the first one that is installed."""
    if "+" in url.drivername or not dialect.extra:
        return url
    for driver in dialect.drivers:
        with contextlib.suppress(ImportError):
            if importlib.util.find_spec(_MODULES.get(driver, driver)) is not None:
                return url.set(drivername=f"{url.drivername}+{driver}")
    return url.set(drivername=f"{url.drivername}+{dialect.drivers[0]}")


class Database:
    """The held connection. Not for two threads at once."""

    def __init__(self, engine: Engine, dialect: Dialect, timeout: timedelta) -> None:
        self.engine = engine
        self.dialect = dialect
        self.timeout = timeout
        self._connection: Connection | None = None
        self._driver: Any = None
        self._file: tuple[int, int] | None = None

    @property
    def is_open(self) -> bool:
        """Whether a connection is held."""
        return self._connection is not None

    def connection(self) -> Connection:
        """The held connection, opened and set up when there is none, or when it leads to a file that is no longer the
        one of that name. Raises what the driver raises; SourceUnavailable where SQLite's file is missing."""
        if self._connection is not None and self._file != self._look_at_file():
            self.close()
            # As a connection that broke: the source then forgets what it learned of the table, and reads again.
            raise OperationalError(None, None, Exception("the database file was replaced"))
        if self._connection is None:
            self._file = self._look_at_file()
            connection = self.engine.connect()
            try:
                connection = connection.execution_options(isolation_level="AUTOCOMMIT")
                self._driver = connection.connection.driver_connection  # a detached connection no longer names it
                if self.dialect.detaches:
                    connection.detach()
                self.dialect.adopt(self._driver, self.timeout)
                for statement in self.dialect.session(connection, self.timeout):
                    connection.execute(sa.text(statement.replace(":", "\\:")))
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def run(self, sql: str, params: Mapping[str, Any] | None = None) -> Records:
        """One statement, as a snapshot of its own. Raises what the driver raises."""
        connection = self.connection()
        self.dialect.before(self._driver, self.timeout)
        result = connection.execute(sa.text(sql), dict(params or {}))
        description = getattr(result.cursor, "description", None)
        return Records(names=tuple(result.keys()), rows=result.all(), description=description or ())

    def driver_connection(self) -> Any:
        """The driver's own connection, or None."""
        return None if self._connection is None else self._driver

    def close(self) -> None:
        """Close the connection; a broken one is dropped."""
        held, self._connection = self._connection, None
        if held is not None:
            with contextlib.suppress(Exception):
                if not self.dialect.detaches:
                    self._driver.set_progress_handler(None, 0)
            with contextlib.suppress(Exception):
                held.close()

    def _look_at_file(self) -> tuple[int, int] | None:
        """Which file SQLite's path leads to now; None where there is none to look at.

        A file that was replaced or deleted stays readable through a connection that has it open, and never changes
        again: that would look like no rows for ever. One that is missing would be created, without the table."""
        if self.dialect.family != "sqlite" or isinstance(self.engine.pool, sa.pool.StaticPool):
            return None
        path = sqlite_path(self.engine.url)
        if path == ":memory:":
            return None
        try:
            found = Path(path).stat()
        except OSError:
            raise SourceUnavailable(
                f"There is no SQLite database file {path}.", next_step="Check the path in `url`."
            ) from None
        return found.st_dev, found.st_ino
