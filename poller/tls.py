"""Verification of the server by connections that leave this machine.

Judged by the configuration: nothing here connects, and nothing is looked up. Encryption alone is not enough: without
verification an attacker in between can answer as the server, read the password and change rows. Sources: libpq's
sslmode (https://www.postgresql.org/docs/current/libpq-ssl.html), SQLAlchemy's `ssl_*` options of MySQL's drivers,
`Encrypt` and `TrustServerCertificate` of the ODBC driver, whose version 18 verifies by default
(https://learn.microsoft.com/sql/connect/odbc/dsn-connection-string-attribute).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from poller.model.finding import Finding, ok, warn

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

CHECK = "tls"
_YES = frozenset({"1", "t", "true", "y", "yes", "on"})
_STEPS = {
    "postgresql": "Add sslmode=verify-full&sslrootcert=CA.pem to the options of the URL (from libpq 16 on"
    " sslrootcert=system).",
    "mysql": "Add ssl_ca=CA.pem to the options of the URL (with mysqlclient ssl_mode=VERIFY_IDENTITY too, with"
    " mysqlconnector ssl_verify_identity=true, with mariadbconnector ssl_verify_cert=true).",
    "mssql": "Add Encrypt=yes&TrustServerCertificate=no to the options of the URL, with ODBC Driver 17 or 18.",
}
_REPAIRS = {
    "postgresql": "sslrootcert in the options of the URL must name the authority that signed the server's certificate,"
    " its host a name of the certificate, and the server must have ssl = on.",
    "mysql": "ssl_ca in the options of the URL must name the authority that signed the server's certificate, its host a"
    " name of the certificate, and the server must have ssl_cert and ssl_key.",
}


def is_loopback(host: str) -> bool:
    """True if data sent to this host stays on this machine."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _is_here(host: str) -> bool:
    """The same for a driver's host, which may be a socket, or one of SQL Server's names for this machine."""
    return is_loopback(host) or host in {".", "(local)"} or host.lower().startswith(("(localdb)", "/", "@"))


def of_database(url: URL, environ: Mapping[str, str]) -> list[Finding]:
    """What `check` says of a connection to a database; empty for a file, or an unknown kind of database.

    Args:
        url: of the database. environ: libpq's variables, for what the URL does not say.
    """
    judged = judge(url, environ)
    if judged is None:
        return []
    hosts, why = judged
    away = [host for host in hosts if not _is_here(host)]
    if not away:
        return [ok(CHECK, "the connection to the database does not leave this machine")]
    if not why:
        return [ok(CHECK, f"the certificate of {', '.join(away)} is verified")]
    message = (
        f"The connection to {', '.join(away)} is not verified ({why}): others in between can answer as the server."
    )
    return [warn(CHECK, message, advice(url))]


def judge(url: URL, environ: Mapping[str, str]) -> tuple[list[str], str] | None:
    """The hosts that a connection goes to (none: a socket of this machine), and why a server there is not verified,
    empty if it is; None for an unknown kind of database. Takes what `of_database` takes."""
    judged_by = {"postgresql": _postgresql, "mysql": _mysql, "mssql": _mssql}.get(_family(url))
    if judged_by is None:
        return None
    options = {name.lower(): value if isinstance(value, str) else ",".join(value) for name, value in url.query.items()}
    return judged_by(url, options, environ)


def advice(url: URL) -> str:
    """What makes a connection to such a database verify the server."""
    return _STEPS[_family(url)]


def repair(url: URL) -> str:
    """What must hold so that TLS with such a database does not fail."""
    return _REPAIRS[_family(url)]


def _family(url: URL) -> str:
    return {"mariadb": "mysql", "postgres": "postgresql"}.get(url.get_backend_name(), url.get_backend_name())


def of_address(
    address: str, *, step: str = "Write https:// in the connection string or in blobServiceUri."
) -> list[Finding]:
    """What `check` says of the address of a storage service. `step`: what makes it https."""
    parts = urlsplit(address)
    if parts.scheme == "https" or is_loopback(parts.hostname or ""):
        return [ok(CHECK, "storage is reached over https, or on this machine")]
    message = f"Storage is reached over plain http at {parts.hostname}: others on the way can read and change the data."
    return [warn(CHECK, message, step)]


def _postgresql(url: URL, options: Mapping[str, str], environ: Mapping[str, str]) -> tuple[list[str], str]:
    if "service" in options and "sslmode" not in options:
        return ["the server of a service file"], "what it says of sslmode is not looked up"
    given = options.get("hostaddr") or options.get("host") or url.host or environ.get("PGHOST", "")
    system = options.get("sslrootcert", environ.get("PGSSLROOTCERT", "")) == "system"
    mode = options.get("sslmode") or environ.get("PGSSLMODE") or ("verify-full" if system else "prefer")
    hosts = [re.sub(r":\d+$", "", host) if host.count(":") == 1 else host for host in given.split(",") if host]
    return hosts, "" if mode == "verify-full" else f"sslmode is {mode}"


def _mysql(url: URL, options: Mapping[str, str], _: Mapping[str, str]) -> tuple[list[str], str]:
    if options.get("unix_socket"):
        return [], ""
    if any(name in options for name in ("read_default_file", "read_default_group")) and not url.host:
        return ["the server of an option file"], "what it says of TLS is not looked up"
    driver = url.drivername.partition("+")[2] or "pymysql"
    ca = bool(options.get("ssl_ca") or options.get("ssl_capath"))
    # These SQLAlchemy hands to PyMySQL beside the others, which then no longer count.
    plain = not any(name in options for name in ("ssl_disabled", "ssl_verify_cert", "ssl_verify_identity"))
    verified = {
        "pymysql": ca and plain and options.get("ssl_check_hostname", "true").lower() in _YES,
        "mysqldb": options.get("ssl_mode", "").upper() == "VERIFY_IDENTITY",
        "mysqlconnector": ca and options.get("ssl_verify_identity", "").lower() in _YES,
        "mariadbconnector": options.get("ssl_verify_cert", "").lower() in _YES,
    }.get(driver, False)
    return [options.get("host") or url.host or "localhost"], "" if verified else "no certificate authority is given"


def _mssql(url: URL, options: Mapping[str, str], _: Mapping[str, str]) -> tuple[list[str], str]:
    parts = dict(options)
    for name, value in re.findall(r"([\w ]+)=(\{(?:[^}]|\}\})*\}|[^;]*)", options.get("odbc_connect", "")):
        parts[name.strip().lower()] = value.strip("{} ")
    server = next(
        (parts[key] for key in ("server", "addr", "address", "data source", "host") if key in parts), url.host
    )
    host = re.sub(r"^tcp:", "", server or "localhost").partition(",")[0].partition("\\")[0]
    if "pymssql" in url.drivername:
        return [host], "pymssql verifies nothing unless it is asked to"
    if parts.get("trustservercertificate", "no").lower() in _YES:
        return [host], "TrustServerCertificate is on"
    version = re.search(r"odbc driver (\d+)", parts.get("driver", "").lower().replace("+", " "))
    default = "yes" if version and int(version[1]) >= 18 else "no"
    encrypt = parts.get("encrypt", default).lower()
    return [host], "" if encrypt in _YES | {"mandatory", "strict"} else "Encrypt is off"
