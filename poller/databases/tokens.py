"""Microsoft Entra tokens in place of passwords: Azure Database for PostgreSQL and for MySQL, and Azure SQL.

Each connection asks the credential for its token, which is handed to the driver and kept nowhere here: in no URL, no
key of a pool, no engine. `check` says where one may be sent.

Sources: https://learn.microsoft.com/azure/postgresql/security/security-entra-configure,
https://learn.microsoft.com/azure/mysql/flexible-server/how-to-azure-ad,
https://learn.microsoft.com/sql/connect/odbc/using-azure-active-directory#authenticating-with-an-access-token
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import Engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import SQLAlchemyError

from poller import entra, tls
from poller.databases import urls
from poller.databases.kinds import KINDS
from poller.entra import Identity
from poller.errors import ConfigError
from poller.model.finding import Finding, ok

CHECK = "identity"
ACCESS_TOKEN = 1256
"""SQL_COPT_SS_ACCESS_TOKEN."""
NEXT_STEP = (
    "Sign in (az login), or give this app a managed identity (NAME__clientId: a user-assigned one; with"
    " `identity = true` AZURE_CLIENT_ID)."
)
REFUSED = (
    'Make a database user for this identity (docs/security.md, "Identities instead of passwords"), and check the'
    " user's name in the URL. The next connection takes a fresh token."
)
_SIGNS_IN: WeakKeyDictionary[Engine, Identity] = WeakKeyDictionary()


class NoToken(SQLAlchemyError):
    """No token can be had now, so that no connection is made. An outage, as if the server did not answer."""

    def __init__(self, message: str, next_step: str) -> None:
        super().__init__(message)
        self.message = message
        self.next_step = next_step


def chosen(setting: bool | str, environ: Mapping[str, str], *, key: str) -> Identity | None:
    """The identity that the key `identity` means: the app's own (`true`, of the client id AZURE_CLIENT_ID), or that of
    the settings with the prefix `setting`.

    Raises: ConfigError.
    """
    if setting is False:
        return None
    if setting is True:
        return Identity(environ.get("AZURE_CLIENT_ID", "").strip() or None)
    names = [f"{setting}__clientId", f"{setting}__credential"]
    known = {name.lower() for name, value in environ.items() if value.strip()}
    if known.isdisjoint(name.lower() for name in names):
        raise ConfigError(
            f'`{key}` = "{setting}" is not the prefix of an app setting that is set; looked for {" and ".join(names)}.',
            key=key,
            next_step=f"Set {names[0]} to the client id of a user-assigned identity, or {names[1]} to managedidentity"
            " for that of the app; or write `identity = true`.",
        )
    return entra.read_identity(setting, environ, key=key)


def open_engine(
    url: URL,
    connect_args: Callable[[URL], dict[str, Any]],
    *,
    key: str,
    identity: Identity | None,
    **options: Any,
) -> Engine:
    """As `urls.open_engine`, of an engine whose connections sign in with a token, if there is an identity.

    Args:
        key: of the URL; that of the identity is in the same table.
    Raises: ConfigError, of the identity too: a password beside it, another database or driver, a server that is not
        verified, or a host that is neither Azure's nor named by `POLLER_IDENTITY_HOSTS`.
    """
    of_identity = key.removesuffix("url") + "identity"
    if identity is not None:
        check(urls.with_installed_driver(url), of_identity)
    engine = urls.open_engine(url, connect_args, key=key, **options)
    if identity is not None:
        _sign_in(engine, identity, of_identity)
    return engine


def _sign_in(engine: Engine, identity: Identity, key: str) -> None:
    url, tokens = engine.url, _Tokens(identity)

    def connect(dialect: Any, _record: object, args: Any, options: dict[str, Any]) -> Any:
        try:
            check(url, key)  # the environment may have changed: PGSSLMODE, PGHOST
        except ConfigError as refused:
            raise NoToken(refused.message.rstrip("."), refused.next_step) from None
        token = tokens.take(scope(url, os.environ), place(url))
        try:
            return _connected(dialect, args, options, token)
        except dialect.loaded_dbapi.Error as error:
            tokens.doubt(token)
            error.args = tuple(one.replace(token, "***") if isinstance(one, str) else one for one in error.args)
            raise error from None

    event.listen(engine, "do_connect", connect)
    _SIGNS_IN[engine] = identity


def identity_of(engine: Engine) -> Identity | None:
    """The identity with whose tokens the engine's connections sign in."""
    return _SIGNS_IN.get(engine)


