"""One container: its client, its creation, its listing, and the translation of the SDK's errors."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, NamedTuple

from azure.core.exceptions import AzureError
from azure.storage.blob import BlobClient, BlobType, ContainerClient

from poller.errors import ConfigError, StoreError, StoreUnavailable
from poller.ports import Timeout
from poller.stores.azure.advice import BLOBS
from poller.stores.azure.client import AccountClient, ServiceAccess
from poller.stores.azure.errors import FAILURES, code_of, not_created, translate
from poller.stores.azure.transport import seconds
from poller.stores.refusals import not_the_services

PAGE = 5000
"""Blobs in one answer to a LIST: the service's own limit."""
_MOST_KEPT = 64
"""Clients of documents: a process has few documents that it writes often, and many records that it writes once."""
_MEGABYTES_64 = 64 * 1024 * 1024
_CONTAINER = re.compile(r"(?=.{3,63}\Z)[a-z0-9]+(-[a-z0-9]+)*\Z|\$(root|web|logs)\Z")


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


class ListedBlob(NamedTuple):
    """A blob in a listing. `size`: in bytes, at that moment; `tag`: as the service lists it."""

    name: str
    is_log: bool
    size: int
    tag: str
    modified_at: datetime | None


class Container(AccountClient[ContainerClient]):
    """A container that may not exist yet; safe to use from several threads.

    Raises, from the constructor: ConfigError (no container's name; as `AccountClient`).
    """

    def __init__(self, access: ServiceAccess, name: str, *, primary: bool = True) -> None:
        # A document is one request.
        one: dict[str, Any] = {"max_single_put_size": _MEGABYTES_64, "max_single_get_size": _MEGABYTES_64}
        super().__init__(access, ContainerClient, check_container(name), primary=primary, **one)

    def _forget(self) -> None:
        super()._forget()
        self._blobs: dict[str, BlobClient] = {}

    def blob(self, name: str) -> BlobClient:
        """The SDK's client of one blob, over the container's connections. It is kept, as making one takes long."""
        with self._lock:
            blob = self._blobs.get(name)
            if blob is None:
                if len(self._blobs) >= _MOST_KEPT:
                    self._blobs.clear()
                blob = self._blobs[name] = self._connected().get_blob_client(name)
            return blob

    def locate(self, name: str) -> str:
        """Where the blob `name` is; the container itself when it is empty."""
        blob = f"blob {name} in " if name else ""
        return f"{blob}container {self.name} of {self.address}"

    def list(self, prefix: str, timeout: Timeout | None = None) -> list[ListedBlob]:
        """The blobs whose names begin with `prefix`, by one LIST for each `PAGE`; none where there is no container.

        Raises: StoreUnavailable, StoreDenied.
        """
        try:
            blobs = self.client().list_blobs(name_starts_with=prefix, results_per_page=PAGE, **seconds(timeout))
            return [
                ListedBlob(
                    blob.name, blob.blob_type == BlobType.APPENDBLOB, blob.size, str(blob.etag), blob.last_modified
                )
                for blob in blobs
            ]
        except FAILURES as error:
            if code_of(error) == "ContainerNotFound":
                return []
            raise self.translated(error, prefix, reading=True) from None

    def create(self, timeout: Timeout | None) -> None:
        """Create the container, unless another did so meanwhile.

        Raises: StoreUnavailable, StoreDenied.
        """
        try:
            self.client().create_container(**seconds(timeout))
        except FAILURES as error:
            if code_of(error) == "ContainerAlreadyExists":
                return
            raise not_created(self.translated(error, ""), "container", self.name, error) from None

    def translated(self, error: Exception, name: str, *, creating: bool = False, reading: bool = False) -> StoreError:
        """The error to raise, `from None`: the SDK's texts may hold a signed address."""
        if isinstance(error, AzureError):
            return translate(error, self.locate(name), name, BLOBS, creating=creating, reading=reading)
        return self.no_blob_service(name)

    def no_blob_service(self, name: str) -> StoreUnavailable:
        """The error for an answer that is not a blob service's."""
        return not_the_services(BLOBS, self.locate(name), name)
