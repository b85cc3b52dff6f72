"""Database URLs of sources and state stores: reading, checking, and engines for them.

Nothing here connects. No error repeats a URL or a part of it: it may hold a password.
"""

from __future__ import annotations

import contextlib
import importlib.util
import re
from collections.abc import Callable
from typing import Any

from sqlalchemy import create_engine
from sqlalchemy.engine import URL, Engine, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError
from sqlalchemy.pool import SingletonThreadPool, StaticPool

from poller import extras, forks
from poller.databases.kinds import kind_of
from poller.errors import ConfigError
from poller.model.redact import redact

_MODULES = {"mysqldb": "MySQLdb", "mariadbconnector": "mariadb", "mysqlconnector": "mysql.connector"}


HIGHEST_PORT = 65_535
_MAY_HOLD_AT = frozenset({"user", "username", "uid", "password", "passwd", "pwd", "sslpassword", "odbc_connect"})
"""Options whose values name a user, as `poller@server`, or are secrets: neither is shown."""


def read_url(text: str, *, key: str) -> URL:
    """Parse a URL.

    Args:
        key: where it was configured, for the error.
    Raises: ConfigError.
    """
    if not text.strip():
        raise ConfigError(
            f"`{key}` is empty.", key=key, next_step="Write a SQLAlchemy URL: dialect://user@host/database."
        )
    try:
        text.encode()  # what UTF-8 cannot say comes out of an environment that is not UTF-8
        parsed = make_url(text.strip())
    except (ArgumentError, ValueError):  # from None: both may quote the text
        raise ConfigError(
            f"`{key}` is not a SQLAlchemy URL.",
            key=key,
            # No example with a password: whatever looks like one is removed from every message.
            next_step="Write dialect://user@host:port/database, the password after the user with a colon between them, "
            "special characters percent-encoded.",
        ) from None
    if _stray_at(text.strip(), parsed):
        raise ConfigError(
            f"`{key}` holds an @ in its host, database or an option: what stands before it may be part of a password.",
            key=key,
            next_step="Write an @ in the password, in the database's name or in an option as %40.",
        )
    if parsed.port is not None and parsed.port > HIGHEST_PORT:
        raise ConfigError(
            f"`{key}` has a port above {HIGHEST_PORT}: it may be a password, with no host after it.",
            key=key,
            next_step="Write dialect://user@host:port/database, the password after the user with a colon between them.",
        )
    return parsed.set(drivername="postgresql") if parsed.drivername == "postgres" else parsed


_SECRET_OPTION = re.compile(r"pass(?!file)|pwd|secret|token|credential|^(?:hex|text)?key$", re.IGNORECASE)
"""Options of drivers whose values are secrets. A `passfile` or an `sslkey` only says where one is."""


def holds_secret(url: URL) -> bool:
    """True if any part of the URL holds a password, a passphrase, a key or a token."""
    if url.password or any(_SECRET_OPTION.search(name) and value for name, value in url.query.items()):
        return True
    values = [one for value in url.query.values() for one in ([value] if isinstance(value, str) else value)]
    return any(redact(value) != value for value in values)  # odbc_connect=...;PWD=...


def open_engine(url: URL, connect_args: Callable[[URL], dict[str, Any]], *, key: str, **options: Any) -> Engine:
    """An engine, by the first of the database's drivers that is installed where the URL names none.

    Args:
        connect_args: arguments for the driver that was chosen. options: of SQLAlchemy's `create_engine`.
    Raises: ConfigError: the driver is not installed, cannot be loaded, or SQLAlchemy refuses the URL.
    """
    url = with_installed_driver(url)
    try:
        return create_engine(url, connect_args=connect_args(url), **options)
    except (ImportError, NoSuchModuleError) as error:
        raise _without_driver(url, error, key) from None
    except (ArgumentError, TypeError, ValueError) as error:  # what it says may quote an option's value
        raise ConfigError(
            f"`{key}` is refused by SQLAlchemy: {type(error).__name__}.",
            key=key,
            next_step="Look at the options of the URL (after the ?): each needs a value of its type.",
        ) from None


def use_utf8mb4(dbapi: Any) -> None:
    """Make a MySQL or MariaDB session use utf8mb4, whatever the URL, an option file or `init_command` says.

    Client and server must agree, so the driver itself sets it. MariaDB Connector/Python always uses utf8mb4.

    Args:
        dbapi: the driver's connection.
    """
    if hasattr(dbapi, "set_character_set"):  # pymysql, mysqlclient
        dbapi.set_character_set("utf8mb4")
    elif hasattr(dbapi, "set_charset_collation"):  # MySQL Connector/Python
        dbapi.set_charset_collation("utf8mb4")


def abandon(engine: Engine) -> None:
    """In a child process: leave an engine's connections to the parent, if they stay open, and make new ones. An
    in-memory database is in this process, and kept."""
    if engine.dialect.name == "sqlite" and isinstance(engine.pool, StaticPool | SingletonThreadPool):
        return
    forks.keep(engine.pool)
    engine.dispose(close=False)


def _stray_at(text: str, parsed: URL) -> bool:
    """True if part of an unencoded password was read as a host, a database or an option, which messages show."""
    if parsed.get_backend_name() == "sqlite":
        return False
    meant = make_url(text.replace("%40", "_"))
    options = [part for part in text.partition("?")[2].split("&") if part.partition("=")[0].lower() not in _MAY_HOLD_AT]
    return any("@" in part for part in (meant.host or "", meant.database or "", *options))


def with_installed_driver(url: URL) -> URL:
    """The URL with the first of the database's drivers that is installed, if it names none."""
    known = kind_of(url.drivername)
    if known is None or not known.drivers:  # unknown to us, or named with its driver
        return url
    for driver in known.drivers:
        with contextlib.suppress(ImportError):
            if importlib.util.find_spec(_MODULES.get(driver, driver)) is not None:
                return url.set(drivername=f"{url.drivername}+{driver}")
    return url.set(drivername=f"{url.drivername}+{known.drivers[0]}")


def _without_driver(url: URL, error: ImportError | NoSuchModuleError, key: str) -> ConfigError:
    backend, _, driver = url.drivername.partition("+")
    name = getattr(error, "name", None) or driver or backend
    if isinstance(error, ImportError) and not isinstance(error, ModuleNotFoundError):
        return ConfigError(
            f"`{key}` needs the database driver {name}, which is installed but cannot be loaded: {error}.",
            key=key,
            next_step="Install the system library that it needs.",
        )
    known = kind_of(backend)
    if known is None or not known.drivers:
        step = f"Run: pip install {name}" if driver else "Install SQLAlchemy's dialect for it."
    elif driver == known.drivers[0]:
        step = extras.step(known.extra)
    else:
        step = f"{extras.step(known.extra)}, and write {backend}+{known.drivers[0]}://... Or install {name}."
    return ConfigError(f"`{key}` needs the database driver {name}, which is not installed.", key=key, next_step=step)
