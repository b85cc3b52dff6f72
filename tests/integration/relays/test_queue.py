"""`poller.relays:queue` against Azurite's queue service."""

from __future__ import annotations

import base64
import http.server
import json
import socket
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from poller import Batch, RetryLater
from poller.errors import ConfigError, PollerError
from poller.ports import Timeout
from poller.relays import QueueRelay, QueueSettings, account
from poller.relays.messages import message_id
from poller.relays.queue import LARGEST
from tests.contract.stores.canned import Canned, answer
from tests.integration.relays.queues import Queue
from tests.support.azurite import ACCOUNT, KEY
from tests.support.services import free_port


def numbered(count: int, **more: Any) -> Batch:
    return Batch.of_rows([{"id": number, **more} for number in range(count)], poller_name="orders")


@pytest.mark.parametrize(
    ("status", "code", "kind", "says"),
    [
        (403, "KeyVaultEncryptionKeyNotFound", PollerError, "Key Vault"),
        (403, "AuthorizationPermissionMismatch", PollerError, "Storage Queue Data Message Sender"),
        (409, "BlobBeingRehydrated", RetryLater, "up to 15 hours"),
        (503, "ServerBusy", RetryLater, "busy or failing"),
    ],
)
def test_what_a_refusal_means_is_what_it_means_to_the_store(
    status: int, code: str, kind: type[Exception], says: str
) -> None:
    with Canned(answer(status, code=code)) as server:
        settings = QueueSettings(queue="orders", connection_env="TARGET")
        text = f"{server.connection_string}QueueEndpoint={server.endpoint};"
        with pytest.raises(kind, match=says):
            QueueRelay(settings, environ={"TARGET": text})(numbered(1))


def test_each_row_is_a_message_that_functions_can_read(queue: Queue) -> None:
    batch = numbered(3, name="Zoë <&>")
    queue.relay()(batch)
    assert queue.taken() == [
        {"id": message_id(batch, row), "poller": "orders", "row": {"id": row["id"], "name": "Zoë <&>"}} for row in batch
    ]


def test_chosen_columns_have_the_names_of_the_target(queue: Queue) -> None:
    queue.relay(columns={"order": "id"}, senders=2, ordering_key=["name"])(numbered(2, name="Zoë"))
    assert sorted(one["row"]["order"] for one in queue.taken()) == [0, 1]


@pytest.mark.guarantee(
    "Delivery",
    "A relay to a queue, Service Bus or Event Hubs gives a row the same id in each delivery, rejects only the row "
    "that is too large, and takes no outage of the target for the fault of a row",
)
def test_a_second_delivery_has_the_same_ids(queue: Queue) -> None:
    relay = queue.relay()
    relay(numbered(2))
    relay(numbered(2))
    ids = [one["id"] for one in queue.taken()]
    assert ids[:2] == ids[2:]
    assert len({*ids}) == 2


