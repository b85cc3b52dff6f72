"""What the blob store makes of every answer: how often it asked, and what it then says."""

from __future__ import annotations

import contextlib
import logging
import traceback
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from poller.errors import StoreDenied, StoreError, StoreUnavailable, WriteConflict
from poller.ports import Found, Missing, Timeout, Unchanged
from poller.stores import BlobStore
from tests.contract.stores.canned import Canned, answer
from tests.support.azurite import ACCOUNT, Azurite
from tests.support.services import free_port

NAME = "state/shop/orders.json"
TAG = '"0x8DAAAAAAAAAAAAA"'
QUICK = Timeout(connect=0.3, read=0.3)
SIGNATURE = "cGxlYXNlLWRvLW5vdC1zaG93LW1l"
BROKEN = answer(206, body=b'{"version": 1', claim=999999, ETag=TAG, Content_Range="bytes 0-999998/999999")

Ask = Callable[[BlobStore], object]


def read(store: BlobStore) -> object:
    return store.read(NAME, timeout=QUICK)


def create(store: BlobStore) -> object:
    return store.write(NAME, b"{}", if_tag=None, timeout=QUICK)


def replace(store: BlobStore) -> object:
    return store.write(NAME, b"{}", if_tag=TAG, timeout=QUICK)


def asked_of(azurite: Azurite, container: str, mark: int) -> list[tuple[str, int]]:
    return [(r.method, r.status) for r in azurite.requests(since=mark) if r.path.startswith(f"/{container}")]


def test_one_read_is_one_get_and_one_write_is_one_put(azurite: Azurite, container: str) -> None:
    store = BlobStore.from_connection_string(azurite.connection_string, container)
    first = store.write(NAME, b"{}", if_tag=None)

    def counted(ask: Callable[[], object]) -> list[tuple[str, int]]:
        mark = azurite.mark()
        with contextlib.suppress(WriteConflict):
            ask()
        return asked_of(azurite, container, mark)

    assert counted(lambda: store.read(NAME)) == [("GET", 206)]
    assert counted(lambda: store.read(NAME, unless=first.tag)) == [("GET", 304)]
    assert counted(lambda: store.read("state/none.json")) == [("GET", 404)]
    assert counted(lambda: store.write(NAME, b"x" * 1_000_000, if_tag=first.tag)) == [("PUT", 201)]
    assert counted(lambda: store.read(NAME)) == [("GET", 206)]
    assert counted(lambda: store.write(NAME, b"{}", if_tag=first.tag)) == [("PUT", 412)]
    assert counted(lambda: store.write(NAME, b"{}", if_tag=None)) == [("PUT", 409)]
    assert counted(lambda: store.write("state/none.json", b"{}", if_tag=first.tag)) == [("PUT", 412)]
    store.append("audit/a.jsonl", "one")
    assert counted(lambda: store.append("audit/a.jsonl", "two")) == [("PUT", 201)]
    store.close()


def test_the_container_is_created_by_the_first_write_only(azurite: Azurite, container: str) -> None:
    store, mark = BlobStore.from_connection_string(azurite.connection_string, container), azurite.mark()
    assert isinstance(store.read(NAME), Missing)
    assert store.lines("audit/a.jsonl") == []
    assert list(store.names("")) == []
    with pytest.raises(WriteConflict):
        store.write(NAME, b"{}", if_tag=TAG)
    assert {status for _, status in asked_of(azurite, container, mark)} == {404}
    mark = azurite.mark()
    store.write(NAME, b"{}", if_tag=None)
    assert asked_of(azurite, container, mark) == [("PUT", 404), ("PUT", 201), ("PUT", 201)]
    store.close()


@pytest.mark.parametrize("ask", [read, create, replace])
@pytest.mark.parametrize(
    ("given", "error"),
    [
        (answer(500, code="InternalError"), StoreUnavailable),
        (answer(503, code="ServerBusy"), StoreUnavailable),
        (answer(503), StoreUnavailable),
        (answer(408, code="OperationTimedOut"), StoreUnavailable),
        (answer(429), StoreUnavailable),
        (answer(409, code="ContainerBeingDeleted"), StoreUnavailable),
        (answer(409, code="AccountBeingCreated"), StoreUnavailable),
        (answer(404), StoreUnavailable),  # no blob service answers so
        (answer(302, Location="http://127.0.0.1:1/login"), StoreError),
        (answer(401, code="InvalidAuthenticationInfo"), StoreDenied),
        (answer(403, code="AuthenticationFailed"), StoreDenied),
        (answer(403, code="AuthorizationPermissionMismatch"), StoreDenied),
        (answer(403), StoreDenied),
        (answer(412, code="LeaseIdMissing"), StoreDenied),
        (answer(409, code="BlobArchived"), StoreDenied),
        (answer(409, code="BlobImmutableDueToPolicy"), StoreDenied),
        (answer(400, code="InvalidHeaderValue"), StoreError),
        (None, StoreUnavailable),
    ],
)
def test_an_unclear_answer_is_one_request_and_an_error(ask: Ask, given: bytes | None, error: type[StoreError]) -> None:
    with Canned(given) as server:
        store = BlobStore.from_connection_string(server.connection_string)
        with pytest.raises(error) as caught:
            ask(store)
        store.close()
    assert type(caught.value) is error
    assert len(server.asked) == 1
    assert NAME in str(caught.value)
    assert caught.value.next_step
    assert "SIGNATURE" not in str(caught.value)


