"""Which storage account is meant: by a connection string, or by app settings as Azure Functions names them. Nothing
here connects. No message repeats a value that may be a secret, and none leaves this machine in clear text.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from poller import entra
from poller.errors import ConfigError
from poller.tls import is_loopback

KEY = "state.connection"
_DEVELOPMENT_ACCOUNT = "devstoreaccount1"
# Published, and the same in every emulator: https://learn.microsoft.com/azure/storage/common/storage-use-azurite
_DEVELOPMENT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_DEVELOPMENT_PORT = 10000

Service: TypeAlias = Literal["blob", "queue", "table"]
"""A service of a storage account."""


@dataclass(frozen=True, slots=True)
class AccountIdentity:
    """An account reached without a key. `urls`: of its services, as far as a setting says them; `who` signs in."""

    urls: Mapping[Service, str]
    who: entra.Identity

    def url(self, service: Service, connection: str, *, why: str) -> str:
        """Where that service of the account is. `connection`: the name of the setting; `why`: what needs it.

        Raises: ConfigError with key `state.connection`.
        """
        if service in self.urls:
            return self.urls[service]
        known = " and ".join(f"{one}s" for one in self.urls)
        raise ConfigError(
            f'{KEY} = "{connection}" names an account for {known}, and none for {service}s: {why} needs '
            f"{connection}__{service}ServiceUri.",
            key=KEY,
            next_step=f"Set {connection}__{service}ServiceUri to https://ACCOUNT.{service}.core.windows.net beside "
            f"{connection}__{next(iter(self.urls))}ServiceUri.",
        )


def expand_development_storage(connection_string: str) -> str:
    """Write `UseDevelopmentStorage=true` (with `DevelopmentStorageProxyUri`, if given) out in full; leave others alone.

    The SDK knows the short form only in its newest versions, and never the proxy.
    """
    parts = _parts(connection_string)
    if parts.get("usedevelopmentstorage", "").strip().lower() != "true":
        return connection_string
    proxy = urlsplit(parts.get("developmentstorageproxyuri", "") or "http://127.0.0.1")
    if proxy.scheme not in {"http", "https"} or not proxy.hostname:
        raise ConfigError(
            f"DevelopmentStorageProxyUri in the connection string of {KEY} is not an http or https address.",
            key=KEY,
            next_step="Write it as http://host, such as DevelopmentStorageProxyUri=http://azurite.",
        )
    host = f"[{proxy.hostname}]" if ":" in proxy.hostname else proxy.hostname
    port = proxy.port or _DEVELOPMENT_PORT
    endpoint = f"{proxy.scheme}://{host}:{port}/{_DEVELOPMENT_ACCOUNT}"
    queues = f"{proxy.scheme}://{host}:{port + 1}/{_DEVELOPMENT_ACCOUNT}"
    tables = f"{proxy.scheme}://{host}:{port + 2}/{_DEVELOPMENT_ACCOUNT}"
    return (
        f"DefaultEndpointsProtocol={proxy.scheme};AccountName={_DEVELOPMENT_ACCOUNT};"
        f"AccountKey={_DEVELOPMENT_KEY};BlobEndpoint={endpoint};QueueEndpoint={queues};TableEndpoint={tables};"
    )


def is_development(connection_string: str) -> bool:
    """True if it is of an emulator, whose key is public."""
    return _parts(expand_development_storage(connection_string)).get("accountkey") == _DEVELOPMENT_KEY


def check_account_key(connection_string: str) -> None:
    """Refuse a key that was cut or pasted wrongly: the SDK notices only when it signs the first request.

    Raises: ConfigError.
    """
    try:
        base64.b64decode(_parts(connection_string).get("accountkey", ""), validate=True)
    except ValueError:
        raise ConfigError(
            f"AccountKey in the connection string of {KEY} is not complete base64.",
            key=KEY,
            next_step="Copy the whole connection string again from the account's page 'Access keys'.",
        ) from None


def names_service(connection_string: str, service: Service) -> bool:
    """True if it leads to that service: by an endpoint, or as it names an account and no endpoint at all."""
    parts = _parts(connection_string)
    return f"{service}endpoint" in parts or not any(key.endswith("endpoint") for key in parts)


def check_transport(connection_string: str, service: Service = "blob") -> None:
    """Refuse a key or a SAS token that would leave this machine in clear text. `service`: the one that is used at
    least.

    The emulator's public key is allowed, so that containers of one machine may reach Azurite by name.
    Raises: ConfigError.
    """
    parts = _parts(expand_development_storage(connection_string))
    secret = parts.get("sharedaccesssignature") or parts.get("accountkey")
    if not secret or secret == _DEVELOPMENT_KEY:
        return
    services: tuple[Service, ...] = ("blob", "queue", "table")
    endpoints = [urlsplit(parts.get(f"{one}endpoint", "" if one == service else "https:")) for one in services]
    default = parts.get("defaultendpointsprotocol", "https").strip().lower()
    if all((one.scheme or default) != "http" or is_loopback(one.hostname or "") for one in endpoints):
        return
    raise ConfigError(
        f"The connection string of {KEY} uses plain http to another machine: others on the way could read its key or "
        "SAS token, or change the data.",
        key=KEY,
        next_step="Write https: in BlobEndpoint, QueueEndpoint and TableEndpoint, or DefaultEndpointsProtocol=https.",
    )


_SERVICES = frozenset({"blob", "dfs", "queue", "table"})
"""Each host of an account has one of these behind the account's name, in every cloud."""
USE_PRIMARY = (
    "Use the account's primary address, the one without -secondary; after a fail-over it leads to the other region."
)


