"""What the SDK's own settings would do to a poller, and what ours do: each pair fails if the setting were left out.

How long an attempt may take, and what is asked of its connection: `tests.contract.stores.test_blob_transport`.
"""

from __future__ import annotations

from typing import Any

import pytest
from azure.core.exceptions import ResourceModifiedError
from azure.core.pipeline.transport import HttpTransport
from azure.core.pipeline.transport._requests_basic import RequestsTransport
from azure.storage.blob import BlobClient, ContainerClient

from poller import Batch
from poller.errors import StoreUnavailable
from poller.ports import Timeout
from poller.stores import BlobStore
from poller.stores.azure.client import ServiceAccess
from poller.stores.blob.container import Container
from tests.resilience.faults import fault
from tests.resilience.faults.bench import Passing
from tests.resilience.faults.clients import BLOB, NEW, OLD, cas, content, seed
from tests.resilience.faults.plan import STATE_READS, Always, Match, Script
from tests.resilience.faults.proxy import FaultProxy
from tests.resilience.faults.shop import Shop
from tests.support.services import wait_until


class Impatient(RequestsTransport):
    """The SDK's transport, with its pauses between two attempts noted and left out."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: list[float] = []

    def sleep(self, duration: float) -> None:
        self.pauses.append(duration)


@pytest.mark.parametrize(
    "lost", [fault.reset_after(), fault.drop_after(), fault.error_after(500)], ids=lambda f: f.name
)
def test_the_sdks_retry_turns_an_applied_write_into_a_refused_one(
    proxy: FaultProxy, direct: BlobClient, lost: fault.Fault
) -> None:
    """The control: nobody else wrote, the bytes in the blob are ours, and after some 15 s the SDK says 412."""
    etag = seed(direct)
    transport = Impatient()
    client = BlobClient.from_connection_string(
        proxy.connection_string, direct.container_name, BLOB, transport=transport
    )
    proxy.plan = Script([lost])
    with pytest.raises(ResourceModifiedError):
        cas(client, NEW, etag)
    assert content(direct) == NEW
    assert min(transport.pauses) >= 12
    assert proxy.counts() == {"PUT": 2}


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
    """The SDK's client asks three times, a second apart (`test_timing`)."""
    seed(direct)
    store = BlobStore.from_connection_string(proxy.connection_string, direct.container_name)
    proxy.plan = Script([fault.truncated(0.5)], STATE_READS)
    with pytest.raises(StoreUnavailable):
        store.read(BLOB)
    assert proxy.counts() == {"GET": 1}
    assert content(direct) == OLD


class _SdkDefaults(ServiceAccess):
    """Makes a client as the SDK makes it."""

    def client(self, kind: Any, name: str, limits: Timeout, **options: Any) -> Any:
        return ContainerClient.from_connection_string(self.connection, name)


def _with_sdk_defaults(proxy: FaultProxy, container: str) -> BlobStore:
    return BlobStore(Container(_SdkDefaults("blob", proxy.connection_string), container))


@pytest.mark.parametrize("sdk", [True, False], ids=["sdk-defaults", "our-settings"])
def test_a_lost_heartbeat_answer_loses_the_lease_by_sdk_defaults(
    proxy: FaultProxy, container: str, shop: Shop, sdk: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the SDK sleeps before it resends nothing renews the lease. Its sleep passes on the poller's clock."""
    runtime = Passing()
    monkeypatch.setattr(HttpTransport, "sleep", lambda self, duration: runtime.passes(duration))
    ours = BlobStore.from_connection_string(proxy.connection_string, container)
    store = _with_sdk_defaults(proxy, container) if sdk else ours
    ours.write("state/other", b"{}", if_tag=None)  # the container
    proxy.plan = Script([None, fault.drop_after()], Match(("PUT",), "state/shop/orders.json"))

    def handle(batch: Batch) -> None:
        wait_until(
            lambda: bool(shop.emitted("write_resolved")), "the heartbeat's answer was lost, and its fate found out"
        )

    poller = shop.poller(store, runtime=runtime, lease_ttl="9s", heartbeat_interval="750ms")
    result = poller.tick(handle)
    assert result.outcome == ("lease_lost" if sdk else "delivered")
    assert len(shop.emitted("stale_commit_refused")) == sdk


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
