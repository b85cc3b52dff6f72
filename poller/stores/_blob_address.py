"""A blob of somebody else's, by its address: another library's state, to be read once and never written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from azure.core.credentials import AzureSasCredential
from azure.core.exceptions import AzureError
from azure.storage.blob import BlobClient, BlobServiceClient, ContainerClient

from poller.errors import ConfigError
from poller.stores._blob_container import Container, client_options
from poller.stores._blob_settings import expand_development_storage, from_environment
from poller.stores.blob import BlobStore


def open_address(url: str, *, connection: str, environ: Mapping[str, str]) -> tuple[BlobStore, str]:
    """The container that a blob's address leads to, and the blob's name in it.

    How to sign in: by the SAS token in the address; else as the app setting `connection` does, where it is a connection
    string of that account; else by identity (DefaultAzureCredential).

    Raises: ConfigError (no blob's address); it never repeats a query string.
    """
    address, _, sas = url.partition("?")
    try:
        blob = BlobClient.from_blob_url(address)
    except (ValueError, AzureError):
        raise _no_address() from None
    container, name = str(blob.container_name), str(blob.blob_name)
    endpoint = address.removesuffix("/").removesuffix(f"/{container}/{name}")
    if endpoint == address or not container or not name:
        raise _no_address()
    if sas:

        def connect(transport: Any) -> ContainerClient:
            credential = AzureSasCredential(sas)
            return ContainerClient(endpoint, credential=credential, transport=transport, **client_options(container))

        return BlobStore(Container(connect)), name
    own = _own_connection(endpoint, connection, environ)
    if own is not None:
        return BlobStore.from_connection_string(own, container), name
    if urlsplit(endpoint).scheme != "https":
        raise ConfigError(
            f"{address}: without a SAS token in the address it is read by identity, which needs https.",
            next_step=f"Add a SAS token, or set {connection} to a connection string of that account.",
        )
    return BlobStore.from_identity(endpoint, container), name


def _own_connection(endpoint: str, connection: str, environ: Mapping[str, str]) -> str | None:
    """The configured connection string, where it is of the account at `endpoint`."""
    try:
        found = from_environment(connection, environ)
        if not isinstance(found, str):
            return None
        own = BlobServiceClient.from_connection_string(expand_development_storage(found)).url
    except (ConfigError, ValueError, AzureError):
        return None
    return found if own.rstrip("/") == endpoint.rstrip("/") else None


def _no_address() -> ConfigError:
    return ConfigError(
        "That is no address of a blob.",
        next_step="Write it as https://ACCOUNT.blob.core.windows.net/CONTAINER/state/POLLER.json, with a SAS token "
        "behind it where one is needed.",
    )
