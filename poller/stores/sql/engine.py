"""Connections with time limits, in autocommit, that are renewed after an outage.

Autocommit, because every change here is one statement: a process that is stopped between a statement and its COMMIT
would keep a row locked, and every other poller waiting, until it continues.
"""

from __future__ import annotations

import os
import shlex
import socket
import sqlite3
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from weakref import WeakKeyDictionary

from sqlalchemy import Engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import DisconnectionError

from poller.databases import tokens
from poller.databases.urls import read_url, use_utf8mb4
from poller.errors import ConfigError
from poller.files import OTHERS, create_private
from poller.model.finding import Finding, ok, warn
from poller.ports import DEFAULT_TIMEOUT, Timeout

KEY = "state.url"
# Gateways forget idle connections silently (Azure's after 4 minutes).
_SECONDS_A_CONNECTION_LIVES = 120
_ABSENT: WeakKeyDictionary[Engine, Callable[[], bool]] = WeakKeyDictionary()


def engine_for(url: str, directory: Path, identity: bool | str = False) -> Engine:
    """A new engine. A relative SQLite path is in `directory`. Its file is created, but no folder: with a mistyped path
    every row would be delivered again. `identity`: as of `[state]`.

    Raises: ConfigError (not a URL, no such driver, an in-memory SQLite database, an identity that cannot be used).
    """
    parsed = read_url(url, key=KEY)
    backend = parsed.get_backend_name()
    if backend == "sqlite":
        parsed = _sqlite_file(parsed, directory)
    engine = tokens.open_engine(
        parsed,
        _connect_args,
        key=KEY,
        identity=tokens.chosen(identity, os.environ, key="state.identity"),
        isolation_level="AUTOCOMMIT",
        skip_autocommit_rollback=True,
        pool_recycle=_SECONDS_A_CONNECTION_LIVES,
        pool_use_lifo=True,
        pool_timeout=DEFAULT_TIMEOUT.connect + DEFAULT_TIMEOUT.read,
        hide_parameters=True,
    )
    if backend == "sqlite":
        event.listen(engine, "connect", _prepare_sqlite)
        _watch_file(engine)
    if backend in {"mysql", "mariadb"}:
        event.listen(engine, "connect", lambda dbapi_connection, _record: use_utf8mb4(dbapi_connection))
    return engine


def is_absent(engine: Engine) -> bool:
    """True if it is a SQLite file of ours that does not exist yet: any query would create it."""
    look = _ABSENT.get(engine)
    return look is not None and look()


def describe(url: URL) -> str:
    """Which database it is, for a person: no user, no password, no options."""
    backend = url.get_backend_name()
    if backend == "sqlite":
        return f"SQLite file {url.database}"
    port = f":{url.port}" if url.port else ""
    host = f" at {url.host}{port}" if url.host else ""
    return f"{backend} database {url.database or '(default)'}{host}"


def rights(engine: Engine) -> list[Finding]:
    """The finding that others than its owner may read or write a SQLite file; empty for other databases, and without a
    file."""
    path = Path(engine.url.database or "")
    if engine.dialect.name != "sqlite" or os.name == "nt" or not path.is_file():
        return []
    mode = stat.S_IMODE(path.stat().st_mode)
    if not mode & OTHERS:
        return [ok("state_file", f"only its owner may read {path.name}")]
    message = f"{path} has the rights {mode:04o}: others may read or change checkpoints."
    return [warn("state_file", message, f"chmod 600 {shlex.quote(str(path))}")]