@pytest.mark.parametrize(("encoding", "room"), [("base64", LARGEST * 3 // 4), ("text", LARGEST)])
def test_only_the_row_that_is_too_large_is_rejected(queue: Queue, encoding: str, room: int) -> None:
    relay = queue.relay(encoding=encoding)
    relay(Batch.of_rows([{"a": ""}], poller_name="orders"))
    read = queue.client.receive_message()
    assert read is not None
    envelope = len(base64.b64decode(read.content) if encoding == "base64" else read.content)
    rows = [{"a": "x" * (room - envelope)}, {"a": "x" * (room - envelope + 1)}, {"a": "y"}]
    batch = Batch.of_rows(rows, poller_name="orders")
    relay(batch)
    assert [failure.position for failure in batch.failures if failure.rejected] == [1]
    taken = [one.content for one in queue.client.receive_messages()]
    assert [len(one) for one in taken] == [LARGEST, len(taken[1])]


def test_text_that_xml_does_not_have_arrives(queue: Queue) -> None:
    odd = "\x01\ufffe\ud83d <&>"
    queue.relay(encoding="text")(Batch.of_rows([{"a": odd}]))
    assert [json.loads(one.content)["row"]["a"] for one in queue.client.receive_messages()] == [odd]


def test_several_rows_share_a_message_as_far_as_they_fit(queue: Queue) -> None:
    batch = numbered(150, text="x" * 1000)
    queue.relay(rows_per_message=100)(batch)
    taken = queue.taken()
    assert [one["row"]["id"] for message in taken for one in message["rows"]] == [*range(150)]
    assert [one["id"] for message in taken for one in message["rows"]] == [message_id(batch, row) for row in batch]
    assert 4 <= len(taken) <= 6  # 150 kB, of which a message takes 48


def test_several_senders_keep_the_order_of_each_key(queue: Queue) -> None:
    batch = Batch.of_rows([{"id": number, "customer": number % 5} for number in range(60)])
    queue.relay(senders=4, ordering_key=["customer"])(batch)
    rows = [one["row"] for one in queue.taken()]
    assert sorted(row["id"] for row in rows) == [*range(60)]
    for customer in range(5):
        mine = [row["id"] for row in rows if row["customer"] == customer]
        assert mine == sorted(mine)


def test_messages_are_hidden_and_end_as_configured(queue: Queue) -> None:
    queue.relay(visibility_delay="1h", time_to_live="2h")(numbered(1))
    assert queue.client.receive_message() is None
    assert queue.client.get_queue_properties().approximate_message_count == 1
    queue.relay(time_to_live="2h")(numbered(1))
    read = queue.client.receive_message()
    assert read is not None
    assert read.expires_on is not None
    assert read.inserted_on is not None
    assert read.expires_on - read.inserted_on == timedelta(hours=2)


def test_a_missing_queue_is_an_error_where_none_may_be_made(queue: Queue) -> None:
    with pytest.raises(PollerError, match=f"az storage queue create --name {queue.name}"):
        queue.relay(create=False)(numbered(1))


def test_check_says_whether_the_queue_is_there(queue: Queue) -> None:
    assert [(one.severity, one.message) for one in queue.relay().checkup()] == [
        ("ok", f"the queue {queue.name} is not there, and is made with the first message")
    ]
    assert [one.severity for one in queue.relay(create=False).checkup()] == ["error"]
    queue.relay()(numbered(1))
    assert [one.message for one in queue.relay(create=False).checkup()] == [f"the queue {queue.name} is there"]


def test_an_ordering_key_that_rows_do_not_have_is_refused(queue: Queue) -> None:
    with pytest.raises(ConfigError, match="names customer") as raised:
        queue.relay(senders=2, ordering_key=["customer"])(numbered(1))
    assert raised.value.key == "ordering_key"


def test_a_refusal_shows_no_secret(queue: Queue) -> None:
    secret = base64.b64encode(b"a key that is not the account's").decode()
    wrong = ";".join(
        f"AccountKey={secret}" if part.startswith("AccountKey=") else part for part in queue.connection.split(";")
    )
    relay = QueueRelay(QueueSettings(queue=queue.name, connection_env="TARGET"), environ={"TARGET": wrong})
    with pytest.raises(PollerError, match="Storage Queue Data Message Sender") as raised:
        relay(numbered(1))
    assert secret not in f"{raised.value}{raised.value.__context__}{relay!r}"


def test_nobody_there_is_an_outage(queue: Queue) -> None:
    gone = f"{queue.connection.split('BlobEndpoint=')[0]}QueueEndpoint=http://127.0.0.1:{free_port()}/devstoreaccount1;"
    relay = QueueRelay(QueueSettings(queue=queue.name, connection_env="TARGET"), environ={"TARGET": gone})
    with pytest.raises(RetryLater, match="the queue q-"):
        relay(numbered(1))


class _Busy(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.send_response(503)
        self.send_header("Retry-After", "7")
        self.send_header("x-ms-error-code", "ServerBusy")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Nothing on the terminal."""


def test_throttling_is_an_outage_for_as_long_as_it_says(queue: Queue) -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Busy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        busy = f"{queue.connection.split('BlobEndpoint=')[0]}QueueEndpoint=http://127.0.0.1:{server.server_port}/devstoreaccount1;"
        relay = QueueRelay(QueueSettings(queue=queue.name, connection_env="TARGET"), environ={"TARGET": busy})
        with pytest.raises(RetryLater, match="503 ServerBusy") as raised:
            relay(numbered(1))
        server.shutdown()
    assert raised.value.after == timedelta(seconds=7)


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of a server that takes requests and answers none."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_service_that_never_answers_is_given_up(silent: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK's clients would wait for five minutes, three times."""
    monkeypatch.setattr(account, "LIMITS", Timeout(connect=0.2, read=0.2))
    text = f"AccountName={ACCOUNT};AccountKey={KEY};QueueEndpoint=http://127.0.0.1:{silent}/{ACCOUNT};"
    with pytest.raises(RetryLater, match="no usable answer came for the queue orders"):
        QueueRelay(QueueSettings(queue="orders", connection_env="TARGET"), environ={"TARGET": text})(numbered(1))
