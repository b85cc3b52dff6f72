"""A blob of somebody else's, by its address: another library's state, to be read once and never written.

An address may come out of anybody's hands. So nothing that proves who the operator is travels to a host that was not
configured and is not Azure Storage's, or in clear text over a network.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from azure.core.credentials import AzureSasCredential
from azure.core.exceptions import AzureError
from azure.storage.blob import BlobClient, BlobServiceClient, ContainerClient

from poller.errors import ConfigError
from poller.stores.blob.container import Container, client_options
from poller.stores.blob.settings import Identity, expand_development_storage, from_environment, is_development
from poller.stores.blob.store import BlobStore
from poller.tls import is_loopback


def open_address(url: str, *, connection: str, environ: Mapping[str, str]) -> tuple[BlobStore, str]:
    """The container that a blob's address leads to, and the blob's name in it.

    How to sign in: by the SAS token in the address; else as the app setting `connection` does, where it is of that
    account; else by identity (DefaultAzureCredential), whose token goes to hosts of Azure Storage alone.

    Raises: ConfigError (no blob's address, or one that may not be given a token or a key); it never repeats a query
    string.
    """
    address, _, sas = url.partition("?")
    own, base = _own_connection(address, connection, environ)
    endpoint, container, name = _parsed(address, base)
    if sas:
        if not _is_private(endpoint):
            raise _in_clear(address, "a SAS token")

        def connect(transport: Any) -> ContainerClient:
            credential = AzureSasCredential(sas)
            return ContainerClient(endpoint, credential=credential, transport=transport, **client_options(container))

        return BlobStore(Container(connect)), name
    if isinstance(own, str) and not _is_private(endpoint) and not is_development(own):
        raise _in_clear(address, "an account key or a SAS token")
    if own is not None:
        return BlobStore.from_settings(connection, container, environ), name
    if not _is_azure_storage(endpoint):
        raise ConfigError(
            f"{address} is read by identity, and its host is neither the account of {connection} nor an https endpoint "
            "of Azure Storage: no token is sent there.",
            next_step="Add a SAS token to the address, or download the blob and give the file.",
        )
    return BlobStore.from_identity(endpoint, container), name


def _parsed(address: str, base: str | None) -> tuple[str, str, str]:
    """Endpoint, container and name of a blob. `base`: the endpoint, where it is known. Raises: ConfigError."""
    front = "/".join(address.split("/")[:3])
    if "@" in front:  # no blob's address names a user
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
    """Whether nobody on the way can read what is sent: over https, or not over a network at all."""
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
        next_step="Write it as https://ACCOUNT.blob.core.windows.net/CONTAINER/state/POLLER.json, with a SAS token "
        "behind it where one is needed.",
    )