def is_secondary(url: str) -> bool:
    """True if a client's address is the read-only copy of an account in another region: it accepts no write."""
    parts = urlsplit(url)
    host, path = parts.hostname or "", parts.path.strip("/").split("/")
    first, *others = host.split(".")
    if not _SERVICES.isdisjoint(others):
        return first.lower().endswith("-secondary")
    # An emulator has the account in the path; a domain of one's own, which may have any name, only a container.
    return (len(path) > 1 or _is_address(host)) and path[0].lower().endswith("-secondary")


def _is_address(host: str) -> bool:
    """True if it is an IP address or this machine: no domain of one's own."""
    try:
        return bool(ip_address(host))
    except ValueError:
        return is_loopback(host)


def check_primary(url: str) -> None:
    """Refuse the account's read-only secondary. Raises: ConfigError."""
    if is_secondary(url):
        raise ConfigError(f"{KEY} leads to a storage account's read-only secondary.", key=KEY, next_step=USE_PRIMARY)


def from_environment(name: str, environ: Mapping[str, str], *, service: Service = "blob") -> str | AccountIdentity:
    """The connection string, or the connection by identity, in the settings named `name`.

    Searched in this order, ignoring case, as Functions does: `NAME`, then `NAME__blobServiceUri`,
    `NAME__tableServiceUri` or `NAME__accountName` (with `NAME__clientId` and `NAME__credential`); then the same with
    `AzureWebJobs` before the name. `service`: whose setting an error names.

    Raises: ConfigError, naming the key and every setting that was searched.
    """
    settings = {key.lower(): value for key, value in environ.items() if value.strip()}
    prefixes = [name] if name.lower().startswith("azurewebjobs") else [name, f"AzureWebJobs{name}"]
    for prefix in prefixes:
        connection_string = settings.get(prefix.lower())
        if connection_string is not None:
            return connection_string
        identity = _identity(prefix, settings)
        if identity is not None:
            return identity
    looked_for = [f"{prefix}{rest}" for prefix in prefixes for rest in ("", f"__{service}ServiceUri", "__accountName")]
    raise ConfigError(
        f'{KEY} = "{name}" does not name an app setting that is set; looked for {", ".join(looked_for)}.',
        key=KEY,
        next_step=f"Set {name} to a connection string (UseDevelopmentStorage=true for Azurite), "
        f"or {name}__accountName to sign in with an identity.",
    )


def _identity(prefix: str, settings: Mapping[str, str]) -> AccountIdentity | None:
    def setting(rest: str) -> str | None:
        return settings.get(f"{prefix}__{rest}".lower())

    account = setting("accountName")
    services: tuple[Service, ...] = ("blob", "table", "queue")
    urls = {
        one: setting(f"{one}ServiceUri") or f"https://{account}.{one}.core.windows.net"
        for one in services
        if account or setting(f"{one}ServiceUri")
    }
    if not urls.keys() - {"queue"}:
        return None
    return AccountIdentity(urls, entra.read_identity(prefix, settings, key=KEY))


def _parts(connection_string: str) -> dict[str, str]:
    pairs = (part.split("=", 1) for part in connection_string.split(";") if "=" in part)
    return {key.strip().lower(): value for key, value in pairs}
