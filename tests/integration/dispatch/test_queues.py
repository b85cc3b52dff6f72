"""The queue of the work messages, in a real Azurite; and what is read of a message."""

from __future__ import annotations

import base64
import gc
import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from azure.core.exceptions import ResourceNotFoundError
from azure.storage.queue import AccountSasPermissions, ResourceTypes, Services, generate_account_sas

from poller.dispatch import StorageQueue, WorkMessage
from poller.dispatch.messages import NotAWorkMessage, decode, read
from poller.errors import ConfigError, StoreDenied, StoreError, StoreUnavailable
from tests.contract.stores.canned import Canned, answer
from tests.support.azurite import ACCOUNT, KEY, Azurite
from tests.support.services import free_port

NOW = datetime(2026, 4, 7, 12, 0, tzinfo=UTC)
MESSAGE = WorkMessage("shop", "orders", NOW)
SAID = {"v": 1, "app": "shop", "poller": "orders", "shard": 0, "due": "2026-04-07T12:00:00.000000Z"}


@pytest.fixture
def queue(azurite: Azurite, container: str) -> StorageQueue:
    name = f"q{container.removeprefix('test-')}"
    return StorageQueue.from_connection_string(azurite.connection_string_with_queues, name)


def contents(queue: StorageQueue) -> list[str]:
    return [one.content for one in queue.work.client().receive_messages()]


def test_a_message_creates_its_queue_and_is_read_again(queue: StorageQueue) -> None:
    queue.send(MESSAGE)
    (text,) = contents(queue)
    assert json.loads(base64.b64decode(text)) == SAID
    assert read(decode(text)) == MESSAGE
    queue.close()


def test_many_messages_at_once_create_one_queue(queue: StorageQueue) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(queue.send, [MESSAGE] * 16))
    assert len(contents(queue)) == 16
    queue.close()


def test_a_message_lives_for_ten_minutes(queue: StorageQueue) -> None:
    queue.send(MESSAGE)
    (one,) = queue.work.client().peek_messages()
    assert one.expires_on is not None
    assert one.inserted_on is not None
    assert (one.expires_on - one.inserted_on).total_seconds() == 600
    queue.close()


def test_a_queue_is_empty_once_all_is_taken(queue: StorageQueue) -> None:
    assert queue.all_taken()
    queue.send(MESSAGE)
    assert not queue.all_taken()
    assert len(contents(queue)) == 1, "taken, and hidden"
    assert queue.all_taken()
    queue.close()


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")
def test_a_queue_that_is_closed_leaves_no_socket(azurite: Azurite) -> None:
    """Not even for the garbage collector, after an answer that is an error."""
    was_enabled, _ = gc.isenabled(), gc.collect()
    gc.disable()
    try:
        before = sum(1 for _ in Path("/proc/self/fd").iterdir())
        for _ in range(5):
            queue = StorageQueue.from_connection_string(azurite.connection_string_with_queues, "not-there")
            assert queue.all_taken()
            queue.close()
        assert sum(1 for _ in Path("/proc/self/fd").iterdir()) <= before + 1
    finally:
        if was_enabled:
            gc.enable()


def test_the_poison_queue_is_emptied(queue: StorageQueue) -> None:
    assert queue.take_poison() == []
    poison = queue.poison.client()
    poison.create_queue()
    for number in range(40):
        poison.send_message(f"text {number}")
    assert len(queue.take_poison()) == 40
    assert queue.take_poison() == []
    queue.close()


def test_an_account_out_of_reach_is_unavailable() -> None:
    there = f"http://127.0.0.1:{free_port()}/{ACCOUNT}"
    text = f"{Azurite.connection_string_via(there)}QueueEndpoint={there};"
    queue = StorageQueue.from_connection_string(text, "work")
    for ask in (lambda: queue.send(MESSAGE), queue.take_poison, queue.all_taken):
        with pytest.raises(StoreUnavailable, match="the queue work"):
            ask()
    queue.close()


def test_a_wrong_key_is_a_refusal_that_names_the_key(azurite: Azurite) -> None:
    wrong = base64.b64encode(b"x" * 64).decode()
    text = ";".join(
        part if not part.startswith("AccountKey=") else f"AccountKey={wrong}"
        for part in azurite.connection_string_with_queues.split(";")
    )
    with pytest.raises(StoreDenied, match="Check whether the account key") as caught:
        StorageQueue.from_connection_string(text, "work").send(MESSAGE)
    assert wrong not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "code", "kind", "step"),
    [
        (403, "KeyVaultEncryptionKeyNotFound", StoreDenied, "Key Vault"),
        (403, "WriteOperationNotSupportedOnSecondary", StoreDenied, "without -secondary"),
        (403, "AuthorizationSourceIPMismatch", StoreDenied, "this machine's address"),
        (403, "AccountIsDisabled", StoreDenied, "in the portal"),
        (503, "ServerBusy", StoreUnavailable, "busy or failing"),
        (409, "QueueBeingDeleted", StoreUnavailable, "busy or failing"),
    ],
)
def test_a_queues_refusal_says_what_to_do(status: int, code: str, kind: type[StoreError], step: str) -> None:
    with Canned(answer(status, code=code)) as server:
        queue = StorageQueue.from_connection_string(f"{server.connection_string}QueueEndpoint={server.endpoint};", "q")
        for ask in (lambda: queue.send(MESSAGE), queue.all_taken, queue.take_poison):
            with pytest.raises(StoreError, match="the queue q") as refused:
                ask()
            assert type(refused.value) is kind
            assert step in refused.value.next_step
            assert "Grant this identity" not in refused.value.next_step
        queue.close()


