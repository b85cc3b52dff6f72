"""Late, held and slow requests, outages and wrong clocks, against a real Azurite."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from email.utils import parsedate_to_datetime
from typing import Any

import pytest
from azure.core import MatchConditions
from azure.core.exceptions import (
    HttpResponseError,
    ResourceModifiedError,
    ServiceRequestError,
    ServiceResponseError,
    ServiceResponseTimeoutError,
)
from azure.storage.blob import BlobClient

from tests.resilience.faults import fault
from tests.resilience.faults.clients import BLOB, NEW, OLD, cas, content, seed
from tests.resilience.faults.plan import STATE_READS, Always, NoFaults, Script
from tests.resilience.faults.proxy import FaultProxy
from tests.support.services import free_port

# --- late, held and slow ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", ["silence", "reset", "close", "error"])
def test_a_late_write_lands_when_it_is_released(
    proxy: FaultProxy, blob: BlobClient, direct: BlobClient, answer: fault.Answer
) -> None:
    etag = seed(direct)
    proxy.plan = Script([fault.late("zombie", answer=answer)])
    with pytest.raises((ServiceResponseError, HttpResponseError)):
        cas(blob, NEW, etag)
    assert content(direct) == OLD
    assert proxy.release("another tag") == []
    assert content(direct) == OLD
    [record] = proxy.release("zombie")
    assert record.upstream == [201]
    assert content(direct) == NEW


def test_a_late_write_is_fenced_by_the_resent_copy(proxy: FaultProxy, blob: BlobClient, direct: BlobClient) -> None:
    etag = seed(direct)
    proxy.plan = Script([fault.late("zombie", answer="reset")])
    with pytest.raises(ServiceResponseError):
        cas(blob, NEW, etag)
    cas(blob, NEW, etag)
    [record] = proxy.release()
    assert record.upstream == [412]
    assert not record.applied


def test_a_late_write_lands_by_itself_after_its_time(proxy: FaultProxy, blob: BlobClient, direct: BlobClient) -> None:
    etag = seed(direct)
    proxy.plan = Script([fault.late(seconds=0.3, answer="reset")])
    with pytest.raises(ServiceResponseError):
        cas(blob, NEW, etag)
    [record] = proxy.requests
    assert not record.applied
    proxy.settle()
    assert record.applied
    assert content(direct) == NEW


def test_a_held_write_loses_to_one_that_passed_it(proxy: FaultProxy, blob: BlobClient, direct: BlobClient) -> None:
    etag = seed(direct)
    patient = BlobClient.from_connection_string(
        proxy.connection_string, blob.container_name, blob.blob_name, retry_total=0, read_timeout=30
    )
    proxy.plan = Script([fault.hold_before("first")])
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(cas, patient, OLD, etag)
        proxy.await_held("first")
        cas(blob, NEW, etag)
        proxy.release("first")
        assert isinstance(slow.exception(), ResourceModifiedError)
    assert content(direct) == NEW


def test_a_held_answer_comes_after_the_write_is_applied(
    proxy: FaultProxy, blob: BlobClient, direct: BlobClient
) -> None:
    etag = seed(direct)
    proxy.plan = Script([fault.hold_after("answer")])
    with ThreadPoolExecutor(1) as pool:
        write = pool.submit(cas, blob, NEW, etag)
        [record] = proxy.await_held("answer")
        assert record.applied
        assert record.status is None
        assert content(direct) == NEW
        proxy.release("answer")
        assert write.result() == direct.get_blob_properties().etag


def test_a_truncated_document_is_never_taken_for_whole(proxy: FaultProxy, blob: BlobClient, direct: BlobClient) -> None:
    seed(direct)
    proxy.plan = Always(fault.truncated(0.5), STATE_READS)
    with pytest.raises(HttpResponseError, match="IncompleteRead"):
        content(blob)
    # The SDK repeats a broken download by itself, whatever `retry_total` says.
    assert proxy.counts() == {"GET": 3}
    proxy.plan = NoFaults()
    assert content(blob) == OLD


def test_a_dribbling_answer_outlasts_the_read_timeout_and_is_whole(proxy: FaultProxy, direct: BlobClient) -> None:
    seed(direct)
    hasty = BlobClient.from_connection_string(
        proxy.connection_string, direct.container_name, direct.blob_name, retry_total=0, read_timeout=2
    )
    proxy.plan = Script([fault.dribble(0.006)], STATE_READS)
    assert content(hasty) == OLD
    proxy.plan = Script([fault.dribble(0.2, "drip")], STATE_READS)
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(content, hasty)
        proxy.await_held("drip")
        proxy.release("drip")
        assert reading.result() == OLD


# --- outages and clocks ----------------------------------------------------------------------------------------------


def test_down_refuses_and_resets_and_up_is_the_same_port(
    proxy: FaultProxy, blob: BlobClient, direct: BlobClient
) -> None:
    seed(direct)
    port = proxy.port
    assert content(blob) == OLD
    for _ in range(3):
        proxy.down()
        for _ in range(2):
            with pytest.raises((ServiceRequestError, ServiceResponseError)):
                content(blob)
        proxy.up()
        assert content(blob) == OLD
    assert proxy.port == port


def test_down_resets_a_request_under_way(proxy: FaultProxy, blob: BlobClient) -> None:
    proxy.plan = Script([fault.black_hole()])
    with ThreadPoolExecutor(1) as pool:
        write = pool.submit(blob.upload_blob, NEW)
        proxy.await_held()
        proxy.down()
        failure = write.exception()
    assert isinstance(failure, ServiceResponseError)
    assert not isinstance(failure, ServiceResponseTimeoutError)


def test_a_dead_server_behind_the_proxy_is_a_broken_connection() -> None:
    with FaultProxy("127.0.0.1", free_port()) as proxy:
        client = BlobClient.from_connection_string(proxy.connection_string, "c", BLOB, retry_total=0)
        with pytest.raises(ServiceResponseError):
            client.exists()
        assert proxy.requests[0].upstream == []


def read_dates(client: BlobClient, **conditions: Any) -> tuple[str | None, str | None]:
    seen: list[tuple[str | None, str | None]] = []

    def note(response: Any) -> None:
        headers = response.http_response.headers
        seen.append((headers.get("Date"), headers.get("Last-Modified")))

    with contextlib.suppress(ResourceModifiedError):
        client.download_blob(raw_response_hook=note, **conditions).readall()
    return seen[-1]


def age(dates: tuple[str | None, str | None]) -> float:
    date, modified = dates
    assert date is not None
    assert modified is not None
    return (parsedate_to_datetime(date) - parsedate_to_datetime(modified)).total_seconds()


def test_a_shifted_clock_moves_both_times_and_a_step_the_later(proxy: FaultProxy, blob: BlobClient) -> None:
    blob.upload_blob(OLD)
    true_age = age(read_dates(blob))
    assert true_age < 60
    proxy.clock.shift(-86400)
    assert abs(age(read_dates(blob)) - true_age) < 60
    proxy.clock.step(3600)
    assert 3600 <= age(read_dates(blob)) < 3660
    blob.upload_blob(NEW, overwrite=True)
    assert age(read_dates(blob)) < 60
    proxy.clock.step(-7200)
    assert -7200 <= age(read_dates(blob)) < -7140
    proxy.clock.reset()
    assert 0 <= age(read_dates(blob)) < 60


def test_an_unchanged_blob_shows_the_stepped_date_only(proxy: FaultProxy, blob: BlobClient) -> None:
    etag = blob.upload_blob(OLD)["etag"]
    before, modified = read_dates(blob)
    proxy.clock.step(7200)
    date, none = read_dates(blob, etag=etag, match_condition=MatchConditions.IfModified)
    assert none is None
    assert 7200 <= age((date, before)) < 7260
    assert 7200 <= age((date, modified)) < 7260


def test_one_answer_may_have_a_wrong_date_or_none(proxy: FaultProxy, blob: BlobClient) -> None:
    blob.upload_blob(OLD)
    proxy.plan = Script([fault.date_off(-5000), fault.without("Date", "Last-Modified")], STATE_READS)
    assert -5000 <= age(read_dates(blob)) < -4940
    assert read_dates(blob) == (None, None)
    assert age(read_dates(blob)) < 60