class Watchdog:
    """Ends a call into a driver that got no answer within `seconds`, by shutting down its socket.

    Few drivers have such a limit. The driver then reports a broken connection, and the pool replaces it. It does
    nothing for a driver that does not show its socket.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.expired = False
        self._descriptor: int | None = None
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None

    def watch(self, dbapi_connection: Any) -> None:
        """Start the time. Raises: RuntimeError where this process may not start another thread."""
        self._descriptor = _descriptor(dbapi_connection)
        if self._descriptor is not None:
            self._timer = threading.Timer(self.seconds, self._expire)
            self._timer.name, self._timer.daemon = "poller-store-watchdog", True
            self._timer.start()

    def stop(self) -> None:
        """The call has ended."""
        with self._lock:
            self._descriptor = None
        if self._timer is not None:
            self._timer.cancel()

    def _expire(self) -> None:
        with self._lock:
            if self._descriptor is None:
                return
            self.expired = True
            with (
                suppress(OSError),
                socket.socket(fileno=socket.dup(self._descriptor)) as line,
            ):  # the driver keeps its own
                line.shutdown(socket.SHUT_RDWR)


def limit_lock_wait(dialect: str, dbapi_connection: Any, timeout: Timeout) -> None:
    """SQLite waits for its lock, not for a server: `timeout` bounds that wait."""
    if dialect == "sqlite":
        milliseconds = int((timeout.connect + timeout.read) * 1000)
        dbapi_connection.execute(f"PRAGMA busy_timeout = {milliseconds}").close()


def _sqlite_file(url: URL, directory: Path) -> URL:
    database = url.database or ""
    if database in {"", ":memory:"} or "mode=memory" in database:
        raise ConfigError(
            f"{KEY} is an in-memory SQLite database, which forgets the checkpoint with the process.",
            key=KEY,
            next_step='Name a file, such as sqlite:///state.db, or set store = "memory".',
        )
    if database.startswith("file:"):
        return url
    path = (directory / database).absolute()
    return url.set(database=str(path))


def _connect_args(url: URL) -> dict[str, Any]:
    connect, read = DEFAULT_TIMEOUT.connect, DEFAULT_TIMEOUT.read
    driver = url.get_driver_name()
    match url.get_backend_name(), driver:
        case "sqlite", _:
            return {"timeout": connect + read}
        case "postgresql", "psycopg":
            return {"connect_timeout": int(connect), "prepare_threshold": None}  # poolers lose prepared statements
        case "postgresql", "psycopg2":
            return {"connect_timeout": int(connect)}
        case (("mysql" | "mariadb"), "pymysql"):
            return {"connect_timeout": connect, "read_timeout": read, "write_timeout": read}
        case "mssql", "pyodbc":
            return {"timeout": int(connect)}
    return {}


def _prepare_sqlite(dbapi_connection: Any, _record: object) -> None:
    """WAL: readers never wait for a writer. FULL: a commit that was acknowledged survives a power failure."""
    # Unlike other statements the switch to WAL does not wait for its lock: another process may be switching.
    import time

    for wait in (0.01, 0.05, 0.2, 0.5, 1.0, None):
        try:
            dbapi_connection.execute("PRAGMA journal_mode = WAL").close()
            break
        except sqlite3.OperationalError as busy:
            if "readonly" in str(busy):  # it can still be read; a write will report it
                return
            if wait is None or "locked" not in str(busy):
                raise
            time.sleep(wait)
    dbapi_connection.execute("PRAGMA synchronous = FULL").close()


def _look(path: Path) -> tuple[int, int] | None:
    """Which file it is; None if there is none."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:  # a share that is away, a folder that may not be entered: reported as SQLite would
        raise sqlite3.OperationalError(f"the file cannot be accessed: {error.strerror}") from None
    return found.st_dev, found.st_ino


def _still(path: Path) -> tuple[bool, int, int] | None:
    """For a read-only file in a read-only folder: whether its log exists, and what changes when it is written to. None
    for any other file."""
    if not path.exists() or os.access(path, os.W_OK) or os.access(path.parent, os.W_OK):
        return None
    found = path.stat()
    return path.with_name(f"{path.name}-wal").exists(), found.st_mtime_ns, found.st_size


def _create(path: Path) -> None:
    """Create a missing file for its owner only: SQLite would create one that everybody may read. The files of its log
    get the same rights. A dangling link is not followed."""
    try:
        os.close(create_private(path))
    except FileExistsError:
        if path.is_symlink() and not path.exists():
            raise sqlite3.OperationalError(f"{path} is a dangling link: remove it, or correct state.url") from None
    except OSError as error:
        if not path.exists():
            raise sqlite3.OperationalError(f"the file cannot be created: {error.strerror}") from None


def _watch_file(engine: Engine) -> None:
    """Never continue in a file that was replaced: no other process would see what is written there. One that was
    deleted is not created again: that would lose the checkpoint."""
    database = engine.url.database or ""
    is_uri = database.startswith("file:")
    path = Path(unquote(urlsplit(database).path) if is_uri else database)
    seen = False

    def refuse_missing() -> None:
        there = _look(path) is not None
        if not there and not is_uri and not path.parent.is_dir():
            raise sqlite3.OperationalError(f"there is no folder {path.parent}: correct state.url, or create it")
        if seen and not there:
            raise sqlite3.OperationalError(
                "the file was deleted while it was in use; restore it, or restart this process to begin without it"
            )

    def connect(_dialect: object, _record: object, _args: object, options: dict[str, Any]) -> Any:
        refuse_missing()
        if not is_uri:
            _create(path)
        if not is_uri and (as_it_is := _still(path)) is not None and not as_it_is[0]:
            # SQLite cannot open it otherwise: it would have to create the files of its log first.
            return sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True, **options)
        return None

    def absent() -> bool:
        with suppress(sqlite3.OperationalError, OSError):  # reported when it is opened
            return not seen and not is_uri and _look(path) is None and path.parent.is_dir()
        return False

    def opened(_dbapi_connection: object, record: Any) -> None:
        nonlocal seen
        record.info["file"], record.info["still"] = _look(path), _still(path)
        seen = True

    def taken(_dbapi_connection: object, record: Any, _proxy: object) -> None:
        if record.info["file"] != _look(path):
            refuse_missing()
            raise DisconnectionError("the file was replaced")
        if record.info["still"] != _still(path):  # SQLite does not notice changes of a file opened as immutable
            raise DisconnectionError("the file was written to")

    _ABSENT[engine] = absent
    event.listen(engine, "do_connect", connect)
    event.listen(engine, "connect", opened)
    event.listen(engine, "checkout", taken)


def _descriptor(dbapi_connection: Any) -> int | None:
    for holder in (dbapi_connection, getattr(dbapi_connection, "_sock", None)):
        fileno = getattr(holder, "fileno", None)
        if callable(fileno):
            with suppress(Exception):
                return int(fileno())
    return None
