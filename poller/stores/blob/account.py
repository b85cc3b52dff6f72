"""Which storage account is meant: by a connection string, by app settings as Azure Functions names them, or by the
address of one blob. Nothing here connects. No message repeats a value that may be a secret.

An address may come from anyone. So no credential is sent to a host that is neither configured nor Azure Storage's, or
in clear text over a network.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from azure.core.exceptions import AzureError
from azure.storage.blob import BlobClient, BlobServiceClient

from poller.errors import ConfigError
from poller.tls import is_loopback

KEY = "state.connection"
_DEVELOPMENT_ACCOUNT = "devstoreaccount1"
# Published, and the same in every emulator: https://learn.microsoft.com/azure/storage/common/storage-use-azurite
_DEVELOPMENT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_DEVELOPMENT_PORT = 10000
_CONTAINER = re.compile(r"(?=.{3,63}\Z)[a-z0-9]+(-[a-z0-9]+)*\Z|\$(root|web|logs)\Z")


@dataclass(frozen=True, slots=True)
class Identity:
    """An account reached without a key. `credential`: `default` or `managedidentity`; `queue_url`: of its queues, None
    where no setting says it."""

    account_url: str
    client_id: str | None
    credential: str
    queue_url: str | None = None


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
    return (
        f"DefaultEndpointsProtocol={proxy.scheme};AccountName={_DEVELOPMENT_ACCOUNT};"
        f"AccountKey={_DEVELOPMENT_KEY};BlobEndpoint={endpoint};QueueEndpoint={queues};"
    )


def is_development(connection_string: str) -> bool:
    """Whether it is of an emulator, whose key is public."""
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


def check_transport(connection_string: str) -> None:
    """Refuse a key or a SAS token that would leave this machine in clear text.

    The emulator's public key is allowed, so that containers of one machine may reach Azurite by name.
    Raises: ConfigError.
    """
    parts = _parts(expand_development_storage(connection_string))
    secret = parts.get("sharedaccesssignature") or parts.get("accountkey")
    if not secret or secret == _DEVELOPMENT_KEY:
        return
    endpoints = [urlsplit(parts.get("blobendpoint", "")), urlsplit(parts.get("queueendpoint", "https:"))]
    default = parts.get("defaultendpointsprotocol", "https").strip().lower()
    if all((one.scheme or default) != "http" or is_loopback(one.hostname or "") for one in endpoints):
        return
    raise ConfigError(
        f"The connection string of {KEY} uses plain http to another machine: others on the way could read its key or "
        "SAS token, or change the data.",
        key=KEY,
        next_step="Write https: in BlobEndpoint and QueueEndpoint, or DefaultEndpointsProtocol=https.",
    )


def from_environment(name: str, environ: Mapping[str, str]) -> str | Identity:
    """The connection string, or the connection by identity, in the settings named `name`.

    Searched in this order, ignoring case, as Functions does: `NAME`, then `NAME__blobServiceUri` or
    `NAME__accountName` (with `NAME__clientId` and `NAME__credential`); then the same with `AzureWebJobs` before the
    name.

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
    looked_for = [f"{prefix}{rest}" for prefix in prefixes for rest in ("", "__blobServiceUri", "__accountName")]
    raise ConfigError(
        f'{KEY} = "{name}" does not name an app setting that is set; looked for {", ".join(looked_for)}.',
        key=KEY,
        next_step=f"Set {name} to a connection string (UseDevelopmentStorage=true for Azurite), "
        f"or {name}__accountName to sign in with an identity.",
    )


def check_container(container: str) -> str:
    """The container's name, if it is valid.

    Raises: ConfigError. Rule: https://learn.microsoft.com/rest/api/storageservices/naming-and-referencing-containers
    """
    if _CONTAINER.match(container) is None:
        raise ConfigError(
            f"{container!r} cannot be the name of a blob container.",
            key="state.container",
            next_step="Use 3 to 63 lower-case letters, digits and single hyphens, such as db-state.",
        )
    return container


@dataclass(frozen=True, slots=True)
class Address:
    """The parts of a blob's address, and how to sign in there.

    Attributes:
        endpoint: of the account. name: of the blob in the container. sas: the token in the address, else empty.
        is_own: the account is the configured one, and its connection signs in; else, without a token, an identity does.
    """

    endpoint: str
    container: str
    name: str
    sas: str = field(repr=False)
    is_own: bool


