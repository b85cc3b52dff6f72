"""Other hands on the blob in mid-tenure: deleted, corrupted, replaced by an older copy, metadata touched."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from azure.storage.blob import BlobClient

from poller.errors import LeaseLost, StateCorrupt
from poller.lease.state_file import Conflict, StateFile
from poller.lease.tenure import Tenure
from poller.model.document import encode
from poller.observability import Emitter
from tests.resilience.faults.bench import NAME, Bench, commit, cursor
from tests.resilience.faults.fault import Fault
from tests.resilience.faults.plan import STATE_WRITES
from tests.resilience.faults.request import Request
from tests.support.azurite import Azurite
from tests.support.documents import SOURCE


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


def test_a_deleted_document_ends_the_tenure_and_stays_deleted(bench: Bench, state_blob: BlobClient) -> None:
    file = bench.file()
    tenure = bench.acquire(file)
    state_blob.delete_blob()
    with pytest.raises(LeaseLost) as lost:
        commit(tenure, cursor(7), release=False)
    assert lost.value.reason == "deleted"
    assert not state_blob.exists()
    assert file.seen_before


@pytest.mark.parametrize("body", [b"", b"{}", b"not JSON", b'{"version": 2, "checkpoint": {}}', b"\xff\xfe"])
def test_a_corrupted_document_is_an_error_and_is_never_overwritten(
    bench: Bench, state_blob: BlobClient, body: bytes
) -> None:
    tenure = bench.acquire()
    state_blob.upload_blob(body, overwrite=True)
    with pytest.raises(StateCorrupt) as raised:
        commit(tenure, cursor(7), release=False)
    assert NAME in raised.value.message
    with pytest.raises(LeaseLost, match="replaced"):
        tenure.release(give_back=False)
    assert state_blob.download_blob().readall() == body


def test_an_older_copy_put_back_is_refused_and_left_as_it_is(bench: Bench, state_blob: BlobClient) -> None:
    older = encode(bench.truth())
    tenure = bench.acquire()
    state_blob.upload_blob(older, overwrite=True)
    with pytest.raises(StateCorrupt, match="older copy"):
        commit(tenure, cursor(7), release=False)
    assert state_blob.download_blob().readall() == older


def test_of_two_workers_with_the_same_tag_one_acquires(bench: Bench) -> None:
    """Both read the free document, and both writes are on their way before either is answered."""
    files = [bench.file(), bench.file()]
    copies = [file.read() for file in files]
    both = threading.Barrier(2)
    outcomes: list[object] = []

    def acquire(file: StateFile, number: int) -> None:
        both.wait(10)
        try:
            outcomes.append(
                Tenure.acquire(
                    file,
                    copies[number],
                    owner_id=f"shop/{number}/1",
                    source=SOURCE,
                    start=None,
                    takeover=False,
                    emit=Emitter(()),
                )
            )
        except Conflict as lost:
            outcomes.append(lost)

    threads = [threading.Thread(target=acquire, args=(file, number)) for number, file in enumerate(files)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    [held] = [one for one in outcomes if isinstance(one, Tenure)]
    [lost] = [one for one in outcomes if isinstance(one, Conflict)]
    assert lost.found is not None
    assert lost.found.state.lease.owner_id == held.owner_id == bench.truth().lease.owner_id
    held.check()


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
