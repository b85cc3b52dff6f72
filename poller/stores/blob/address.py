"""Which blob an address means, and how to sign in there. Nothing here connects.

An address may come from anyone. So no credential is sent to a host that is neither configured nor Azure Storage's, or
in clear text over a network.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from azure.core.exceptions import AzureError
from azure.storage.blob import BlobClient, BlobServiceClient

from poller.errors import ConfigError
from poller.stores.azure.account import AccountIdentity, expand_development_storage, from_environment, is_development
from poller.tls import is_loopback


@dataclass(frozen=True, slots=True)
class BlobAddress:
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


def read_address(url: str, connection: str, environ: Mapping[str, str]) -> BlobAddress:
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
    return BlobAddress(endpoint, container, name, sas, own is not None)


def _parsed(address: str, base: str | None) -> tuple[str, str, str]:
    """Endpoint, container and name of a blob. `base`: the endpoint, if it is known. Raises: ConfigError."""
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
    """True if others on the way cannot read what is sent: over https, or not over a network."""
    parts = urlsplit(endpoint)
    return parts.scheme == "https" or is_loopback(parts.hostname or "")


def _in_clear(address: str, what: str) -> ConfigError:
    return ConfigError(
        f"{address} is not https: {what} would travel in clear text.",
        next_step="Write https://, or download the blob and give the file.",
    )


def _own_connection(
    address: str, connection: str, environ: Mapping[str, str]
) -> tuple[str | AccountIdentity | None, str | None]:
    """The configured connection and its endpoint, where `address` is of that account."""
    try:
        found = from_environment(connection, environ)
        if isinstance(found, AccountIdentity):
            own = found.url("blob", connection, why="the address of a blob")
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
