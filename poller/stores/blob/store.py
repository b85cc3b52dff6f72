"""Documents as blobs in Azure Blob Storage or Azurite. Only this package imports azure.storage.

One `read` is one GET and one `write` is one PUT, sent once: the caller decides about sending again, because only it can
know whether an earlier copy was applied (protocol, "Facts about azure-storage-blob"). Two exceptions cost one request
more: an empty document (never ours) is read twice, and the first write into a container that does not exist creates it.
The tag is the ETag. Server times have a precision of a second.

`Timeout.read` limits an answer as a whole, however slowly it arrives (a large one gets a second more for every 100 kB
received). The limit for connecting applies to each of a name's addresses, and for sending to each piece sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from azure.core import MatchConditions
from azure.core.exceptions import AzureError
from azure.storage.blob import ContentSettings

from poller.entra import Identity
from poller.model.finding import Finding
from poller.model.limits import LARGEST_BODY
from poller.ports import Found, Listed, Missing, Timeout, Unchanged, Written, unquoted
from poller.stores.azure.client import ServiceAccess
from poller.stores.azure.errors import FAILURES, code_of, status_of
from poller.stores.azure.transport import seconds
from poller.stores.blob.address import read_address
from poller.stores.blob.checkup import examine
from poller.stores.blob.container import Container
from poller.stores.blob.log import BLOCKS_PER_APPEND_BLOB, BlobLog, log_name
from poller.stores.times import header_time, plausible

if TYPE_CHECKING:
    from azure.core.credentials import TokenCredential

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
        return cls(Container(ServiceAccess.by_key(connection_string, "blob"), container), log_blocks=log_blocks)

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
        """Without a key: with `credential`, or else DefaultAzureCredential (`client_id`: the identity's).

        Raises: ConfigError (no https address, not a container's name).
        """
        access = ServiceAccess.by_identity(account_url, "blob", Identity(client_id), credential=credential)
        return cls(Container(access, container), log_blocks=log_blocks)

    @classmethod
    def from_settings(cls, name: str, container: str, environ: Mapping[str, str]) -> BlobStore:
        """For `[state] connection = name`, as `account.from_environment` reads it.

        Raises: ConfigError with key `state.connection`, naming the settings that were searched.
        """
        return cls(Container(ServiceAccess.from_settings(name, "blob", environ, why='store = "blob"'), container))

    @classmethod
    def from_address(cls, url: str, *, connection: str, environ: Mapping[str, str]) -> tuple[BlobStore, str]:
        """The container in a blob's address, and the blob's name in it; the account's read-only secondary will do.

        Signs in by the SAS token in the address; else as the app setting `connection` does, if it is of that account;
        else by identity (DefaultAzureCredential), whose token is sent to hosts of Azure Storage only.

        Raises: as `account.read_address`.
        """
        found = read_address(url, connection, environ)
        if found.is_own and not found.sas:
            return cls.from_settings(connection, found.container, environ), found.name
        access = ServiceAccess.by_identity(found.endpoint, "blob")
        if found.sas:
            access = ServiceAccess.by_token(found.endpoint, "blob", found.sas)
        return cls(Container(access, found.container, primary=False)), found.name

    def read(
        self, name: str, *, unless: str | None = None, timeout: Timeout | None = None
    ) -> Found | Unchanged | Missing:
        """See `StateStore.read`: one conditional GET."""
        headers: Mapping[str, str] = {}

        def keep_headers(response: Any) -> None:
            nonlocal headers
            headers = response.http_response.headers

        options = {"raw_response_hook": keep_headers, **seconds(timeout)}
        if unless is not None:
            options |= {"etag": unless, "match_condition": MatchConditions.IfModified}
        blob = self._container.blob(name)
        try:
            try:
                # One byte more than a document may have shows that it is too large; the rest is not fetched.
                download = blob.download_blob(offset=0, length=LARGEST_BODY + 1, **options)
            except AzureError as error:
                if status_of(error) != 416:  # an empty document has no range
                    raise
                download = blob.download_blob(**options)
            body = download.readall()
        except FAILURES as error:
            if status_of(error) == 304:
                return Unchanged(header_time(headers, "Date"))
            if status_of(error) == 404 and code_of(error):
                return Missing(header_time(headers, "Date"))
            raise self._container.translated(error, name, reading=True) from None
        tag = headers.get("ETag")
        if not tag or not tag.endswith('"') or len(body) != download.size:
            raise self._container.no_blob_service(name)
        return Found(body, tag, header_time(headers, "Date"), header_time(headers, "Last-Modified"))

    def write(self, name: str, body: bytes, *, if_tag: str | None, timeout: Timeout | None = None) -> Written:
        """See `StateStore.write`: one conditional PUT; a missing container is created with its first document."""
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

    def remove(self, name: str, *, if_tag: str, timeout: Timeout | None = None) -> None:
        """See `StateStore.remove`: one conditional DELETE, with snapshots that were made of the document."""
        blob = self._container.blob(name)
        same: dict[str, Any] = {"match_condition": MatchConditions.IfNotModified, "etag": if_tag}
        try:
            blob.delete_blob(delete_snapshots="include", **same, **seconds(timeout))
        except FAILURES as error:
            raise self._container.translated(error, name) from None

    def append(self, name: str, line: str, *, timeout: Timeout | None = None) -> None:
        """See `StateStore.append`: safe with any number of other appenders."""
        if "\n" in line:
            raise ValueError("a line of a log document contains no line break")
        self._log.append(name, line, timeout)

    def lines(self, name: str, *, limit: int | None = None) -> list[str]:
        """See `StateStore.lines` and `BlobLog.lines`."""
        return self._log.lines(name, limit)

    def names(self, prefix: str) -> Iterator[str]:
        """See `StateStore.names`. A log is there as long as any part of it is: a rule of the account may have deleted
        the first."""
        found = {log_name(blob.name) if blob.is_log else blob.name for blob in self._container.list(prefix)}
        return iter(sorted(name for name in found if name.startswith(prefix)))

    def listed(self, prefix: str, *, timeout: Timeout | None = None) -> Iterator[Listed]:
        """See `ListingStore.listed`."""
        for blob in self._container.list(prefix, timeout):
            if not blob.is_log:
                yield Listed(blob.name, unquoted(blob.tag), plausible(blob.modified_at))

    def locate(self, name: str) -> str:
        """See `StateStore.locate`."""
        return self._container.locate(name)

    def checkup(self, name: str, *, exists: bool = True) -> list[Finding]:
        """What `poller check` says of the container and its account; `name`: a document; `exists`: or may exist.

        Raises: StoreUnavailable.
        """
        return examine(self._container, name, exists=exists)

    def close(self) -> None:
        """See `StateStore.close`."""
        self._container.close()

    def _put(self, name: str, body: bytes, if_tag: str | None, timeout: Timeout | None) -> Written:
        condition: dict[str, Any] = {"match_condition": MatchConditions.IfMissing}
        if if_tag is not None:
            condition = {"match_condition": MatchConditions.IfNotModified, "etag": if_tag}
        blob = self._container.blob(name)
        answer = blob.upload_blob(
            body, length=len(body), overwrite=True, content_settings=_JSON, **condition, **seconds(timeout)
        )
        tag = answer.get("etag")
        if not isinstance(tag, str) or not tag.endswith('"'):  # without a whole tag it is unknown what was written
            raise self._container.no_blob_service(name)
        return Written(tag, plausible(answer.get("date")), plausible(answer.get("last_modified")))
