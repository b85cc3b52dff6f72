"""What a listing costs."""

from __future__ import annotations

from poller.stores import BlobStore
from tests.support.azurite import Azurite


def test_one_request_lists_up_to_five_thousand_blobs(azurite: Azurite, container: str) -> None:
    store = BlobStore.from_connection_string(azurite.connection_string, container)
    for number in range(3):
        store.write(f"state/shop/p{number}.json", b"{}", if_tag=None)
    mark = azurite.mark()

    assert len(list(store.listed("state/shop/"))) == 3

    (request,) = azurite.requests(mark)
    assert request.method == "GET"
    assert "maxresults=5000" in request.query
    store.close()
