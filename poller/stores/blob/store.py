"""Documents as blobs in Azure Blob Storage or Azurite. Only this package imports azure.storage.

One `read` is one GET and one `write` is one PUT, sent once: whoever calls decides about sending again, because only
the caller can tell whether an earlier copy has landed (protocol, "Facts about azure-storage-blob"). Two exceptions
cost a request more: a document of no bytes at all (never one of ours) is asked for twice, and the first
write into a container that does not exist creates it. The tag is the ETag. Server times have a precision of a second.

`Timeout.read` is the limit of an answer as a whole, however slowly it trickles in (a large one has a second more for
every 100 kB that came). Connecting counts for each of a name's addresses, and sending for each piece sent.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from azure.core import MatchConditions
from azure.core.credentials import AzureSasCredential
from azure.core.exceptions import AzureError
from azure.storage.blob import ContainerClient, ContentSettings

from poller import forks
from poller.errors import ConfigError
from poller.model.finding import Finding
from poller.model.limits import LARGEST_BODY
from poller.model.stamps import in_utc
from poller.ports import Found, Missing, Timeout, Unchanged, Written
from poller.stores.blob.account import (
    KEY,
    check_account_key,
    check_container,
    check_transport,
    expand_development_storage,
    from_environment,
    read_address,
)
from poller.stores.blob.checkup import examine
from poller.stores.blob.container import FAILURES, Container, client_options, seconds
from poller.stores.blob.log import BLOCKS_PER_APPEND_BLOB, BlobLog, is_later_part
from poller.stores.blob.transport import WholeAnswers, code_of, status_of

if TYPE_CHECKING:
    from azure.core.credentials import TokenCredential

_PLAUSIBLE = (2000, 9000)
"""Years of a server's time."""
_JSON = ContentSettings(content_type="application/json; charset=utf-8")