ENDED_BY_A_PERSON = {
    (409, "BlobArchived"): "az storage blob set-tier",
    (409, "BlobImmutableDueToLegalHold"): "legal hold",
    (409, "BlobImmutableDueToPolicy"): "immutability policy",
    (409, "BlobUsesCustomerSpecifiedEncryption"): "without that key",
    (409, "ResourceTypeMismatch"): "move it away",
    (409, "PathAlreadyExists"): "move it away",
    (409, "InvalidBlobType"): "move it away",
    (403, "KeyVaultEncryptionKeyNotFound"): "Key Vault",
    (403, "KeyVaultAccessTokenCannotBeAcquired"): "Key Vault",
    (403, "WriteOperationNotSupportedOnSecondary"): "without -secondary",
    (403, "UnauthorizedBlobOverwrite"): "sp=racwl",
}


@pytest.mark.guarantee(
    "Delivery",
    "A refusal of the storage account that only a person can end is an error and not an outage, and each says what "
    "to do",
)
@pytest.mark.parametrize("ask", [read, create, replace])
@pytest.mark.parametrize(("status", "code"), ENDED_BY_A_PERSON)
def test_what_a_person_must_end_is_a_refusal_that_says_how(ask: Ask, status: int, code: str) -> None:
    with Canned(answer(status, code=code)) as server:
        store = BlobStore.from_connection_string(server.connection_string)
        with pytest.raises(StoreDenied) as caught:
            ask(store)
        store.close()
    assert NAME in caught.value.message
    assert ENDED_BY_A_PERSON[status, code] in caught.value.next_step
    assert "Grant this identity" not in caught.value.next_step


@pytest.mark.parametrize("ask", [read, create, replace])
def test_a_blob_on_its_way_out_of_the_archive_is_an_outage(ask: Ask) -> None:
    with Canned(answer(409, code="BlobBeingRehydrated")) as server:
        store = BlobStore.from_connection_string(server.connection_string)
        with pytest.raises(StoreUnavailable) as caught:
            ask(store)
        store.close()
    assert NAME in caught.value.message
    assert "up to 15 hours" in caught.value.next_step
    assert not caught.value.sent  # this answer says that nothing was written


@pytest.mark.parametrize(
    ("ask", "given"),
    [
        (create, answer(409, code="BlobAlreadyExists")),
        (create, answer(409)),
        (create, answer(412, code="ConditionNotMet")),
        (replace, answer(412, code="ConditionNotMet")),
        (replace, answer(412)),
        (replace, answer(404, code="BlobNotFound")),
        (replace, answer(404, code="ContainerNotFound")),
    ],
)
def test_a_refused_condition_is_a_conflict(ask: Ask, given: bytes) -> None:
    with Canned(given) as server:
        store = BlobStore.from_connection_string(server.connection_string)
        with pytest.raises(WriteConflict):
            ask(store)
        store.close()
    assert len(server.asked) == 1


def test_a_truncated_answer_is_no_document_and_is_not_asked_again() -> None:
    with Canned(BROKEN) as server:
        store = BlobStore.from_connection_string(server.connection_string)
        with pytest.raises(StoreUnavailable):
            read(store)
        store.close()
    assert [method for method, _ in server.asked] == ["GET"]


def test_a_304_carries_the_servers_time_and_no_second_request() -> None:
    with Canned(answer(304, ETag=TAG)) as server:
        store = BlobStore.from_connection_string(server.connection_string)
        got = store.read(NAME, unless=TAG)
        store.close()
    assert got == Unchanged(datetime(2026, 4, 7, 1, 23, 45, tzinfo=UTC))
    assert len(server.asked) == 1


def test_times_and_tag_are_the_headers_own() -> None:
    found = answer(
        206, body=b"{}", ETag=TAG, Last_Modified="Tue, 07 Apr 2026 01:20:00 GMT", Content_Range="bytes 0-1/2"
    )
    with Canned(found) as server:
        store = BlobStore.from_connection_string(server.connection_string)
        got = store.read(NAME)
        store.close()
    at = datetime(2026, 4, 7, 1, 23, 45, tzinfo=UTC)
    assert got == Found(b"{}", TAG, at, datetime(2026, 4, 7, 1, 20, tzinfo=UTC))


