"""That a write may or may not have been applied is said only where one was sent."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import closing

import pytest

from poller.errors import StoreUnavailable
from poller.stores import BlobStore, SqlStore

KEY = "a2V5"
UNSURE = "may or may not"


@pytest.fixture
def nobody() -> int:
    """A port at which nobody listens."""
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
    return port


def _blob(port: int) -> BlobStore:
    endpoint = f"http://127.0.0.1:{port}/devstoreaccount1"
    text = f"DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey={KEY};BlobEndpoint={endpoint};"
    return BlobStore.from_connection_string(text, container="db-state")


def _sql(port: int) -> SqlStore:
    return SqlStore(f"postgresql+psycopg://shop@127.0.0.1:{port}/shop")


@pytest.mark.parametrize("store", [_blob, _sql])
def test_a_read_that_no_server_answers_speaks_of_no_write(
    nobody: int, store: Callable[[int], BlobStore | SqlStore]
) -> None:
    with closing(store(nobody)) as made, pytest.raises(StoreUnavailable) as raised:
        made.read("state/shop/orders.json")
    assert UNSURE not in str(raised.value)


def test_nor_does_a_write_whose_connection_was_refused(nobody: int) -> None:
    with closing(_blob(nobody)) as made, pytest.raises(StoreUnavailable) as raised:
        made.write("state/shop/orders.json", b"{}", if_tag='"1"')
    assert UNSURE not in str(raised.value)
    assert not raised.value.sent
