"""The proxy's faults as the storage SDK meets them, against a real Azurite: what the client sees, and what is true."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from azure.core import MatchConditions
from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    HttpResponseError,
    ResourceExistsError,
    ResourceModifiedError,
    ServiceResponseError,
    ServiceResponseTimeoutError,
)
from azure.storage.blob import BlobClient

from tests.resilience.faults import fault
from tests.resilience.faults.clients import NEW, OLD, cas, content, seed
from tests.resilience.faults.fault import Fault
from tests.resilience.faults.plan import STATE_WRITES, Script
from tests.resilience.faults.proxy import FaultProxy
from tests.resilience.faults.request import Request
from tests.support.azurite import Azurite

# --- nothing wrong ---------------------------------------------------------------------------------------------------


def test_without_faults_the_client_sees_what_azurite_says(blob: BlobClient, direct: BlobClient) -> None:
    created = blob.upload_blob(OLD)
    assert content(blob) == content(direct) == OLD
    assert blob.get_blob_properties() == direct.get_blob_properties()
    with pytest.raises(ResourceExistsError) as exists:
        blob.upload_blob(NEW)
    assert exists.value.status_code == 409
    with pytest.raises(ResourceModifiedError) as stale:
        cas(blob, NEW, '"0xDEADBEEFDEADBEEF"')
    assert stale.value.status_code == 412
    with pytest.raises(ResourceModifiedError) as unchanged:
        blob.download_blob(etag=created["etag"], match_condition=MatchConditions.IfModified)
    assert unchanged.value.status_code == 304
    blob.delete_blob()
    assert not direct.exists()


def test_large_bodies_pass_unchanged_in_both_directions(blob: BlobClient, direct: BlobClient) -> None:
    large = bytes(range(256)) * 8192
    blob.upload_blob(large)
    assert content(direct) == large
    assert content(blob) == large


def test_it_counts_what_azurite_counts(azurite: Azurite, proxy: FaultProxy, blob: BlobClient) -> None:
    mark = azurite.mark()
    etag = cas(blob, NEW, blob.upload_blob(OLD)["etag"])
    content(blob)
    with pytest.raises(ResourceModifiedError):
        blob.download_blob(etag=etag, match_condition=MatchConditions.IfModified)
    truth = [(one.method, one.status) for one in azurite.requests(mark)]
    assert [(one.request.method, one.status) for one in proxy.requests] == truth
    assert proxy.counts() == {"PUT": 2, "GET": 2}
    assert proxy.count("GET", "orders.json", lambda record: record.status == 304) == 1


def test_the_log_distinguishes_creates_from_conditional_writes(proxy: FaultProxy, blob: BlobClient) -> None:
    first = blob.upload_blob(OLD)["etag"]
    second = cas(blob, NEW, first)
    create, write = proxy.requests
    assert create.request.is_create
    assert not write.request.is_create
    assert (create.request.if_none_match, write.request.if_match) == ("*", first)
    assert [create.request.body, write.request.body] == [OLD, NEW]
    assert [create.etags, write.etags] == [[first], [second]]
    assert write.landed is not None
    assert write.answered is not None
    assert create.arrived < write.arrived < write.landed <= write.answered
    proxy.reset()
    assert proxy.counts() == {}


# --- one fault, one write --------------------------------------------------------------------------------------------

SILENT = ServiceResponseTimeoutError
BROKEN = ServiceResponseError


@pytest.mark.parametrize(
    ("trouble", "applied", "seen"),
    [
        (fault.reset_before(), False, BROKEN),
        (fault.reset_after(), True, BROKEN),
        (fault.drop_before(), False, BROKEN),
        (fault.drop_after(), True, BROKEN),
        (fault.black_hole(), False, SILENT),
        (fault.silence_after(), True, SILENT),
        (fault.error_before(500), False, HttpResponseError),
        (fault.error_after(500), True, HttpResponseError),
        (fault.error_before(503), False, HttpResponseError),
        (fault.error_before(408), False, HttpResponseError),
        (fault.error_before(429), False, HttpResponseError),
        (fault.error_before(401), False, ClientAuthenticationError),
        (fault.error_before(403), False, HttpResponseError),
    ],
    ids=repr,
)
def test_a_failed_write_is_applied_or_not_as_the_fault_says(
    proxy: FaultProxy,
    blob: BlobClient,
    direct: BlobClient,
    trouble: Fault,
    applied: bool,
    seen: type[AzureError],
) -> None:
    etag = seed(direct)
    proxy.plan = Script([trouble])
    with pytest.raises(seen) as error:
        cas(blob, NEW, etag)
    assert getattr(error.value, "status_code", None) == (trouble.status or None)
    assert content(direct) == (NEW if applied else OLD)
    [record] = proxy.requests
    assert record.applied is applied
    assert record.fault == trouble
    assert record.status == (trouble.status or None)


def test_an_error_names_its_code_and_when_to_come_back(proxy: FaultProxy, blob: BlobClient) -> None:
    proxy.plan = Script([fault.error_before(503, retry_after=7)])
    with pytest.raises(HttpResponseError) as error:
        blob.upload_blob(NEW)
    assert error.value.error_code == "ServerBusy"  # type: ignore[attr-defined]
    headers = error.value.response.headers  # type: ignore[union-attr]
    assert headers["Retry-After"] == "7"
    assert headers["Date"]


def test_the_connection_survives_an_error_and_is_new_after_a_reset(
    proxy: FaultProxy, blob: BlobClient, direct: BlobClient
) -> None:
    proxy.plan = Script([fault.error_before(500), fault.reset_before(), fault.drop_before()])
    for _ in range(3):
        with pytest.raises(AzureError):
            blob.upload_blob(NEW)
    blob.upload_blob(NEW)
    assert content(direct) == NEW


@pytest.mark.parametrize("second", [False, True])
def test_a_duplicated_conditional_write_is_refused_by_the_server(
    proxy: FaultProxy, blob: BlobClient, direct: BlobClient, second: bool
) -> None:
    etag = seed(direct)
    proxy.plan = Script([fault.duplicate(second_answer=second)])
    if second:
        with pytest.raises(ResourceModifiedError):
            cas(blob, NEW, etag)
    else:
        assert cas(blob, NEW, etag) == direct.get_blob_properties().etag
    assert proxy.requests[0].upstream == [201, 412]
    assert content(direct) == NEW


# --- the end ---------------------------------------------------------------------------------------------------------


def test_closing_ends_every_thread_and_nothing_held_lands(azurite: Azurite, direct: BlobClient) -> None:
    etag = seed(direct)
    threads = set(threading.enumerate())
    troubles = [
        fault.hold_before("a"),
        fault.hold_after("b"),
        fault.black_hole(),
        fault.late("c", answer="silence"),
        fault.late(seconds=3600, answer="reset"),
        fault.dribble(3600),
    ]
    stale = '"0xDEADBEEFDEADBEEF"'  # for those whose request is forwarded at once
    with ThreadPoolExecutor(len(troubles)) as pool:
        with FaultProxy("127.0.0.1", azurite.port, Script(troubles)) as proxy:
            tries = []
            for count, trouble in enumerate(troubles, 1):
                client = BlobClient.from_connection_string(
                    proxy.connection_string, direct.container_name, direct.blob_name, retry_total=0
                )
                forwarded = trouble.upstream == "once" and trouble.hold != "before"
                tries.append(pool.submit(cas, client, NEW, stale if forwarded else etag))
                proxy.await_held(count=count)
        assert all(isinstance(one.exception(), AzureError) for one in tries)
    assert {one.name for one in threading.enumerate() if one not in threads} == set()
    assert content(direct) == OLD


def test_a_broken_plan_fails_the_test_that_has_it(azurite: Azurite, direct: BlobClient) -> None:
    def broken(request: Request) -> Fault | None:
        raise LookupError(request.path)

    def use() -> None:
        with FaultProxy("127.0.0.1", azurite.port, broken) as proxy:
            client = BlobClient.from_connection_string(
                proxy.connection_string, direct.container_name, direct.blob_name, retry_total=0
            )
            with pytest.raises(ServiceResponseError):
                client.upload_blob(NEW)

    with pytest.raises(ExceptionGroup) as group:
        use()
    assert group.group_contains(LookupError)


def test_a_script_lists_the_faults_that_never_came(proxy: FaultProxy, blob: BlobClient) -> None:
    script = Script([None, fault.reset_after(), fault.drop_after()], STATE_WRITES)
    proxy.plan = script
    blob.upload_blob(OLD)
    with pytest.raises(ServiceResponseError):
        blob.upload_blob(NEW, overwrite=True)
    assert script.left == [fault.drop_after()]
