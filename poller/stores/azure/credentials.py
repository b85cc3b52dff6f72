"""Signing in without a key, as app settings say it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

from poller import forks

if TYPE_CHECKING:
    from azure.core.credentials import TokenCredential

    from poller.stores.azure.account import Identity


def default_credential(client_id: str | None) -> Callable[[], TokenCredential]:
    """What makes a DefaultAzureCredential, one per process. `client_id`: of which managed identity."""

    def make() -> TokenCredential:
        from azure.identity import DefaultAzureCredential

        return DefaultAzureCredential(managed_identity_client_id=client_id)

    return _once_per_process(make)


def credential_of(identity: Identity) -> Callable[[], TokenCredential]:
    """What makes the credential that the settings name, one per process."""
    if identity.credential != "managedidentity":
        return default_credential(identity.client_id)

    def make() -> TokenCredential:
        from azure.identity import ManagedIdentityCredential

        return ManagedIdentityCredential(client_id=identity.client_id)

    return _once_per_process(make)


def _once_per_process(make: Callable[[], TokenCredential]) -> Callable[[], TokenCredential]:
    """A credential has connections, which a child process must not share with its parent."""
    made = functools.cache(lambda _: make())
    return lambda: made(forks.generation())
