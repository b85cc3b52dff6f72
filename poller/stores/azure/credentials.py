"""Signing in without a key, as app settings say it: one credential per identity and process (`poller.entra`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from poller import entra

if TYPE_CHECKING:
    from azure.core.credentials import TokenCredential

    from poller.stores.azure.account import AccountIdentity


def default_credential(client_id: str | None) -> Callable[[], TokenCredential]:
    """What gives the process's DefaultAzureCredential. `client_id`: of which managed identity."""
    return lambda: entra.credential_of(entra.Identity(client_id))


def credential_of(identity: AccountIdentity) -> Callable[[], TokenCredential]:
    """What gives the process's credential that the settings name."""
    return lambda: entra.credential_of(entra.Identity(identity.client_id, identity.credential))