@pytest.mark.parametrize(
    "environ",
    [
        {
            "A__blobServiceUri": "https://shop.blob.core.windows.net",
            "A__queueServiceUri": "https://shop-secondary.queue.core.windows.net",
        },
        {"A": "AccountName=shop-secondary;AccountKey=c2VjcmV0"},
    ],
)
def test_the_read_only_secondarys_queues_are_refused(environ: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="without -secondary"):
        StorageQueue.from_settings("A", "work", environ)


def signed(azurite: Azurite, **permitted: bool) -> str:
    """The account with its queues, by a SAS token that permits so much."""
    sas = generate_account_sas(
        ACCOUNT,
        KEY,
        ResourceTypes(service=True, container=True, object=True),
        AccountSasPermissions(**permitted),
        datetime.now(UTC) + timedelta(hours=1),
        services=Services(blob=True, queue=True),
    )
    parts = dict(part.split("=", 1) for part in azurite.connection_string_with_queues.strip(";").split(";"))
    ends = {name: parts[name] for name in ("BlobEndpoint", "QueueEndpoint")}
    return ";".join(f"{name}={value}" for name, value in {**ends, "SharedAccessSignature": sas}.items())


def test_the_check_of_a_queue_changes_nothing(queue: StorageQueue) -> None:
    queue.check()
    with pytest.raises(ResourceNotFoundError):  # none is made
        queue.work.client().get_queue_properties()
    queue.send(MESSAGE)
    queue.check()
    assert len(contents(queue)) == 1
    queue.close()


@pytest.mark.parametrize("permitted", [{"add": True}, {"read": True, "list": True}], ids=["send alone", "read alone"])
def test_the_check_of_a_queue_finds_who_may_not_work(
    azurite: Azurite, queue: StorageQueue, permitted: dict[str, bool]
) -> None:
    queue.send(MESSAGE)
    with pytest.raises(StoreDenied, match="Storage Queue Data Contributor"):
        StorageQueue.from_connection_string(signed(azurite, **permitted), queue.name).check()
    queue.close()


def test_an_identity_needs_the_address_of_the_queues() -> None:
    settings = {"Storage__blobServiceUri": "https://shop.blob.core.windows.net"}
    with pytest.raises(ConfigError, match="Storage__queueServiceUri"):
        StorageQueue.from_settings("Storage", "work", settings)
    for more in (
        {"Storage__queueServiceUri": "https://shop.queue.core.windows.net"},
        {"Storage__accountName": "shop"},
    ):
        client = StorageQueue.from_settings("Storage", "work", settings | more).work.client()
        assert client.url == "https://shop.queue.core.windows.net/work"


def test_a_key_does_not_travel_in_clear_text() -> None:
    key = base64.b64encode(b"secret").decode()
    text = f"AccountName=shop;AccountKey={key};BlobEndpoint=https://a.example;QueueEndpoint=http://a.example"
    with pytest.raises(ConfigError, match="plain http") as caught:
        StorageQueue.from_connection_string(text, "work")
    assert key not in str(caught.value)


def test_the_emulators_short_form_has_queues() -> None:
    queue = StorageQueue.from_connection_string("UseDevelopmentStorage=true", "work")
    assert queue.work.client().url == f"http://127.0.0.1:10001/{ACCOUNT}/work"


@pytest.mark.parametrize(
    "said",
    [
        [],
        {},
        None,
        "orders",
        {**SAID, "v": 2},
        {**SAID, "v": True},
        {**SAID, "v": "1"},
        {**SAID, "app": "../other"},
        {**SAID, "app": 5},
        {**SAID, "poller": "a/b"},
        {**SAID, "poller": None},
        {**SAID, "shard": 1},
        {**SAID, "shard": False},
        {**SAID, "due": "2026-04-07T12:00:00"},
        {**SAID, "due": 5},
        {**SAID, "due": "soon"},
        {**SAID, "more": 1},
        {name: value for name, value in SAID.items() if name != "shard"},
    ],
)
def test_only_our_own_form_is_a_work_message(said: Any) -> None:
    with pytest.raises(NotAWorkMessage):
        read(json.dumps(said).encode())


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe", b"[" * 900, b" " * 3000 + json.dumps(SAID).encode()])
def test_bytes_that_are_no_message_are_refused(body: bytes) -> None:
    with pytest.raises(NotAWorkMessage):
        read(body)


@pytest.mark.parametrize("text", ["{}", "not base64", "ä", "YQ", "YQ==\n"])
def test_text_that_is_not_base64_is_refused(text: str) -> None:
    with pytest.raises(NotAWorkMessage):
        decode(text)
