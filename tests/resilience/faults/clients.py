"""Small operations on one state blob, for the tests of the proxy."""

from __future__ import annotations

from typing import Any

from azure.core import MatchConditions
from azure.storage.blob import BlobClient

BLOB = "state/shop/orders.json"
OLD, NEW = b'{"generation": "old"}', b'{"generation": "new"}'


def seed(direct: BlobClient) -> str:
    """Create the blob, or put it back; its ETag."""
    return str(direct.upload_blob(OLD, overwrite=True)["etag"])


def cas(client: BlobClient, body: bytes, etag: str) -> str:
    """Write the blob if it still has that ETag; its new one."""
    answer: dict[str, Any] = client.upload_blob(
        body, overwrite=True, etag=etag, match_condition=MatchConditions.IfNotModified
    )
    return str(answer["etag"])


def content(client: BlobClient) -> bytes:
    """The whole blob."""
    return client.download_blob().readall()
