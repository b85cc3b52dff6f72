"""A storage account that a relay writes to: which one it is, how to sign in, and what its answers mean.

The clients are set up as those of the state store: nothing is resent behind our back, an answer is whole or an error,
and no error or log shows a secret (`poller.stores.azure`).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import urlsplit

from pydantic import model_validator
from pydantic_core import PydanticCustomError

from poller import entra
from poller.config.options import Text
from poller.errors import ConfigError, PollerError, StoreDenied, StoreUnavailable
from poller.handler.reports import RetryLater
from poller.model.finding import Finding, error
from poller.ports import Timeout
from poller.relays.base import RowOptions
from poller.relays.messages import retry_later
from poller.tls import is_loopback

if TYPE_CHECKING:
    from azure.core.credentials import TokenCredential

    from poller.stores.azure.account import Service
    from poller.stores.azure.client import AccountClient

_T = TypeVar("_T")
SENDS = 3
"""The times that one request is sent if no answer comes; then the batch comes again."""
_PAUSE = 0.2
LIMITS = Timeout(connect=2.0, read=20.0)
"""Of one request."""
_OUTAGES = {408, 429, 500, 502, 503, 504}


class IdentityOptions(RowOptions):
    """How a relay signs in to a service of Azure."""

    connection_env: Text | None = None
    """The environment variable (app setting) that holds the connection string. Give this, or the address to sign in by
    identity."""

    client_id: Text | None = None
    """With the address: the client id of a user-assigned managed identity. Default: that of `AZURE_CLIENT_ID`, else the
    app's own identity."""

    @property
    def credential(self) -> TokenCredential:
        """The process's credential of that identity."""
        return entra.credential_of(entra.Identity(self.client_id))


class AccountOptions(IdentityOptions):
    """Which storage account a relay writes to."""

    account_url: Text | None = None
    """The address of the account's service, such as `https://ACCOUNT.queue.core.windows.net`: the relay signs in by
    identity."""

    create: bool = True
    """True if a queue or container that does not exist is created, if the identity may."""

    @model_validator(mode="after")
    def _one_account(self) -> Self:
        check_one_address(self, "account_url", self.account_url)
        if self.account_url is not None:
            parts = urlsplit(self.account_url)
            private = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
            if not private or not parts.hostname or parts.query or "@" in parts.netloc:
                raise problem("account_url", "must be https://ACCOUNT.SERVICE.core.windows.net, without a token")
        return self


def problem(key: str, reason: str) -> PydanticCustomError:
    """What a validator raises of a key. The reason is a predicate."""
    return PydanticCustomError("relay", "{reason}", {"key": key, "reason": reason})


def check_one_address(options: IdentityOptions, key: str, address: str | None) -> None:
    """Refuse two ways to sign in, or none. Raises: PydanticCustomError."""
    if options.connection_env is None and address is None:
        raise problem("connection_env", f"is missing: give it, or {key} to sign in by identity")
    if options.connection_env is not None and address is not None:
        raise problem(key, "and connection_env exclude each other")
    if options.client_id is not None and address is None:
        raise problem("client_id", f"goes with {key}")
    if options.connection_env is not None and not {"=", ";"}.isdisjoint(options.connection_env):
        reason = "must be the name of an environment variable that holds the connection string, not the string itself"
        raise problem("connection_env", reason)


def account_client(
    options: AccountOptions, connection: str, service: Service, kind: type[_T], name: str, **more: Any
) -> AccountClient[_T]:
    """The SDK's client of a container or queue. `connection`: the connection string, if the settings name one.

    Raises: ConfigError, which shows nothing of it.
    """
    from poller.stores.azure.account import KEY
    from poller.stores.azure.client import AccountClient, ServiceAccess

    try:
        if options.account_url is None:
            access = ServiceAccess.by_key(connection, service)
        else:
            access = ServiceAccess.by_identity(options.account_url, service, entra.Identity(options.client_id))
        return AccountClient(access, kind, name, limits=LIMITS, **more)
    except ConfigError as wrong:
        refused = ConfigError(
            f"cannot be used. {wrong.message.replace(f'string of {KEY}', 'string').replace(KEY, 'It')}",
            key="connection_env" if options.connection_env else "account_url",
            next_step=wrong.next_step,
        )
    raise refused


def sent(send: Callable[[], Any]) -> Any:
    """Send it, and again where no answer came or the service failed: for requests that may arrive twice. Raises: what
    the last one raised."""
    from azure.core.exceptions import AzureError

    from poller.stores.azure.errors import status_of

    for left in reversed(range(SENDS)):
        try:
            return send()
        except AzureError as error:
            if not left or (status_of(error) or 503) not in _OUTAGES:
                raise
        time.sleep(_PAUSE)
    raise AssertionError("unreachable")


def failure(failed: Exception, place: str, *, role: str, missing: str) -> Exception:
    """What the handler raises for what the SDK raised: RetryLater for an outage, else PollerError. No text of an answer
    is repeated, which may quote an address with a token.

    Args:
        place: such as "the queue orders". role: the step for a refusal. missing: the step where it is not there.
    """
    from azure.core.exceptions import AzureError, ClientAuthenticationError

    from poller.stores.azure.advice import MEANINGS
    from poller.stores.azure.errors import code_of, status_of
    from poller.stores.refusals import reason_of

    if not isinstance(failed, AzureError):
        return PollerError(f"The answer for {place} is not the service's.", next_step="Check the address.")
    status, said = status_of(failed), f"{status_of(failed)} {code_of(failed)}".strip()
    if not status:
        if isinstance(failed, ClientAuthenticationError):
            return PollerError(
                f"No credential is available for {place} ({type(failed).__name__}).",
                next_step="Sign in (az login), or give this app a managed identity (client_id: a user-assigned one).",
            )
        return retry_later(f"no usable answer came for {place}: {reason_of(failed)}")
    if status in _OUTAGES or code_of(failed).endswith("BeingDeleted"):
        return retry_later(f"{place} is busy or failing ({said})", _asked_for(failed))
    kind, step = MEANINGS.get(code_of(failed), (None, role))
    if kind is StoreUnavailable:
        return retry_later(f"{place} cannot be used now ({said}). {step}")
    if kind is StoreDenied or status in {401, 403}:
        return PollerError(f"Access to {place} was refused ({said}).", next_step=step)
    step = missing if status == 404 else "The service's documentation explains this code."
    return PollerError(f"{place} did not accept the request ({said}).", next_step=step)


def looked_at(look: Callable[[], Finding]) -> list[Finding]:
    """What `look` finds of a target; what it raises instead, as an error."""
    try:
        return [look()]
    except RetryLater as failed:
        why = str(failed)
        return [
            error("relay", f"{why[:1].upper()}{why[1:]}.", "Look at the relay's address, and whether it is reachable.")
        ]
    except PollerError as failed:
        return [error("relay", failed.message, failed.next_step)]


def _asked_for(failed: Exception) -> float | None:
    """The seconds for which the service asks to be left alone."""
    headers = getattr(getattr(failed, "response", None), "headers", None) or {}
    for name, unit in (("x-ms-retry-after-ms", 0.001), ("Retry-After", 1.0)):
        with contextlib.suppress(LookupError, ValueError, TypeError):
            return float(headers[name]) * unit
    return None
