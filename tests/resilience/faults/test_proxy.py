"""The proxy's faults as the storage SDK meets them, against a real Azurite: what the client sees, and what is true."""

from __future__ import annotations

import pytest
from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    HttpResponseError,
    ResourceModifiedError,
    ServiceResponseError,
    ServiceResponseTimeoutError,
)
from azure.storage.blob import BlobClient

from tests.resilience.faults import fault
from tests.resilience.faults.clients import NEW, OLD, cas, content, seed
from tests.resilience.faults.fault import Fault
from tests.resilience.faults.plan import STATE_READS, STATE_WRITES, Script
from tests.resilience.faults.proxy import FaultProxy
from tests.resilience.faults.request import Request
from tests.support.azurite import Azurite


def test_it_counts_what_azurite_counts(azurite: Azurite, proxy: FaultProxy, blob: BlobClient) -> None:
    mark = azurite.mark()
    large = bytes(range(256)) * 8192
    cas(blob, large, blob.upload_blob(OLD)["etag"])
    assert content(blob) == large
    with pytest.raises(ResourceModifiedError):
        cas(blob, NEW, '"0xDEADBEEFDEADBEEF"')
    truth = [(one.method, one.status) for one in azurite.requests(mark)]
    assert [(one.request.method, one.status) for one in proxy.requests] == truth
    assert proxy.counts() == {"PUT": 3, "GET": 1}


SILENT = ServiceResponseTimeoutError
BROKEN = ServiceResponseError
FAULTS: list[tuple[Fault, bool, type[AzureError]]] = [
    (fault.reset_before(), False, BROKEN),
    (fault.reset_after(), True, BROKEN),
    (fault.drop_before(), False, BROKEN),
    (fault.drop_after(), True, BROKEN),
    (fault.black_hole(), False, SILENT),
    (fault.silence_after(), True, SILENT),
    (fault.error_before(500), False, HttpResponseError),
    (fault.error_after(500), True, HttpResponseError),
    (fault.error_before(401), False, ClientAuthenticationError),
    (fault.error_before(403), False, HttpResponseError),
]
"""Whether the write is applied, and what the client sees."""


def test_a_failed_write_is_applied_or_not_as_the_fault_says(
    proxy: FaultProxy, blob: BlobClient, direct: BlobClient
) -> None:
    for trouble, applied, seen in FAULTS:
        etag = seed(direct)
        proxy.reset()
        proxy.plan = Script([trouble])
        with pytest.raises(seen) as error:
            cas(blob, NEW, etag)
        assert getattr(error.value, "status_code", None) == (trouble.status or None), trouble
        assert content(direct) == (NEW if applied else OLD), trouble
        [record] = proxy.requests
        assert (record.applied, record.fault, record.status) == (applied, trouble, trouble.status or None), trouble


def test_a_late_write_lands_when_it_is_released(proxy: FaultProxy, blob: BlobClient, direct: BlobClient) -> None:
    answers: tuple[fault.Answer, ...] = ("silence", "reset", "close", "error")
    for answer in answers:
        etag = seed(direct)
        proxy.plan = Script([fault.late("zombie", answer=answer)])
        with pytest.raises((ServiceResponseError, HttpResponseError)):
            cas(blob, NEW, etag)
        assert content(direct) == OLD, answer
        assert proxy.release("another tag") == []
        [record] = proxy.release("zombie")
        assert (record.upstream, content(direct)) == ([201], NEW), answer


def test_a_duplicated_conditional_write_is_refused_by_the_server(
    proxy: FaultProxy, blob: BlobClient, direct: BlobClient
) -> None:
    etag = seed(direct)
    proxy.plan = Script([fault.duplicate(second_answer=True)])
    with pytest.raises(ResourceModifiedError):
        cas(blob, NEW, etag)
    assert proxy.requests[0].upstream == [201, 412]
    assert content(direct) == NEW


def test_a_truncated_document_is_not_whole(proxy: FaultProxy, blob: BlobClient, direct: BlobClient) -> None:
    seed(direct)
    proxy.plan = Script([fault.truncated(0.5)] * 3, STATE_READS)
    with pytest.raises(HttpResponseError, match="IncompleteRead"):
        content(blob)
    # The SDK repeats a broken download by itself, whatever `retry_total` says.
    assert proxy.counts() == {"GET": 3}


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
