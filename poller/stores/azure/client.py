"""The clients of a storage account, made in one place: for blobs, tables and queues, of the state and of relays.

Each is set up alike: nothing is sent twice or redirected, an answer is whole or an error, and no error or log shows a
secret. A client is made on first use, again after `close`, and in a child process, which forgets its parent's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

from azure.core.credentials import AzureSasCredential
from azure.core.exceptions import AzureError

from poller import entra, forks
from poller.errors import ConfigError
from poller.ports import DEFAULT_TIMEOUT, Timeout
from poller.stores.azure.account import (
    KEY,
    Service,
    check_account_key,
    check_primary,
    check_transport,
    expand_development_storage,
    from_environment,
    names_service,
)
from poller.stores.azure.transport import WholeAnswers

# Supported by the services, and by an Azurite that is started without --skipApiVersionCheck.
_API_VERSION = {"blob": "2023-11-03", "queue": "2023-11-03"}
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ServiceAccess:
    """A service of a storage account, and how to sign in there. Nothing here connects.

    Attributes:
        connection: a connection string, written out; empty with `url`.
        url: of the service. credential: what gives the SDK's credential for it.
    """

    service: Service
    connection: str = field(default="", repr=False)
    url: str = field(default="", repr=False)
    credential: Callable[[], Any] = lambda: None

    @classmethod
    def by_key(cls, connection_string: str, service: Service) -> ServiceAccess:
        """By an account key or a SAS token. `UseDevelopmentStorage=true` is Azurite on its usual ports.

        Raises: ConfigError; it never repeats the connection string.
        """
        check_account_key(connection_string)
        check_transport(connection_string, service)
        full = expand_development_storage(connection_string)
        if service == "table" and not names_service(full, service):
            raise ConfigError(
                f"The connection string of {KEY} has a BlobEndpoint and no TableEndpoint.",
                key=KEY,
                next_step='Add TableEndpoint=...; to it, or set [state] store = "blob".',
            )
        return cls(service, connection=full)

    @classmethod
    def by_identity(
        cls, url: str, service: Service, who: entra.Identity | None = None, *, credential: Any = None
    ) -> ServiceAccess:
        """By `credential`, or else by the process's own of the identity `who`."""
        if credential is not None:
            return cls(service, url=url, credential=lambda: credential)
        return cls(service, url=url, credential=lambda: entra.credential_of(who or entra.Identity()))

    @classmethod
    def by_token(cls, url: str, service: Service, token: str) -> ServiceAccess:
        """By a SAS token that came with the address."""
        return cls(service, url=url, credential=lambda: AzureSasCredential(token))

    @classmethod
    def from_settings(cls, name: str, service: Service, environ: Mapping[str, str], *, why: str) -> ServiceAccess:
        """For `[state] connection = name`, as `account.from_environment` reads it. `why`: what needs the service.

        Raises: ConfigError with key `state.connection`, naming the settings that were searched.
        """
        found = from_environment(name, environ, service=service)
        if isinstance(found, str):
            return cls.by_key(found, service)
        return cls.by_identity(found.url(service, name, why=why), service, found.who)

    def client(self, kind: Any, name: str, limits: Timeout, **options: Any) -> Any:
        """A client of the SDK's class `kind`, for the container, table or queue `name`.

        Raises: ValueError or AzureError, if the address or the connection string is none.
        """
        more: dict[str, Any] = {"retry_total": 0, "permit_redirects": False, "transport": WholeAnswers(limits)}
        more |= options  # the SDK's own resending would answer 412 to our own write (protocol, "Facts")
        if self.service in _API_VERSION:
            more["api_version"] = _API_VERSION[self.service]
        if self.connection:
            return kind.from_connection_string(self.connection, name, **more)
        return kind(self.url, name, credential=self.credential(), **more)


class AccountClient(Generic[_T]):
    """The SDK's client of one container, table or queue. Safe to use from several threads.

    Args:
        kind: the SDK's class. primary: refuse the account's read-only secondary.
        limits: of a call that names none. options: of the SDK's client.

    Raises: ConfigError, if `access` leads to no account, or to a secondary.
    """

    def __init__(
        self,
        access: ServiceAccess,
        kind: type[_T],
        name: str,
        *,
        primary: bool = True,
        limits: Timeout = DEFAULT_TIMEOUT,
        **options: Any,
    ) -> None:
        self.name = name
        self._connect: Callable[[], _T] = lambda: access.client(kind, name, limits, **options)
        self._reset_after_fork()
        forks.in_child(self._reset_after_fork)
        self.address = self._checked(access.service)
        """The account's; no secret."""
        if primary:
            check_primary(f"{self.address}/{name}")

    def _checked(self, service: Service) -> str:
        try:
            found = urlsplit(self.client().url)  # type: ignore[attr-defined] # with the SAS token, which is not kept
            _ = found.port  # raises ValueError if it is not a number
            if "@" in found.netloc:
                raise ValueError("an account's address has no user")
        except (ValueError, AzureError):  # from None: the SDK's text may quote its arguments
            raise ConfigError(
                f"{KEY} leads to no {service}s: neither to a connection string of a storage account nor to the https "
                "address of one.",
                key=KEY,
                next_step="Copy the connection string from the account's page 'Access keys', or use "
                f"UseDevelopmentStorage=true for Azurite, or https://ACCOUNT.{service}.core.windows.net with an "
                "identity.",
            ) from None
        path = found.path.rstrip("/")  # of a table's client it ends with the account, of the others with the name
        return f"{found.scheme}://{found.netloc}{path if service == 'table' else path.rpartition('/')[0]}"

    def _reset_after_fork(self) -> None:
        """In a child process: collecting the parent's connections closes their descriptors and sends nothing."""
        self._lock = Lock()
        self._forget()

    def _forget(self) -> None:
        self._client: _T | None = None

    def client(self) -> _T:
        """The SDK's client."""
        with self._lock:
            return self._connected()

    def _connected(self) -> _T:
        if self._client is None:
            self._client = self._connect()
        return self._client

    def close(self) -> None:
        """Close connections."""
        with self._lock:
            client = self._client
            self._forget()
        if client is not None:
            client.close()  # type: ignore[attr-defined]