class BlobStore:
    """A `StateStore` in one container. Made by `from_connection_string`, `from_identity`, `from_settings` or
    `from_address`.

    A log document is an append blob. When it is full (`log_blocks` appends) the next one begins, named
    `audit/shop/orders.jsonl.000001` and so on; `lines` and `names` show one document.
    """

    def __init__(self, container: Container, *, log_blocks: int = BLOCKS_PER_APPEND_BLOB) -> None:
        self._container = container
        self._log = BlobLog(container, log_blocks)

    @classmethod
    def from_connection_string(
        cls, connection_string: str, container: str = "db-state", *, log_blocks: int = BLOCKS_PER_APPEND_BLOB
    ) -> BlobStore:
        """With an account key or a SAS token. `UseDevelopmentStorage=true` is Azurite on its usual port.

        Raises: ConfigError (not a connection string, not a container's name); it never repeats the connection string.
        """
        check_account_key(connection_string)
        check_transport(connection_string)
        full = expand_development_storage(connection_string)
        options = client_options(check_container(container))

        def connect(transport: WholeAnswers) -> ContainerClient:
            return ContainerClient.from_connection_string(full, transport=transport, **options)

        return cls._checked(connect, log_blocks)

    @classmethod
    def from_identity(
        cls,
        account_url: str,
        container: str = "db-state",
        *,
        client_id: str | None = None,
        credential: TokenCredential | None = None,
        log_blocks: int = BLOCKS_PER_APPEND_BLOB,
    ) -> BlobStore:
        """Without a key: with `credential`, or else DefaultAzureCredential (`client_id`: of which identity).

        Raises: ConfigError (no https address, not a container's name).
        """

        def default() -> TokenCredential:
            from azure.identity import DefaultAzureCredential

            return DefaultAzureCredential(managed_identity_client_id=client_id)

        given = _once_per_process(default) if credential is None else lambda: credential
        return cls._with_identity(account_url, container, given, log_blocks)

    @classmethod
    def from_settings(cls, name: str, container: str, environ: Mapping[str, str]) -> BlobStore:
        """As `[state] connection = name` means it: an app setting that holds a connection string, or the prefix of
        `NAME__blobServiceUri` or `NAME__accountName` with `NAME__clientId` and `NAME__credential` beside them.

        Raises: ConfigError with key `state.connection`, naming the settings that were looked for.
        """
        found = from_environment(name, environ)
        if isinstance(found, str):
            return cls.from_connection_string(found, container)
        if found.credential != "managedidentity":
            return cls.from_identity(found.account_url, container, client_id=found.client_id)

        def managed() -> TokenCredential:
            from azure.identity import ManagedIdentityCredential

            return ManagedIdentityCredential(client_id=found.client_id)

        return cls._with_identity(found.account_url, container, _once_per_process(managed), BLOCKS_PER_APPEND_BLOB)

    @classmethod
    def from_address(cls, url: str, *, connection: str, environ: Mapping[str, str]) -> tuple[BlobStore, str]:
        """The container that a blob's address leads to, and the blob's name in it.

        How to sign in: by the SAS token in the address; else as the app setting `connection` does, where it is of that
        account; else by identity (DefaultAzureCredential), whose token goes to hosts of Azure Storage alone.

        Raises: ConfigError (no blob's address, or one that may not be given a token or a key); it never repeats a query
        string.
        """
        found = read_address(url, connection, environ)
        if not found.sas:
            if found.is_own:
                return cls.from_settings(connection, found.container, environ), found.name
            return cls.from_identity(found.endpoint, found.container), found.name
        options = client_options(found.container)

        def connect(transport: WholeAnswers) -> ContainerClient:
            credential = AzureSasCredential(found.sas)
            return ContainerClient(found.endpoint, credential=credential, transport=transport, **options)

        return cls(Container(connect)), found.name

    @classmethod
    def _with_identity(
        cls, account_url: str, container: str, credential: Callable[[], TokenCredential], log_blocks: int
    ) -> BlobStore:
        options = client_options(check_container(container))

        def connect(transport: WholeAnswers) -> ContainerClient:
            return ContainerClient(account_url, credential=credential(), transport=transport, **options)

        return cls._checked(connect, log_blocks)

    @classmethod
    def _checked(cls, connect: Callable[[WholeAnswers], ContainerClient], log_blocks: int) -> BlobStore:
        try:
            return cls(Container(connect), log_blocks=log_blocks)
        except (ValueError, AzureError):  # from None: the SDK's text may quote what it was given
            raise ConfigError(
                f"What {KEY} leads to is neither a storage connection string nor the https address of an account.",
                key=KEY,
                next_step="Copy the connection string from the account's page 'Access keys', or use "
                "UseDevelopmentStorage=true for Azurite, or https://ACCOUNT.blob.core.windows.net with an identity.",
            ) from None

    def read(
        self, name: str, *, unless: str | None = None, timeout: Timeout | None = None
    ) -> Found | Unchanged | Missing:
        """See `StateStore.read`: one conditional GET.

        Raises: StoreUnavailable, StoreDenied.
        """
        headers: Mapping[str, str] = {}

        def keep_headers(response: Any) -> None:
            nonlocal headers
            headers = response.http_response.headers

        options = {"raw_response_hook": keep_headers, **seconds(timeout)}
        if unless is not None:
            options |= {"etag": unless, "match_condition": MatchConditions.IfModified}
        client = self._container.client()
        try:
            try:
                # One byte more than a document may have tells that it is too large; the rest is not fetched.
                download = client.download_blob(name, offset=0, length=LARGEST_BODY + 1, **options)
            except AzureError as error:
                if status_of(error) != 416:  # of no bytes there is no range
                    raise
                download = client.download_blob(name, **options)
            body = download.readall()
        except FAILURES as error:
            if status_of(error) == 304:
                return Unchanged(_time(headers, "Date"))
            if status_of(error) == 404 and code_of(error):
                return Missing(_time(headers, "Date"))
            raise self._container.translated(error, name, reading=True) from None
        tag = headers.get("ETag")
        if not tag or not tag.endswith('"') or len(body) != download.size:
            raise self._container.no_blob_service(name)
        return Found(body, tag, _time(headers, "Date"), _time(headers, "Last-Modified"))

    def write(self, name: str, body: bytes, *, if_tag: str | None, timeout: Timeout | None = None) -> Written:
        """See `StateStore.write`: one conditional PUT; the container is created when its first document needs it.

        Raises: WriteConflict, StoreUnavailable, StoreDenied.
        """
        creating = if_tag is None
        try:
            return self._put(name, body, if_tag, timeout)
        except FAILURES as error:
            if not creating or code_of(error) != "ContainerNotFound":
                raise self._container.translated(error, name, creating=creating) from None
        self._container.create(timeout)
        try:
            return self._put(name, body, if_tag, timeout)
        except FAILURES as error:
            raise self._container.translated(error, name, creating=creating) from None

    def append(self, name: str, line: str, *, timeout: Timeout | None = None) -> None:
        """See `StateStore.append`: safe with any number of other appenders.

        Raises: StoreUnavailable (the line may or may not be there), StoreDenied.
        """
        if "\n" in line:
            raise ValueError("a line of a log document contains no line break")
        self._log.append(name, line, timeout)

    def lines(self, name: str, *, limit: int | None = None) -> list[str]:
        """See `StateStore.lines`: one LIST, and GETs from the log's end backwards until there are enough.

        Raises: StoreUnavailable, StoreDenied.
        """
        return self._log.lines(name, limit)

    def names(self, prefix: str) -> Iterator[str]:
        """See `StateStore.names`. Raises: StoreUnavailable, StoreDenied."""
        found = self._container.list(prefix)
        return iter(sorted(blob.name for blob in found if not (blob.is_log and is_later_part(blob.name))))

    def locate(self, name: str) -> str:
        """See `StateStore.locate`."""
        return self._container.locate(name)

    def checkup(self, name: str) -> list[Finding]:
        """What `poller check` should say of the container and its account; `name`: a document that may exist.

        Raises: StoreUnavailable.
        """
        return examine(self._container, name)

    def close(self) -> None:
        """Let go of connections; the next call makes new ones."""
        self._container.close()

    def _put(self, name: str, body: bytes, if_tag: str | None, timeout: Timeout | None) -> Written:
        condition: dict[str, Any] = {"match_condition": MatchConditions.IfMissing}
        if if_tag is not None:
            condition = {"match_condition": MatchConditions.IfNotModified, "etag": if_tag}
        blob = self._container.client().get_blob_client(name)
        answer = blob.upload_blob(
            body, length=len(body), overwrite=True, content_settings=_JSON, **condition, **seconds(timeout)
        )
        tag = answer.get("etag")
        if not isinstance(tag, str) or not tag.endswith('"'):  # without a whole one nothing is known to be written
            raise self._container.no_blob_service(name)
        return Written(tag, _datetime(answer.get("date")), _datetime(answer.get("last_modified")))


def _once_per_process(make: Callable[[], TokenCredential]) -> Callable[[], TokenCredential]:
    """A credential has connections of its own, which a child process does not share with its parent."""
    made = functools.cache(lambda _: make())
    return lambda: made(forks.generation())


def _time(headers: Mapping[str, str], header: str) -> datetime | None:
    try:
        return _datetime(parsedate_to_datetime(headers[header]))
    except (KeyError, ValueError, TypeError, IndexError, OverflowError):
        return None


def _datetime(value: object) -> datetime | None:
    """A time in UTC; "-0000" says as much, although it has no zone in Python. None for what is no time, and for one
    that no service has now, as of a proxy without a clock: no lease would expire by it, or sums with it overflow."""
    if not isinstance(value, datetime):
        return None
    told = in_utc(value if value.tzinfo is not None else value.replace(tzinfo=UTC))
    return told if _PLAUSIBLE[0] <= told.year <= _PLAUSIBLE[1] else None
