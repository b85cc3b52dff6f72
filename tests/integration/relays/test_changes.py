"""What the relays send of a captured table: which operation, the row, and the row before."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from poller import Batch, relays
from poller.ports import Row
from poller.relays import EventHubsRelay, EventHubsSettings, ServiceBusRelay, ServiceBusSettings, relay
from tests.integration.relays.endpoint import Endpoint
from tests.integration.relays.lake import Lake, arrow_batch, parquet_of
from tests.integration.relays.queues import Queue
from tests.support.amqp_broker import Broker

NEW, OLD = {"id": 1, "name": "b"}, {"id": 1, "name": "a"}
NOTHING = {"id": None, "name": None}


def change(number: int, op: str, row: dict[str, Any], old: dict[str, Any] | None = None) -> dict[str, Any]:
    at = datetime(2026, 4, 7, tzinfo=UTC)
    return {**row, "_op": op, "_old": old, "_change": number, "_tx": "7", "_at": at}


ROWS = [
    change(1, "I", OLD),
    change(2, "U", NEW, OLD),
    change(3, "D", NEW, NEW),
    change(4, "T", NOTHING),
    change(5, "B", NOTHING),
    change(6, "R", NEW),
    change(7, "E", NOTHING),
]
TYPES = ["inserted", "updated", "deleted", "truncated", "begun", "read", "ended"]
DATA: list[dict[str, Any]] = [
    {"row": OLD, "old": None},
    {"row": NEW, "old": OLD},
    {"row": NEW, "old": NEW},
    {"row": None, "old": None},
    {"row": None, "old": None},
    {"row": NEW, "old": None},
    {"row": None, "old": None},
]


def batch() -> Batch:
    return Batch.of_rows(ROWS, poller_name="orders")


def id_of(row: Row) -> str:
    """The message id that the page promises; the same in every version of this library."""
    named = json.dumps([batch().standing.app_name, "orders", batch().key(row)])
    return hashlib.sha256(named.encode()).hexdigest()


def test_every_relay_says_that_it_knows_changes() -> None:
    named = [name for name in relays.__all__ if name.endswith("Relay") and name != "Relay"]
    assert len(named) > 1
    assert [name for name in named if not getattr(relays, name).knows_changes] == []


def test_events_say_what_was_done_and_have_the_row_before() -> None:
    with Endpoint().serving() as endpoint:
        relay("http", url=endpoint.url)(batch())
        relay("http", url=endpoint.url, event_type="shop.order", time_column="_at")(batch())
    usual, own = (request.events for request in endpoint.requests)
    assert [one["type"] for one in usual] == [f"poller.row.{kind}" for kind in TYPES]
    assert [one["data"] for one in usual] == DATA
    assert [one["id"] for one in usual] == [id_of(row) for row in batch().rows]
    assert [one["type"] for one in own] == [f"shop.order.{kind}" for kind in TYPES]
    assert {one["time"] for one in own} == {"2026-04-07T00:00:00+00:00"}


def test_plain_json_has_the_same_kinds_and_rows() -> None:
    with Endpoint().serving() as endpoint:
        relay("http", url=endpoint.url, format="json")(batch())
    expected = [{"type": f"poller.row.{kind}", **data} for kind, data in zip(TYPES, DATA, strict=True)]
    assert endpoint.requests[0].body == expected


def test_chosen_columns_are_those_of_both_rows() -> None:
    with Endpoint().serving() as endpoint:
        relay("http", url=endpoint.url, columns={"title": "name", "number": "_change"})(batch())
    assert endpoint.requests[0].rows[1:4] == [
        {"row": {"title": "b", "number": 2}, "old": {"title": "a"}},
        {"row": {"title": "b", "number": 3}, "old": {"title": "b"}},
        {"row": None, "old": None},
    ]


@pytest.mark.parametrize("together", [1, 10])
def test_messages_of_a_queue_say_the_operation(together: int, queue: Queue) -> None:
    queue.relay(rows_per_message=together)(batch())
    taken = queue.taken()
    messages = taken if together == 1 else taken[0]["rows"]
    assert [one["op"] for one in messages] == [row["_op"] for row in ROWS]
    assert messages[1]["row"]["_old"] == OLD


def test_messages_over_amqp_say_the_operation() -> None:
    with Broker() as broker:
        environ = {"TARGET": broker.connection_string}
        ServiceBusRelay(ServiceBusSettings(connection_env="TARGET", queue="orders"), environ=environ)(batch())
        EventHubsRelay(EventHubsSettings(connection_env="TARGET", event_hub="orders"), environ=environ)(batch())
        assert [one.properties["op"] for one in broker.sent] == [row["_op"] for row in ROWS] * 2
        assert json.loads(broker.sent[1].body)["_old"] == OLD


def test_lines_of_a_file_have_all_columns_of_a_change(lake: Lake) -> None:
    lake.relay()(batch())
    found = lake.rows()
    assert [(one["_op"], one["_old"], one["name"]) for one in found] == [
        (row["_op"], row["_old"], row["name"]) for row in ROWS
    ]


def test_the_row_before_is_json_text_in_parquet(lake: Lake) -> None:
    lake.relay(format="parquet")(arrow_batch([{**row, "_at": None} for row in ROWS]))
    ((_, content),) = lake.files().items()
    table = parquet_of(content)
    assert table.column("_op").to_pylist() == [row["_op"] for row in ROWS]
    assert [one and json.loads(one) for one in table.column("_old").to_pylist()] == [row["_old"] for row in ROWS]
