"""What a dispatcher costs at a real storage service."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TypeAlias

import pytest

from poller.stores import BlobStore
from tests.support.azurite import Azurite
from tests.support.dispatching import Shop

Make: TypeAlias = Callable[..., Shop]


def requests(azurite: Azurite, since: int, container: str) -> Counter[str]:
    found = [one for one in azurite.requests(since) if one.path.startswith(f"/{container}")]
    return Counter("LIST" if "comp=list" in one.query else one.method for one in found)


@pytest.mark.guarantee(
    "Cost",
    "A round of the dispatcher in which no poller has rows costs one LIST, and no read or write of a document; "
    "nothing is inspected",
)
def test_an_idle_round_of_many_pollers_is_one_list_request(shop: Make, azurite: Azurite, container: str) -> None:
    store = BlobStore.from_connection_string(azurite.connection_string, container)
    many = shop(25, store=store)
    dispatcher = many.started()
    mark = azurite.mark()
    for _ in range(3):
        output = many.round(dispatcher)
        assert (output.asked, output.sent) == (25, [])
    assert requests(azurite, mark, container) == {"LIST": 3}
    store.close()


def test_a_round_after_work_reads_what_changed_alone(shop: Make, azurite: Azurite, container: str) -> None:
    store = BlobStore.from_connection_string(azurite.connection_string, container)
    many = shop(10, store=store)
    dispatcher = many.started()
    many.rows("p3")
    many.round(dispatcher)
    assert many.poller("p3").tick().rows == 1
    mark = azurite.mark()
    assert many.round(dispatcher).at_work == 1, "it changed since the LIST before"
    assert requests(azurite, mark, container) == {"LIST": 1}
    mark = azurite.mark()
    many.round(dispatcher)
    assert requests(azurite, mark, container) == {"LIST": 1, "GET": 1}
    store.close()


def test_on_tables_an_idle_round_is_one_query_too(shop: Make, azurite: Azurite) -> None:
    pytest.importorskip("azure.data.tables")
    from poller.stores import TableStore

    store = TableStore.from_connection_string(azurite.connection_string_with_tables, azurite.table_name())
    many = shop(10, store=store)
    dispatcher = many.started()
    many.rows("p3")
    many.round(dispatcher)
    assert many.poller("p3").tick().rows == 1
    many.round(dispatcher)
    many.round(dispatcher)

    mark = azurite.mark(tables=True)
    output = many.round(dispatcher)
    assert (output.asked, output.sent) == (10, [])
    (request,) = azurite.requests(mark, tables=True)
    assert "filter=PartitionKey" in request.query
    store.close()
