"""`poller.relays:service_bus` and `poller.relays:event_hubs`: Microsoft's own SDKs, over TCP, with a broker of ours.

There is neither an emulator nor an account here. So what the relay hands to the SDK, what the SDK makes of it in AMQP's
frames, how it splits and counts, and what it raises when it is refused or alone is real; what the services do with it
(sessions, partitions, duplicate detection, rights) is not tried.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

import pytest

from poller import Batch, RetryLater
from poller.errors import ConfigError, PollerError
from poller.relays import (
    EventHubsRelay,
    EventHubsSettings,
    Relay,
    ServiceBusRelay,
    ServiceBusSettings,
    event_hubs,
    service_bus,
)
from poller.relays.messages import message_id
from tests.support.amqp_broker import Broker
from tests.support.services import free_port

KINDS = ["service_bus", "event_hubs"]
SLOWER = ["service_bus", pytest.param("event_hubs", marks=pytest.mark.soak)]
"""Where the SDK of Event Hubs rests for a while before it says what it has met."""


@pytest.fixture(scope="module")
def running() -> Iterator[Broker]:
    with pytest.MonkeyPatch.context() as patch, Broker() as broker:
        for module in (event_hubs, service_bus):
            patch.setattr(module, "ATTEMPTS", 0)  # else the SDK waits before it tries again
        yield broker


@pytest.fixture(scope="module")
def plain(running: Broker) -> Mapping[str, Relay[Any]]:
    """Relays with nothing but their target, connected once."""
    return {kind: relay_to(kind, running.connection_string) for kind in KINDS}


@pytest.fixture
def broker(running: Broker) -> Broker:
    running.sent.clear()
    running.parcels, running.refusal, running.missing = 0, None, ""
    return running


def relay_to(kind: str, connection: str, **settings: Any) -> Relay[Any]:
    environ = {"TARGET": connection}
    if kind == "event_hubs":
        hub = EventHubsSettings(event_hub="orders", connection_env="TARGET", **settings)
        return EventHubsRelay(hub, environ=environ)
    named = settings if "topic" in settings else {"queue": "orders", **settings}
    return ServiceBusRelay(ServiceBusSettings(connection_env="TARGET", **named), environ=environ)


def numbered(count: int, **more: Any) -> Batch:
    return Batch.of_rows([{"id": n, "customer": n % 2, **more} for n in range(count)], poller_name="orders")


@pytest.mark.parametrize("kind", KINDS)
def test_rows_arrive_in_order_with_their_ids(kind: str, broker: Broker, plain: Mapping[str, Relay[Any]]) -> None:
    batch = numbered(5)
    plain[kind](batch)
    assert [json.loads(one.body) for one in broker.sent] == [{**row} for row in batch]
    assert [one.message_id for one in broker.sent] == [message_id(batch, row) for row in batch]
    assert {(one.entity, one.content_type, one.properties["poller"], one.parcel) for one in broker.sent} == {
        ("orders", "application/json", "orders", 1)
    }


@pytest.mark.parametrize("kind", KINDS)
def test_each_ordering_key_is_sent_by_itself_as_its_partition(kind: str, broker: Broker) -> None:
    relay_to(kind, broker.connection_string, ordering_key=["customer"])(numbered(5))
    assert [(one.parcel, json.loads(one.body)["id"]) for one in broker.sent] == [(1, 0), (1, 2), (1, 4), (2, 1), (2, 3)]
    for one in broker.sent:
        assert one.envelope["x-opt-partition-key"] == str(json.loads(one.body)["customer"])


@pytest.mark.parametrize("kind", KINDS)
def test_chosen_columns_have_the_names_of_the_target(kind: str, broker: Broker) -> None:
    relay_to(kind, broker.connection_string, columns={"order": "id"}, ordering_key=["customer"])(numbered(2))
    assert [json.loads(one.body) for one in broker.sent] == [{"order": 0}, {"order": 1}]
    assert [one.envelope["x-opt-partition-key"] for one in broker.sent] == ["0", "1"]


def test_an_ordering_key_can_be_the_session(broker: Broker) -> None:
    relay_to("service_bus", broker.connection_string, topic="sales", sessions=True, ordering_key=["customer"])(
        numbered(2)
    )
    assert [(one.entity, one.session_id) for one in broker.sent] == [("sales", "0"), ("sales", "1")]


@pytest.mark.parametrize("kind", KINDS)
def test_many_rows_are_as_many_sends_as_needed(kind: str, broker: Broker, plain: Mapping[str, Relay[Any]]) -> None:
    plain[kind](numbered(300, text="x" * 2000))
    assert [json.loads(one.body)["id"] for one in broker.sent] == [*range(300)]
    assert broker.parcels == 3  # 600 kB, of which one takes 256


@pytest.mark.parametrize("kind", KINDS)
def test_only_a_row_that_is_too_large_is_rejected(kind: str, broker: Broker, plain: Mapping[str, Relay[Any]]) -> None:
    rows: list[dict[str, Any]] = [{"id": 1}, {"id": 2, "text": "x" * 300_000}, {"id": 3}]
    batch = Batch.of_rows(rows)
    plain[kind](batch)
    assert [json.loads(one.body)["id"] for one in broker.sent] == [1, 3]
    (failure,) = batch.failures
    assert (failure.position, failure.rejected) == (1, True)
    assert "262144 bytes" in str(failure.error)


@pytest.mark.parametrize("kind", SLOWER)
def test_a_busy_service_is_an_outage_and_works_again(
    kind: str, broker: Broker, plain: Mapping[str, Relay[Any]]
) -> None:
    relay = plain[kind]
    broker.refusal = "com.microsoft:server-busy"
    with pytest.raises(RetryLater, match="orders cannot be reached, or is busy"):
        relay(numbered(1))
    broker.refusal = None
    relay(numbered(1))
    assert len(broker.sent) == 1


def test_a_full_queue_is_an_outage(broker: Broker, plain: Mapping[str, Relay[Any]]) -> None:
    broker.refusal = "amqp:resource-limit-exceeded"
    with pytest.raises(RetryLater, match="the queue orders is full") as raised:
        plain["service_bus"](numbered(1))
    assert raised.value.after == timedelta(minutes=1)


@pytest.mark.parametrize("kind", SLOWER)
def test_an_entity_that_does_not_exist_is_an_error(kind: str, broker: Broker) -> None:
    assert [one.severity for one in relay_to(kind, broker.connection_string).checkup()] == ["ok"]
    broker.missing = "orders"
    with pytest.raises(PollerError, match="orders does not exist"):
        relay_to(kind, broker.connection_string)(numbered(1))


@pytest.mark.parametrize("kind", SLOWER)
@pytest.mark.usefixtures("broker")
def test_nobody_there_is_an_outage_that_shows_no_secret(kind: str) -> None:
    key = "SharedAccessKeyName=all;SharedAccessKey=c2VjcmV0"
    gone = f"Endpoint=sb://127.0.0.1:{free_port()};{key};UseDevelopmentEmulator=true;"
    relay = relay_to(kind, gone)
    with pytest.raises(RetryLater, match="orders cannot be reached") as raised:
        relay(numbered(1))
    (finding,) = relay.checkup()
    assert finding.severity == "error"
    assert "c2VjcmV0" not in f"{finding}{raised.value}{raised.value.__context__}{raised.value.__cause__}{relay!r}"


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_connection_string_is_refused_unseen(kind: str) -> None:
    with pytest.raises(ConfigError, match="leads to no namespace") as raised:
        relay_to(kind, "hunter2")
    assert raised.value.key == "connection_env"
    assert "hunter2" not in f"{raised.value}{raised.value.__context__}"


@pytest.mark.parametrize(("kind", "extra"), [("service_bus", "service-bus"), ("event_hubs", "event-hubs")])
def test_a_missing_package_names_its_extra(kind: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "azure.servicebus" if kind == "service_bus" else "azure.eventhub", None)
    with pytest.raises(ConfigError, match=extra):
        relay_to(kind, "unused")