def findings(engine: Engine) -> list[Finding]:
    """What `check` says of a connection that signs in with a token; empty for any other."""
    identity = identity_of(engine)
    if identity is None:
        return []
    return [ok(CHECK, f"signs in to {place(engine.url)} as {identity}, with a token over verified TLS")]


def speaks_of_token(text: str) -> bool:
    """True if a server refuses a token, as Azure's databases say it."""
    return re.search(r"\btokens?\b|Entra|\bAAD\b|Azure AD|AADSTS", text) is not None


class _Tokens:
    """The tokens of one engine. What is kept of one is a digest, while it is not known whether it is any good."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity
        self._doubted = self._renewed = b""

    def take(self, wanted: str, where: str) -> str:
        """A token that is valid now. One with which no connection could be made is fetched again, once, by a credential
        that has none yet: the other would hand out the same until it expires.

        Args:
            wanted: the scope. where: the server, for the error.
        Raises: NoToken.
        """
        try:
            credential = entra.credential_of(self._identity)
            token = _checked(credential.get_token(wanted).token)
            digest = _digest(token)
            if digest == self._doubted and digest != self._renewed:
                self._renewed = digest
                entra.renew(credential)
                token = _checked(entra.credential_of(self._identity).get_token(wanted).token)
        except Exception as error:  # noqa: BLE001 - of any part of the chain; their texts are not shown
            said = re.search(r"AADSTS\d+", str(error))
            why = f"{type(error).__name__}{f', {said[0]}' if said else ''}"
            raise NoToken(f"no token for {where} as {self._identity}: {why}", NEXT_STEP) from None
        return token

    def doubt(self, token: str) -> None:
        """No connection was made with it."""
        self._doubted = _digest(token)


class NotAToken(ValueError):
    """What was issued is none."""


def _checked(token: object) -> str:
    """A token as HTTP carries one: letters, digits and signs. A driver would quote another in its error, or fail as if
    a row's value were wrong. Raises: NotAToken."""
    if not isinstance(token, str) or re.fullmatch(r"[!-~]+", token) is None:
        raise NotAToken
    return token


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _connected(dialect: Any, args: Any, options: dict[str, Any], token: str) -> Any:
    if dialect.name == "mssql":
        raw = token.encode("utf-16-le")
        before = {**options.get("attrs_before", {}), ACCESS_TOKEN: struct.pack(f"<I{len(raw)}s", len(raw), raw)}
        first, *others = args  # SQLAlchemy lets a URL without a user sign in with Windows' own
        text = first.replace(";Trusted_Connection=Yes", "")
        return dialect.connect(text, *others, **{**options, "attrs_before": before})
    if dialect.name == "postgresql":  # where libpq encrypts by Kerberos, it does not use TLS
        return dialect.connect(*args, **{**options, "password": token, "gssencmode": "disable"})
    made = _over_tls()(*args, **{**options, "password": token})
    made.password = b""  # it would keep it
    return made


def _over_tls() -> Any:
    """PyMySQL's connection, which before 1.2 goes on in clear text where the server offers no TLS."""
    import pymysql
    from pymysql.constants import CLIENT

    base: Any = pymysql.connections.Connection

    class OverTls(base):  # type: ignore[misc]
        def _request_authentication(self) -> None:
            if not self.server_capabilities & CLIENT.SSL:
                raise pymysql.err.OperationalError(2026, "the server offers no TLS")
            super()._request_authentication()

    return OverTls


# ------------------------------------------------------------------------------------------------- where a token may go
# Where a Microsoft Entra token may be sent: over verified TLS only, on this machine too, and to hosts of Azure's
# databases, or those that `POLLER_IDENTITY_HOSTS` names. Nothing here connects.

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
    family = urls.family_of(url)
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


def place(url: URL) -> str:
    """The server, for a person."""
    hosts, _ = tls.judge(url, os.environ) or ([url.host or ""], "")
    port = f":{url.port}" if url.port and len(hosts) == 1 else ""
    return f"{urls.family_of(url)} at {', '.join(hosts) or 'a socket'}{port}"


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
    family = urls.family_of(url)
    authority = environ.get("AZURE_AUTHORITY_HOST", "").lower()
    theirs = next((cloud for cloud, (_, end) in _CLOUDS.items() if end and end in authority), "windows.net")
    cloud = next((found for host in hosts if (found := _cloud(host, family))), theirs)
    return f"https://{'' if family == 'mssql' else 'ossrdbms-aad.'}database.{cloud}/.default"
