"""Database URLs of sources and state stores: reading, checking, engines for them, and which database they mean.

Nothing here connects. No error repeats a URL or a part of it: it may hold a password.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

from sqlalchemy import create_engine
from sqlalchemy.engine import URL, Engine, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError
from sqlalchemy.pool import SingletonThreadPool, StaticPool

from poller import extras, forks
from poller.databases.kinds import KINDS, family_named, kind_of
from poller.errors import ConfigError
from poller.model.fingerprint import DatabaseIdentity
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


# ------------------------------------------------------------------------------------------- which database a URL means
# Without user, password and driver, and of its options only those that name a host, a port or a database (sources.md,
# "Fingerprint").

_SERVER = ("server", "addr", "address", "network address", "data source", "host")
_DATABASE = ("database", "initial catalog", "db")


def family_of(url: URL) -> str:
    """The family in the table of kinds, or the backend's own name."""
    return family_named(url.get_backend_name())


def identify(url: URL) -> DatabaseIdentity:
    """The identity that the fingerprint hashes. Opens nothing."""
    family = family_of(url)
    kind = KINDS.get(family)
    if kind is not None and kind.is_file:
        return DatabaseIdentity(dialect=family, database=sqlite_path(url))
    if "odbc_connect" in url.query:
        return _from_odbc(family, _one(url.query["odbc_connect"]))
    # An option wins over the same part before it, as in SQLAlchemy's dialects.
    host = _option(url, kind.socket_option) if kind is not None and kind.socket_option else ""
    socket = bool(host)  # a file: it has no port
    host, port = host or _option(url, "host") or url.host or "", url.port
    host, port = _with_ports(host, _option(url, "port"), port)
    if socket:
        port, default = None, None
    elif kind is not None and kind.names_instances:
        host, found = _mssql_server(host)
        port = port or found
        default = None if "\\" in host and port is None else _port(family)
    else:
        host, found = _host_and_port(host)
        port = port or found
        default = _port(family)
    database = _option(url, "database" if kind is None else kind.database_option) or url.database
    return DatabaseIdentity(
        dialect=family,
        host=_lower(host) or ("localhost" if default else None),
        port=port or default,
        database=database or None,
    )


def names_host(url: URL) -> bool:
    """True if the URL itself names the server."""
    return bool(url.host or any(_option(url, name) for name in ("host", "hostaddr", "unix_socket")))


def sqlite_path(url: URL) -> str:
    """The absolute path of a SQLite file, or `:memory:`."""
    name = url.database or ""
    if name.startswith("file:"):
        name = unquote(urlsplit(name).path)
    if name in {"", ":memory:"} or url.query.get("mode") == "memory":
        return ":memory:"
    return os.path.abspath(name)  # noqa: PTH100 - Path.absolute() keeps `..`


def place(identity: DatabaseIdentity) -> str:
    """The database for a person: `postgresql at db.example:5432, database shop`."""
    if identity.host is None:
        return f"{identity.dialect} {identity.database or 'database'}"
    port = f":{identity.port}" if identity.port else ""
    return f"{identity.dialect} at {identity.host}{port}" + (
        f", database {identity.database}" if identity.database else ""
    )


def _option(url: URL, name: str) -> str:
    return _one(url.query.get(name, ""))


def _with_ports(host: str, option: str, port: int | None) -> tuple[str, int | None]:
    """Host and port, with the option `port`: several hosts may have a port each."""
    ports = [part.strip() for part in option.split(",")]
    if not all(part.isdigit() for part in ports):
        return host, port
    hosts = host.split(",")
    if len(set(ports)) == 1:
        return host, int(ports[0])
    if len(hosts) != len(ports):
        return host, port
    return ",".join(f"{name}:{number}" for name, number in zip(hosts, ports, strict=True)), None


def _one(value: str | tuple[str, ...]) -> str:
    return value if isinstance(value, str) else ",".join(value)


def _lower(host: str) -> str:
    return host if host.startswith("/") else host.lower()  # a socket's directory is a path: its case counts


def _port(family: str) -> int | None:
    return KINDS[family].port if family in KINDS else None


def _host_and_port(host: str) -> tuple[str, int | None]:
    name, colon, port = host.rpartition(":")
    if colon and port.isdigit() and "," not in host and ":" not in name:
        return name, int(port)
    return host, None


def _from_odbc(family: str, text: str) -> DatabaseIdentity:
    parts = dict(_odbc_parts(text))
    server = next((parts[k] for k in _SERVER if k in parts), "")
    host, port = _mssql_server(server)
    if not host and "dsn" in parts:
        host = "dsn:" + parts["dsn"]
    elif port is None and "port" in parts and parts["port"].isdigit():
        port = int(parts["port"])
    if port is None and "\\" not in host and not host.startswith("dsn:"):
        port = _port(family)
    database = next((parts[k] for k in _DATABASE if k in parts), None)
    return DatabaseIdentity(dialect=family, host=host.lower() or None, port=port, database=database or None)


def _mssql_server(server: str) -> tuple[str, int | None]:
    r"""`tcp:host\instance,1433` as host and port. A port makes the instance's name meaningless."""
    host, _, port = server.removeprefix("tcp:").partition(",")
    host = host.strip()
    if port.strip().isdigit():
        return host.partition("\\")[0], int(port)
    return host, None


def _odbc_parts(text: str) -> Iterator[tuple[str, str]]:
    """`key=value;key={va;lue}`: keys in lower case. Values in braces may hold semicolons; `}}` is a brace."""
    rest = text
    while rest.strip("; \t"):
        key, _, rest = rest.lstrip("; \t").partition("=")
        rest = rest.lstrip()
        if rest.startswith("{"):
            value, i = "", 1
            while i < len(rest):
                if rest[i] == "}":
                    if rest[i + 1 : i + 2] != "}":
                        break
                    i += 1
                value += rest[i]
                i += 1
            rest = rest[i + 1 :].partition(";")[2]
        else:
            value, _, rest = rest.partition(";")
        yield key.strip().lower(), value.strip()
