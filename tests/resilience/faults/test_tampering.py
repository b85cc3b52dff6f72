"""Other hands on the blob in mid-tenure: corrupted, metadata touched."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from azure.storage.blob import BlobClient

from poller.errors import LeaseLost, StateCorrupt
from tests.resilience.faults.bench import NAME, Bench, commit, cursor
from tests.resilience.faults.fault import Fault
from tests.resilience.faults.plan import STATE_WRITES
from tests.resilience.faults.request import Request
from tests.support.azurite import Azurite


@pytest.fixture
def state_blob(azurite: Azurite, container: str, bench: Bench) -> Iterator[BlobClient]:
    """The document, for other hands."""
    with BlobClient.from_connection_string(azurite.connection_string, container, NAME) as client:
        yield client


def test_touched_metadata_is_no_loss(bench: Bench, state_blob: BlobClient) -> None:
    """A new ETag over the same bytes: owner, token and checkpoint are still ours, so the change is made again on it."""
    tenure = bench.acquire()
    state_blob.set_blob_metadata({"backup": "yes"})
    commit(tenure, cursor(7), release=False)
    assert bench.emitted("write_redone") == 1
    assert bench.truth().checkpoint.cursor == cursor(7)
    tenure.release(give_back=True)


def test_a_corrupted_document_is_an_error_and_is_never_overwritten(bench: Bench, state_blob: BlobClient) -> None:
    body = b"not JSON"
    tenure = bench.acquire()
    state_blob.upload_blob(body, overwrite=True)
    with pytest.raises(StateCorrupt) as raised:
        commit(tenure, cursor(7), release=False)
    assert NAME in raised.value.message
    with pytest.raises(LeaseLost, match="replaced"):
        tenure.release(give_back=False)
    assert state_blob.download_blob().readall() == body


def test_heartbeat_and_commit_at_once_never_refuse_each_other(bench: Bench) -> None:
    """One tenure, two threads, one writer: at the endpoint no write of it arrives while another is unanswered."""
    tenure = bench.acquire()
    overlaps: list[int] = []

    def watch(request: Request) -> Fault | None:
        others = [one for one in bench.proxy.requests if one.request is not request and STATE_WRITES(one.request)]
        if STATE_WRITES(request):
            overlaps.extend(one.request.number for one in others if one.status is None)
        return None

    bench.proxy.reset()
    bench.proxy.plan = watch
    enough = threading.Event()
    failures: list[BaseException] = []

    def beat() -> None:
        try:
            while not enough.is_set():
                tenure.renew()
        except BaseException as error:  # noqa: BLE001 - asserted on
            failures.append(error)

    beating = threading.Thread(target=beat)
    beating.start()
    for number in range(30):
        commit(tenure, cursor(number), batch_id=f"batch_{number}", release=False)
    enough.set()
    beating.join(30)
    assert failures == []
    assert overlaps == []
    assert {record.status for record in bench.proxy.requests.select("PUT", NAME)} == {201}