@pytest.mark.parametrize(("enabled", "severity"), [("true", "warn"), ("false", "ok")])
def test_check_names_a_hierarchical_namespace(enabled: str, severity: str) -> None:
    nothing = b'<?xml version="1.0" encoding="utf-8"?><EnumerationResults><Blobs/><NextMarker/></EnumerationResults>'
    account = {"x_ms_is_hns_enabled": enabled, "x_ms_sku_name": "Standard_LRS", "x_ms_account_kind": "StorageV2"}
    answers = [answer(200, ETag=TAG), answer(200, body=nothing), answer(412, code="ConditionNotMet"), answer(403)]
    with Canned(*answers, answer(200, **account)) as server:  # type: ignore[arg-type]
        store = BlobStore.from_connection_string(server.connection_string)
        found = {one.check: one for one in store.checkup(NAME, exists=False)}
        store.close()
    assert found["namespace"].severity == severity
    assert "hierarchical namespace" in found["namespace"].message
    assert bool(found["namespace"].fix) == (severity == "warn")


def test_a_full_append_blob_is_followed_by_the_next() -> None:
    nothing = b'<?xml version="1.0" encoding="utf-8"?><EnumerationResults><Blobs/><NextMarker/></EnumerationResults>'
    with Canned(answer(200, body=nothing), answer(409, code="BlockCountExceedsLimit"), answer(201)) as server:
        store = BlobStore.from_connection_string(server.connection_string)
        store.append("audit/a.jsonl", "line")
        store.append("audit/a.jsonl", "line")
        store.close()
    targets = [target.split("?")[0].rpartition("/")[2] for _, target in server.asked]
    assert targets == ["db-state", "a.jsonl", "a.jsonl.000001", "a.jsonl.000001"]


def test_a_refused_connection_is_unavailable() -> None:
    endpoint = f"http://127.0.0.1:{free_port()}/{ACCOUNT}"
    store = BlobStore.from_connection_string(Azurite.connection_string_via(endpoint))
    asks: list[Ask] = [read, create, replace, lambda s: s.lines("a"), lambda s: list(s.names("")), _append]
    for ask in asks:
        with pytest.raises(StoreUnavailable, match="refused") as caught:
            ask(store)
        assert endpoint in str(caught.value)
        assert "may or may not" not in str(caught.value), "nothing was sent that may have been applied"
        assert not caught.value.sent
    store.close()


def test_a_service_that_hangs_is_unavailable_and_then_usable_again(azurite: Azurite, container: str) -> None:
    store = BlobStore.from_connection_string(azurite.connection_string, container)
    create(store)
    azurite.suspend()
    try:
        with pytest.raises(StoreUnavailable):
            read(store)
    finally:
        azurite.resume()
    assert isinstance(store.read(NAME), Found)
    store.close()


def test_a_wrong_key_is_denied_with_a_next_step(azurite: Azurite, container: str) -> None:
    wrong = azurite.connection_string.replace("AccountKey=Eby8", "AccountKey=AAAA")
    store = BlobStore.from_connection_string(wrong, container)
    asks: list[Ask] = [read, create, replace, lambda s: s.lines("a"), lambda s: list(s.names("")), _append]
    for ask in asks:
        with pytest.raises(StoreDenied) as caught:
            ask(store)
        assert "key" in caught.value.next_step
    store.close()


def test_no_signature_or_key_reaches_an_error_or_a_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    servers = [answer(403, code="AuthenticationFailed"), answer(500), BROKEN, answer(404), None]
    shown = []
    for given in servers:
        with Canned(given) as server:
            sas = f"sv=2022-11-02&ss=b&srt=co&sp=racwl&se=2030-01-01T00%3A00%3A00Z&sig={SIGNATURE}"
            signed = f"BlobEndpoint={server.endpoint};SharedAccessSignature={sas};"
            for text in (signed, server.connection_string.replace("AccountKey=Eby8", f"AccountKey={SIGNATURE}")):
                store = BlobStore.from_connection_string(text)
                for ask in (read, create, replace, _append):
                    with pytest.raises(StoreError) as caught:
                        ask(store)
                    shown += traceback.format_exception(caught.value)
                    shown += [repr(caught.value), repr(vars(caught.value)), store.locate(NAME)]
                store.close()
            assert any(SIGNATURE in target for _, target in server.asked)  # it was really sent
    assert SIGNATURE not in "".join(shown)
    assert caplog.records
    assert SIGNATURE not in caplog.text


def _append(store: BlobStore) -> None:
    store.append("audit/a.jsonl", "line", timeout=QUICK)
