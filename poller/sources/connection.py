"""One connection, in autocommit, its session set up for reading pages."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

from poller import forks
from poller.databases import urls
from poller.errors import SourceUnavailable
from poller.sources.dialects import Dialect, read_only
from poller.sources.dialects.base import Records
from poller.sources.identity import sqlite_path
from poller.sources.user_sql.literals import escape_colons

_TEXTS_KEPT = 64


PATIENCE = 5.0
"""For so many seconds at most a fork waits for a page that another thread reads from a SQLite file."""


def read_url(url: str | URL | Engine) -> URL:
    """The URL of a text, a URL or an engine.

    Raises: ConfigError naming `url`; it does not repeat the text, which may hold a password.
    """
    if isinstance(url, Engine):
        return url.url
    if isinstance(url, URL):
        return url
    return urls.read_url(url, key="url")


def make_engine(url: URL, dialect: Dialect, timeout: timedelta) -> Engine:
    """An engine without a pool: the source holds one connection.

    Raises: ConfigError naming `url`, where the driver is not installed.
    """

    def connect_args(chosen: URL) -> dict[str, Any]:
        args = dialect.connect_args(chosen.get_driver_name(), timeout)
        return {name: value for name, value in args.items() if name not in chosen.query or name in dialect.forced}

    return urls.open_engine(
        url, connect_args, key="url", poolclass=NullPool, hide_parameters=True, skip_autocommit_rollback=True
    )


def quoter(engine: Engine) -> Callable[[str], str]:
    """Quotes a name where it needs it, ready for `sqlalchemy.text`, which doubles percents and reads colons itself."""
    preparer = engine.dialect.identifier_preparer
    doubles = bool(getattr(preparer, "_double_percents", False))

    def quote(name: str) -> str:
        quoted = preparer.quote(name)
        return escape_colons(quoted.replace("%%", "%") if doubles else quoted)

    return quote


class Database:
    """The held connection. Used by one thread at a time."""

    def __init__(self, engine: Engine, dialect: Dialect, timeout: timedelta, *, parse_json: bool = True) -> None:
        self.engine = engine
        self.dialect = dialect
        self.timeout = timeout
        self._parse_json = parse_json
        self.lenient = False
        """Whether values that the driver cannot convert are read as text: after a failure, while pages hold such
        text."""
        self.page_held_text: bool | None = None
        """Whether a page of the present work held such text; None where no page was read."""
        self._connection: Connection | None = None
        self._driver: Any = None
        self._texts: dict[str, sa.TextClause] = {}
        """Statements that ran before: one that is kept is not compiled again."""
        self._file: tuple[int, int] | None = None
        self._thread = 0
        """The one that opened the connection."""
        self.using = threading.RLock()
        """Held while a thread uses the connection: the tick's, or the one that reads ahead for it."""

    def before_fork(self) -> None:
        """Close a SQLite file: its locks are per process, and are lost when it is open across a fork. Where another
        thread is using it, the one that opened it waits a while for that; any other leaves it alone."""
        if self.dialect.family != "sqlite" or self._in_memory():
            return
        opened = self._thread == threading.get_ident()
        if self.using.acquire(timeout=PATIENCE) if opened else self.using.acquire(blocking=False):
            try:
                self.close()
            finally:
                self.using.release()

    def reset_after_fork(self) -> None:
        """In a child process: leave the parent's connection alone, and send nothing on it."""
        self.using = threading.RLock()
        if self._in_memory():
            return  # this process has its own copy of it
        forks.keep(self._connection, self._driver)
        self._connection = self._driver = None
        urls.abandon(self.engine)

    def _in_memory(self) -> bool:
        """Whether it is a SQLite database that ends with its connections: the program's own connections are then used,
        with their right to write. Any other connection is detached from the engine's pool."""
        if self.dialect.family != "sqlite":
            return False
        shared = isinstance(self.engine.pool, sa.StaticPool | sa.pool.SingletonThreadPool)
        return shared or sqlite_path(self.engine.url) == ":memory:"

    @property
    def is_open(self) -> bool:
        """Whether a connection is held."""
        return self._connection is not None

    def connection(self) -> Connection:
        """The held connection, opened and set up when there is none. Raises what the driver raises (where SQLite's file
        was replaced too), SourceUnavailable where SQLite's file is missing."""
        if self._connection is not None and self._file != self._look_at_file():
            self.close()
            # Like a broken connection: the source then forgets what it learned of the table, and reads again.
            raise OperationalError(None, None, Exception("the database file was replaced"))
        if self._connection is None:
            self._file = self._look_at_file()
            connection = self._opened()
            try:
                connection = connection.execution_options(isolation_level="AUTOCOMMIT")
                self._driver = connection.connection.driver_connection  # a detached connection no longer names it
                if not self._in_memory():
                    connection.detach()
                self.dialect.adopt(self._driver, self.timeout)
                self.dialect.read_json(self._driver, parsed=self._parse_json)
                for statement in self.dialect.session(connection, self.timeout):
                    connection.execute(sa.text(escape_colons(statement)))
                if not self._in_memory():
                    read_only.begin(connection, self.dialect.family)
            except BaseException:
                connection.close()
                raise
            self._connection, self._thread = connection, threading.get_ident()
        return self._connection

    def _opened(self) -> Connection:
        try:
            return self.engine.connect()
        except OSError as error:  # a driver that reads the files of TLS itself, before it connects
            raise SourceUnavailable(
                f"No connection can be made: {error.strerror or type(error).__name__}.",
                next_step="Check that this process may read the files that the options of `url` name, such as ssl_ca,"
                " and what stands in them.",
            ) from None

    def run(self, sql: str, params: Mapping[str, Any] | None = None) -> Records:
        """One statement in its own snapshot. Raises what the driver raises."""
        connection = self.connection()
        self.dialect.before(self._driver, self.timeout)
        lenient = self.dialect.lenient(self._driver) if self.lenient else contextlib.nullcontext()
        with lenient, self.dialect.keeping() as documents:
            result = connection.execute(self._text(sql), dict(params or {}))
            names, description = tuple(result.keys()), getattr(result.cursor, "description", None) or ()
            if not self.lenient:  # the driver's own records, with its errors translated as SQLAlchemy's rows have them
                rows = result.cursor_strategy.fetchall(result, result.cursor)
                return Records(names, rows, description, documents=documents)
            read = self.dialect.fetch_leniently(result)
        return Records(names, read.rows, description, any_text=read.any_text, escaped=read.escaped, documents=documents)

    def _text(self, sql: str) -> sa.TextClause:
        kept = self._texts.get(sql)
        if kept is None:
            if len(self._texts) >= _TEXTS_KEPT:
                self._texts.clear()
            kept = self._texts[sql] = sa.text(sql)
        return kept

    def read_leniently(self, error: BaseException) -> bool:
        """Read values that the driver cannot convert as text from now on; False where it failed for another reason, or
        they are read so already."""
        if self.lenient or not self.dialect.unreadable(error):
            return False
        if self.dialect.conversion_breaks:
            self.close()
        self.lenient = True
        return True

    def end_work(self, *, failed: bool = False) -> None:
        """The end of a piece of work: the next one reads as usual, unless a page held such text."""
        if failed:
            self.lenient = False
        elif self.page_held_text is not None:
            self.lenient = self.page_held_text
        self.page_held_text = None

    def driver_connection(self) -> Any:
        """The driver's connection, or None."""
        return None if self._connection is None else self._driver

    def close(self) -> None:
        """Close the connection, broken or not."""
        held, self._connection = self._connection, None
        if held is not None:
            with contextlib.suppress(Exception):
                if self._in_memory():
                    self._driver.set_progress_handler(None, 0)
            with contextlib.suppress(Exception):
                held.close()

    def _look_at_file(self) -> tuple[int, int] | None:
        """Which file SQLite's path leads to now; None for a database without a file.

        A file that was replaced or deleted stays readable through an open connection, and never changes again: that
        would look like no rows for ever. A missing one would be created, without the table."""
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
