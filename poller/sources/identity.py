"""Which database a URL means: without user, password and driver, and of its options only those that name a host, a port
or a database (sources.md, "Fingerprint")."""

from __future__ import annotations

import os
from collections.abc import Iterator
from urllib.parse import unquote, urlsplit

from sqlalchemy.engine import URL

from poller.databases.kinds import KINDS, family_named
from poller.model.fingerprint import DatabaseIdentity

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
