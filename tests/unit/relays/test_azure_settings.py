"""Settings of the relays to Azure: what contradicts itself is refused with its key, and shows no secret."""

from __future__ import annotations

import pickle
from datetime import date, datetime
from typing import Any

import pytest

from poller import ConfigError
from poller.relays import relay
from poller.relays.amqp import key_text
from poller.relays.blob import fault, folder

STORAGE = {"connection_env": "TARGET", "queue": "orders"}
LAKE = {"connection_env": "TARGET", "container": "lake"}
BUS = {"connection_env": "TARGET", "queue": "orders"}
URL = "https://shop.queue.core.windows.net"


@pytest.mark.parametrize(
    ("name", "settings", "key", "words"),
    [
        ("queue", {"queue": "orders"}, "connection_env", "is missing: give it, or account_url"),
        ("queue", {**STORAGE, "account_url": URL}, "account_url", "exclude each other"),
        ("queue", {**STORAGE, "client_id": "1"}, "client_id", "goes with account_url"),
        ("queue", {**STORAGE, "connection_env": "AccountKey=c2VjcmV0"}, "connection_env", "must be the name of an"),
        ("queue", {"queue": "orders", "account_url": f"{URL}?sig=c2VjcmV0"}, "account_url", "without a token"),
        ("queue", {"queue": "orders", "account_url": URL.replace("s:", ":")}, "account_url", "must be https://"),
        ("queue", {**STORAGE, "queue": "Orders_1"}, "queue", ""),
        ("queue", {**STORAGE, "senders": 2}, "ordering_key", "is missing: with senders > 1"),
        ("queue", {**STORAGE, "ordering_key": ["id"]}, "ordering_key", "has no meaning with senders = 1"),
        ("queue", {**STORAGE, "visibility_delay": "8d"}, "visibility_delay", "at most 7 days"),
        ("queue", {**STORAGE, "visibility_delay": "1h", "time_to_live": "1h"}, "visibility_delay", "shorter than"),
        ("blob", {**LAKE, "path": "{table}/x"}, "path", "has {table}; there are: {app}, {poller}"),
        ("blob", {**LAKE, "path": "../x"}, "path", "must be folders"),
        ("blob", {**LAKE, "path": "_poller"}, "path", "must be folders"),
        ("blob", {**LAKE, "path": "{poller}/{date}"}, "date_column", "is missing: path has a date"),
        ("blob", {**LAKE, "date_column": "at"}, "date_column", "has no meaning"),
        ("service_bus", {"connection_env": "TARGET"}, "queue", "is missing: give queue or topic"),
        ("service_bus", {**BUS, "topic": "sales"}, "topic", "exclude each other"),
        ("service_bus", {**BUS, "sessions": True}, "ordering_key", "is missing: with sessions"),
        ("service_bus", {"queue": "a", "namespace": "sb://shop"}, "namespace", "must be a host"),
        ("event_hubs", {"event_hub": "a"}, "connection_env", "is missing: give it, or namespace"),
    ],
    ids=str,
)
def test_a_contradiction_is_refused_with_its_key(name: str, settings: dict[str, Any], key: str, words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        relay(name, environ={"TARGET": "UseDevelopmentStorage=true"}, **settings)
    assert raised.value.key == key
    assert words in str(raised.value)
    assert "c2VjcmV0" not in str(raised.value)


@pytest.mark.parametrize("name", ["queue", "blob"])
@pytest.mark.parametrize(
    ("connection", "words"),
    [
        ("", "names the environment variable TARGET, which is not set"),
        ("c2VjcmV0", "leads to no"),
        ("AccountName=a;AccountKey=c2VjcmV0c2VjcmV;EndpointSuffix=core.windows.net", "not complete base64"),
        ("DefaultEndpointsProtocol=http;AccountName=a;AccountKey=c2VjcmV0", "uses plain http to another machine"),
        ("AccountName=a-secondary;AccountKey=c2VjcmV0", "without -secondary"),
    ],
    ids=["unset", "no-string", "cut", "in-clear", "secondary"],
)
def test_a_connection_that_cannot_be_is_refused_unseen(name: str, connection: str, words: str) -> None:
    own: dict[str, Any] = {**(STORAGE if name == "queue" else LAKE)}
    with pytest.raises(ConfigError) as raised:
        relay(name, environ={"TARGET": connection}, **own)
    assert raised.value.key == "connection_env"
    assert words in str(raised.value)
    assert "c2VjcmV0" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("queue", {"account_url": URL, "queue": "orders"}),
        ("blob", {"account_url": URL.replace("queue", "blob"), "container": "lake"}),
        ("service_bus", {"namespace": "shop.servicebus.windows.net", "queue": "orders"}),
        ("event_hubs", {"namespace": "shop.servicebus.windows.net", "event_hub": "orders"}),
    ],
)
def test_a_relay_by_identity_is_made_without_a_secret(name: str, settings: dict[str, Any]) -> None:
    made = relay(name, environ={}, client_id="11111111-1111-1111-1111-111111111111", **settings)
    copied = pickle.loads(pickle.dumps(made))  # as it goes to a child process
    assert copied.settings == made.settings
    made.close()
    copied.close()


def test_a_path_is_a_pure_function_of_the_row() -> None:
    path = "{app}/{poller}/y={year}/{month}-{day}/{hour}"
    assert fault(path) is None
    assert folder(path, app="shop", poller="orders", value="2026-04-07T23:59:00-05:00") == "shop/orders/y=2026/04-08/04"
    for early in ("0044-03-15", datetime(44, 3, 15), date(44, 3, 15)):
        assert folder("{date}", app="shop", poller="orders", value=early) == "0044-03-15"
        assert folder("{year}/{month}", app="shop", poller="orders", value=early) == "0044/03"


@pytest.mark.parametrize(
    ("values", "columns", "text"),
    [
        ({"a": "x"}, ("a",), "x"),
        ({"a": 1}, ("a",), "1"),
        ({"a": ""}, ("a",), '""'),
        ({"a": None}, ("a",), "null"),
        ({"a": "x", "b": 1}, ("a", "b"), '["x", 1]'),
        ({}, (), None),
    ],
    ids=["text", "number", "empty", "null", "two", "none"],
)
def test_an_ordering_key_is_a_text_that_is_never_empty(
    values: dict[str, Any], columns: tuple[str, ...], text: str | None
) -> None:
    assert key_text(values, columns) == text


@pytest.mark.parametrize("value", ["x" * 129, "a\nb", "\ud83d"], ids=["long", "control", "half"])
def test_an_ordering_key_that_no_service_takes_is_hashed(value: str) -> None:
    hashed = key_text({"a": value}, ("a",))
    assert hashed is not None
    assert len(hashed) == 64