def read_address(url: str, connection: str, environ: Mapping[str, str]) -> Address:
    """Read the address of a blob; the app setting `connection` may be of the same account.

    Raises: ConfigError (not a blob's address, or one to which no token or key may be sent); it never repeats a query
    string.
    """
    address, _, sas = url.partition("?")
    own, base = _own_connection(address, connection, environ)
    endpoint, container, name = _parsed(address, base)
    if sas:
        if not _is_private(endpoint):
            raise _in_clear(address, "a SAS token")
    elif own is None and not _is_azure_storage(endpoint):
        raise ConfigError(
            f"{address} is read by identity, and its host is neither the account of {connection} nor an https endpoint "
            "of Azure Storage: no token is sent there.",
            next_step="Add a SAS token to the address, or download the blob and give the file.",
        )
    elif isinstance(own, str) and not _is_private(endpoint) and not is_development(own):
        raise _in_clear(address, "an account key or a SAS token")
    return Address(endpoint, container, name, sas, own is not None)


def _identity(prefix: str, settings: Mapping[str, str]) -> Identity | None:
    def setting(rest: str) -> str | None:
        return settings.get(f"{prefix}__{rest}".lower())

    account_url, account_name = setting("blobServiceUri"), setting("accountName")
    if account_url is None and account_name is None:
        return None
    credential = (setting("credential") or "default").lower()
    if credential not in {"default", "managedidentity"}:
        raise ConfigError(
            f"{prefix}__credential is not a supported way to sign in.",
            key=KEY,
            next_step=f"Set it to managedidentity, or leave {prefix}__credential out.",
        )
    url = account_url or f"https://{account_name}.blob.core.windows.net"
    queues = setting("queueServiceUri") or (account_name and f"https://{account_name}.queue.core.windows.net")
    return Identity(url, setting("clientId"), credential, queues or None)


def _parts(connection_string: str) -> dict[str, str]:
    pairs = (part.split("=", 1) for part in connection_string.split(";") if "=" in part)
    return {key.strip().lower(): value for key, value in pairs}


def _parsed(address: str, base: str | None) -> tuple[str, str, str]:
    """Endpoint, container and name of a blob. `base`: the endpoint, where it is known. Raises: ConfigError."""
    front = "/".join(address.split("/")[:3])
    if "@" in front:  # a blob's address has no user
        raise _no_address()
    if base is None and _is_azure_storage(front):
        base = front
    if base is not None:  # the SDK knows only hosts with `.core.` in them from those whose path begins with the account
        container, _, name = address[len(base) :].strip("/").partition("/")
        endpoint, name = base, unquote(name)
    else:
        try:
            blob = BlobClient.from_blob_url(address)
        except (ValueError, AzureError):
            raise _no_address() from None
        container, name = str(blob.container_name), str(blob.blob_name)
        endpoint = address.removesuffix("/").removesuffix(f"/{container}/{name}")
    if endpoint == address or not container or not name:
        raise _no_address()
    return endpoint, container, name


_AZURE_STORAGE = re.compile(
    r"https://[a-z0-9]{3,24}(?:-secondary)?(?:\.[a-z0-9]{1,20})?\.(?:privatelink\.)?blob\."
    r"(?:core\.windows\.net|core\.usgovcloudapi\.net|core\.chinacloudapi\.cn|core\.cloudapi\.de|storage\.azure\.net)"
    r"(?::443)?"
)
"""Endpoints of hosts that are Azure Storage's own, in the public and the sovereign clouds and in DNS zones
(https://learn.microsoft.com/azure/storage/common/storage-account-overview#storage-account-endpoints)."""


def _is_azure_storage(endpoint: str) -> bool:
    return _AZURE_STORAGE.fullmatch(endpoint.lower()) is not None


def _is_private(endpoint: str) -> bool:
    """Whether others on the way cannot read what is sent: over https, or not over a network."""
    parts = urlsplit(endpoint)
    return parts.scheme == "https" or is_loopback(parts.hostname or "")


def _in_clear(address: str, what: str) -> ConfigError:
    return ConfigError(
        f"{address} is not https: {what} would travel in clear text.",
        next_step="Write https://, or download the blob and give the file.",
    )


def _own_connection(
    address: str, connection: str, environ: Mapping[str, str]
) -> tuple[str | Identity | None, str | None]:
    """The configured connection and its endpoint, where `address` is of that account."""
    try:
        found = from_environment(connection, environ)
        if isinstance(found, Identity):
            own = found.account_url
        else:
            own = BlobServiceClient.from_connection_string(expand_development_storage(found)).url
    except (ConfigError, ValueError, AzureError):
        return None, None
    own = own.partition("?")[0].rstrip("/")
    return (found, address[: len(own)]) if f"{address}/".lower().startswith(f"{own}/".lower()) else (None, None)


def _no_address() -> ConfigError:
    return ConfigError(
        "Not a blob URL.",
        next_step="Write it as https://ACCOUNT.blob.core.windows.net/CONTAINER/state/POLLER.json, followed by a SAS "
        "token where one is needed.",
    )
