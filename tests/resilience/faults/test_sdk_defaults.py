"""Settings of the storage SDK that a poller needs: each test fails if the setting is left out.

How long an attempt may take, and what is asked of its connection: `tests.contract.stores.test_blob_transport`.
"""

from __future__ import annotations

import pytest
from azure.storage.blob import BlobClient

from poller.errors import StoreUnavailable
from poller.stores import BlobStore
from tests.resilience.faults import fault
from tests.resilience.faults.clients import BLOB, NEW, OLD, content, seed
from tests.resilience.faults.plan import STATE_READS, Always, Match, Script
from tests.resilience.faults.proxy import FaultProxy
from tests.resilience.faults.shop import Shop


@pytest.mark.parametrize(
    "lost", [fault.reset_after(), fault.drop_after(), fault.error_after(500)], ids=lambda f: f.name
)
def test_our_store_sends_a_write_once_and_reports_unknown(
    proxy: FaultProxy, direct: BlobClient, lost: fault.Fault
) -> None:
    etag = seed(direct)
    store = BlobStore.from_connection_string(proxy.connection_string, direct.container_name)
    proxy.plan = Script([lost])
    with pytest.raises(StoreUnavailable):
        store.write(BLOB, NEW, if_tag=etag)
    assert proxy.counts() == {"PUT": 1}
    assert content(direct) == NEW


def test_our_store_asks_for_a_truncated_document_once(proxy: FaultProxy, direct: BlobClient) -> None:
    """The SDK's client asks three times, a second apart (`test_proxy`)."""
    seed(direct)
    store = BlobStore.from_connection_string(proxy.connection_string, direct.container_name)
    proxy.plan = Script([fault.truncated(0.5)], STATE_READS)
    with pytest.raises(StoreUnavailable):
        store.read(BLOB)
    assert proxy.counts() == {"GET": 1}
    assert content(direct) == OLD


def test_a_service_that_is_busy_for_a_moment_costs_a_moment(proxy: FaultProxy, container: str, shop: Shop) -> None:
    """Retry-After of a minute would outlast the lease: our own pause counts."""
    store = BlobStore.from_connection_string(proxy.connection_string, container)
    store.write("state/other", b"{}", if_tag=None)
    proxy.plan = Script([fault.error_before(503, retry_after=60)] * 3, Match(("PUT",), "state/shop/orders.json"))
    assert shop.poller(store).tick(lambda batch: None).outcome == "delivered"
    assert proxy.count("PUT", "state/shop/orders.json") == 5


def test_an_outage_is_an_error_and_never_an_idle_tick(proxy: FaultProxy, container: str, shop: Shop) -> None:
    store = BlobStore.from_connection_string(proxy.connection_string, container)
    poller = shop.poller(store)
    assert poller.tick(lambda batch: None).outcome == "delivered"
    for broken in (fault.black_hole(), fault.error_before(503), fault.truncated(0.5), fault.drop_before()):
        proxy.plan = Always(broken, STATE_READS)
        with pytest.raises(StoreUnavailable):
            poller.tick(lambda batch: None)
