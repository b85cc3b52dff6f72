"""Where a Microsoft Entra token may be sent: over verified TLS only, on this machine too, and to hosts of Azure's
databases, or those that `POLLER_IDENTITY_HOSTS` names. Nothing here connects."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from sqlalchemy.engine import URL

from poller import tls
from poller.databases import urls
from poller.databases.kinds import KINDS
from poller.errors import ConfigError

HOSTS = "POLLER_IDENTITY_HOSTS"
"""The app setting with further hosts that may be sent a token, separated by commas."""
_CLOUDS = {
    "windows.net": ("azure.com", ""),
    "usgovcloudapi.net": ("usgovcloudapi.net", "microsoftonline.us"),
    "chinacloudapi.cn": ("chinacloudapi.cn", "chinacloudapi.cn"),
}
"""By the end of the tokens' audience: the end of the hosts of PostgreSQL and MySQL, and of AZURE_AUTHORITY_HOST."""
_SERVICE = {"postgresql": "postgres", "mysql": "mysql"}
_DRIVERS = {family: kind.drivers[0] for family, kind in KINDS.items() if kind.drivers}
_OTHER_SIGN_INS = frozenset(
    {"uid", "user", "pwd", "password", "authentication", "trusted_connection", "dsn", "filedsn"}
)
_OF_THE_KEY = frozenset({"sslpassword", "ssl_key_password"})
"""Options that open the client's own key, and are no password of the user."""


def check(url: URL, key: str) -> None:
    """Raises: ConfigError, where no token may be sent to this URL. `key`: of the configuration, for the error."""
    family = _family(url)
    if family not in _DRIVERS:
        raise _refusal(
            key, f"has no meaning for {family}", "Remove it: Entra tokens are for PostgreSQL, MySQL and Azure SQL."
        )
    if url.get_driver_name() != _DRIVERS[family]:
        step = f"Write {url.get_backend_name()}+{_DRIVERS[family]}://..."
        raise _refusal(key, f"needs the driver {_DRIVERS[family]}", step)
    if urls.holds_secret(url.difference_update_query(_OF_THE_KEY)):
        raise _refusal(
            key,
            "and a password in the URL exclude each other",
            "Remove the password from the URL: a token takes its place.",
        )
    _check_user(url, family, key)
    judged = tls.judge(url, os.environ)
    hosts, why = judged or ([], "")
    if why:
        raise _refusal(key, f"needs verified TLS, and {place(url)} is not verified ({why})", tls.advice(url))
    allowed = {one.strip().lower() for one in os.environ.get(HOSTS, "").split(",")}
    strange = [host for host in hosts if _cloud(host, family) is None and host.lower() not in allowed]
    if strange or not hosts or any(host.startswith(("/", "@")) for host in hosts):
        named = ", ".join(strange) or "a socket of this machine"
        raise _refusal(
            key,
            f"sends no token to {named}, which is not a host of Azure's databases",
            f"Correct the host in the URL; if it is right, name it in the app setting {HOSTS}.",
        )
    if len({_cloud(host, family) for host in hosts}) > 1:
        raise _refusal(key, "cannot be used for hosts of several clouds", "Name hosts of one cloud in the URL.")


def _check_user(url: URL, family: str, key: str) -> None:
    """Of PostgreSQL and MySQL the URL names the user; of Azure SQL the token alone does."""
    if family != "mssql":
        if not url.username:
            step = "Write it before the host, an @ in it as %40: the name that the identity has in the database."
            raise _refusal(key, "needs the user's name in the URL", step)
        return
    text = url.query.get("odbc_connect", "")
    given = {name.strip().lower() for name in re.findall(r"(?:^|;)([^=;]*)=", text if isinstance(text, str) else "")}
    given |= {name.lower() for name in url.query} | ({"user"} if url.username else set())
    if given & _OTHER_SIGN_INS:
        names = ", ".join(sorted(given & _OTHER_SIGN_INS))
        raise _refusal(
            key, f"goes with no other way to sign in ({names})", "Remove it from the URL: the token says who it is."
        )
    if not text and not url.database:
        raise _refusal(
            key, "needs the database's name in the URL", "Without it the host is read as a data source's name."
        )


def _refusal(key: str, why: str, step: str) -> ConfigError:
    return ConfigError(f"`{key}` {why}.", key=key, next_step=step)


def _family(url: URL) -> str:
    name = url.get_backend_name()
    return {"mariadb": "mysql", "postgres": "postgresql"}.get(name, name)


def place(url: URL) -> str:
    """The server, for a person."""
    hosts, _ = tls.judge(url, os.environ) or ([url.host or ""], "")
    port = f":{url.port}" if url.port and len(hosts) == 1 else ""
    return f"{_family(url)} at {', '.join(hosts) or 'a socket'}{port}"


def _cloud(host: str, family: str) -> str | None:
    """The cloud in which a host is one of Azure's databases of this family; None for any other host."""
    name = host.lower().rstrip(".")
    for cloud, (end, _) in _CLOUDS.items():
        suffix = f".database.{cloud}" if family == "mssql" else f".{_SERVICE[family]}.database.{end}"
        if name.endswith(suffix):
            return cloud
    return None


def scope(url: URL, environ: Mapping[str, str]) -> str:
    """What the token is for. The cloud of a host that only the configuration knows is that of AZURE_AUTHORITY_HOST."""
    hosts, _ = tls.judge(url, environ) or ([], "")
    family = _family(url)
    authority = environ.get("AZURE_AUTHORITY_HOST", "").lower()
    theirs = next((cloud for cloud, (_, end) in _CLOUDS.items() if end and end in authority), "windows.net")
    cloud = next((found for host in hosts if (found := _cloud(host, family))), theirs)
    return f"https://{'' if family == 'mssql' else 'ossrdbms-aad.'}database.{cloud}/.default"
