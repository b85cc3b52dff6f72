"""What the Cosmos DB store asks, what it makes of answers, and which settings it takes."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from poller.config import StateOptions
from poller.errors import ConfigError, StoreDenied, StoreError, StoreUnavailable, WriteConflict
from poller.ports import Found, Missing, Timeout, Unchanged
from poller.stores import open_store
from tests.contract.stores.canned import Canned, answer
from tests.support.azurite import KEY
from tests.support.cosmos import DATABASE, CosmosServer, connection_string
from tests.support.cosmos_answers import ACCOUNT, CONTAINER, CosmosAnswers, Said

pytest.importorskip("azure.cosmos", reason="needs the extra cosmos")

from poller.stores import CosmosStore
from poller.stores.cosmos.items import LARGEST_ITEM, id_of, name_of

NAME = "state/shop/orders.json"
TAG = '"00000000-0000-0000-bb9d-8ddaf9d801dd"'
ITEM = {
    "id": "state_shop_orders.json",
    "app": "shop",
    "kind": "document",
    "text": "{}",
    "_etag": TAG,
    "_ts": 1795820724,
}
SECRET = "c2VjcmV0LWtleQ=="

Ask = Callable[[CosmosStore], object]


def read(store: CosmosStore) -> object:
    return store.read(NAME)


def create(store: CosmosStore) -> object:
    return store.write(NAME, b"{}", if_tag=None)


def replace(store: CosmosStore) -> object:
    return store.write(NAME, b"{}", if_tag=TAG)


def remove(store: CosmosStore) -> None:
    store.remove(NAME, if_tag=TAG)


def prepared(given: CosmosAnswers) -> CosmosStore:
    return CosmosStore.from_connection_string(connection_string(given.endpoint))


def test_an_idle_read_is_one_get_answered_with_304() -> None:
    """`cosmosdb-server` has no 304."""
    answers = [Said(200, ITEM, {"ETag": TAG}), Said(304, None, {"ETag": TAG})]
    with CosmosAnswers(*answers) as given:
        store = prepared(given)
        found = store.read(NAME)
        assert isinstance(found, Found)
        assert (found.body, found.tag) == (b"{}", TAG)
        assert found.modified_at == datetime(2026, 11, 27, 23, 5, 24, tzinfo=UTC)
        unchanged = store.read(NAME, unless=TAG)
        store.close()
    assert isinstance(unchanged, Unchanged)
    assert unchanged.server_time is not None
    first, second = given.asked
    assert (second[0], second[2].get("If-None-Match")) == ("GET", TAG)
    assert "If-None-Match" not in first[2]


def test_a_write_names_the_version_that_it_replaces() -> None:
    with CosmosAnswers(Said(201, ITEM), Said(200, ITEM), Said(204)) as given:
        store = prepared(given)
        create(store)
        replace(store)
        remove(store)
        store.close()
    assert [(method, headers.get("If-Match")) for method, _, headers in given.asked] == [
        ("POST", None),
        ("PUT", TAG),
        ("DELETE", TAG),
    ]
    assert not any("is-upsert" in name.lower() for name in given.asked[0][2])


@pytest.mark.parametrize(
    ("status", "sub", "ask", "kind"),
    [
        (429, 3200, replace, StoreUnavailable),
        (449, 0, replace, StoreUnavailable),
        (503, 0, create, StoreUnavailable),
        (503, 0, read, StoreUnavailable),
        (500, 0, read, StoreUnavailable),
        (408, 0, replace, StoreUnavailable),
        (410, 0, replace, StoreUnavailable),
        (403, 3, replace, StoreUnavailable),
        (412, 0, replace, WriteConflict),
        (412, 0, remove, WriteConflict),
        (404, 0, replace, WriteConflict),
        (404, 0, remove, WriteConflict),
        (409, 0, create, WriteConflict),
        (401, 0, read, StoreDenied),
        (403, 5300, replace, StoreDenied),
        (403, 1014, replace, StoreDenied),
        (404, 1003, read, StoreDenied),
        (404, 1003, create, StoreDenied),
        (413, 0, replace, StoreError),
        (400, 0, replace, StoreError),
        (200, 0, replace, StoreUnavailable),  # without a tag it is unknown what was written
        (200, 0, read, StoreUnavailable),
    ],
)
def test_every_answer_of_cosmos_is_one_request_and_one_error(
    status: int, sub: int, ask: Ask, kind: type[StoreError]
) -> None:
    body = {"code": "Canned", "message": f"{SECRET} was refused"} if status != 200 else {}
    with CosmosAnswers(Said(status, body, {"x-ms-substatus": str(sub)} if sub else {})) as given:
        store = prepared(given)
        with pytest.raises(StoreError) as raised:
            ask(store)
        store.close()
    assert type(raised.value) is kind
    assert len(given.asked) == 1
    assert SECRET not in f"{raised.value!r}{raised.value}"
    assert raised.value.__cause__ is None


@pytest.mark.parametrize("ask", [read, replace, remove, lambda store: list(store.names("state/shop/"))])
@pytest.mark.parametrize("sub", [1002, 1008, 1013])
def test_a_404_of_a_replica_that_is_behind_is_no_missing_document(ask: Ask, sub: int) -> None:
    """1002: the replica has not reached the session's token yet; 1008: the account's address is moving; 1013: the
    container is being made."""
    with CosmosAnswers(Said(404, {}, {"x-ms-substatus": str(sub)})) as given:
        store = prepared(given)
        with pytest.raises(StoreUnavailable):
            ask(store)
        store.close()
    assert len(given.asked) == 1


def append(store: CosmosStore) -> None:
    store._log._newest["audit/shop/orders.jsonl"] = 5
    store.append("audit/shop/orders.jsonl", "{}")


@pytest.mark.parametrize("ask", [read, create, replace, remove, append, lambda store: list(store.names("state/shop/"))])
@pytest.mark.parametrize(
    "said",
    [
        Said(200, ours=False),
        Said(200, ITEM, ours=False),
        Said(200, {"Documents": []}, ours=False),
        Said(204, ours=False),
        Said(302, None, {"Location": "http://127.0.0.1:1/login"}, ours=False),
        Said(307, None, {"Location": "http://127.0.0.1:1/login"}, ours=False),
        Said(304, ours=False),
    ],
    ids=lambda said: f"{said.status}-{type(said.body).__name__}",
)
def test_a_success_of_something_in_between_is_none(ask: Ask, said: Said) -> None:
    """A line would be lost, a note left behind, a listing empty."""
    with CosmosAnswers(said) as given:
        store = prepared(given)
        with pytest.raises(StoreUnavailable):
            ask(store)
        store.close()
    assert len(given.asked) == 1


@pytest.mark.parametrize("status", [304, 404, 412])
def test_a_read_without_a_condition_is_no_unchanged_nor_a_conflict(status: int) -> None:
    with CosmosAnswers(Said(status, None if status == 304 else {})) as given:
        store = prepared(given)
        ask: Ask = read if status != 404 else lambda made: list(made.names("state/shop/"))
        with pytest.raises(StoreError) as raised:
            ask(store)
        store.close()
    assert not isinstance(raised.value, WriteConflict)


@pytest.mark.parametrize("ask", [read, create, replace, remove])
@pytest.mark.parametrize("status", [404, 409, 412])
def test_an_answer_of_something_in_between_decides_nothing(ask: Ask, status: int) -> None:
    with CosmosAnswers(Said(status, {"message": "proxy"}, ours=False)) as given:
        store = prepared(given)
        with pytest.raises(StoreError) as raised:
            ask(store)
        store.close()
    assert not isinstance(raised.value, WriteConflict)


def test_a_429_says_that_nothing_was_written() -> None:
    with CosmosAnswers(Said(429, {}, {"x-ms-retry-after-ms": "60000"})) as given:
        store = prepared(given)
        with pytest.raises(StoreUnavailable, match="throughput is used up") as busy:
            replace(store)
        store.close()
    assert not busy.value.sent
    assert "may or may not" not in str(busy.value)
    assert len(given.asked) == 1


@pytest.mark.guarantee(
    "Hostile and broken input",
    "An account of Cosmos DB that writes in several regions keeps no state",
)
@pytest.mark.parametrize(
    "changed",
    [
        {"enableMultipleWriteLocations": True},
        {"writableLocations": [*ACCOUNT["writableLocations"], *ACCOUNT["writableLocations"]]},  # type: ignore[misc]
    ],
)
def test_an_account_with_several_write_regions_is_refused(changed: dict[str, object]) -> None:
    with CosmosAnswers(Said(200, ITEM), account={**ACCOUNT, **changed}) as given:
        store = prepared(given)
        for ask in (read, create, replace):
            with pytest.raises(StoreDenied, match=r"several regions.*--enable-multiple-write-locations false"):
                ask(store)
    assert given.asked == []


@pytest.mark.parametrize("account", [{}, {"id": "shop"}, {"id": "shop", "writableLocations": []}, []])
def test_an_account_that_does_not_say_where_it_writes_is_not_used(account: dict[str, object]) -> None:
    with CosmosAnswers(Said(200, ITEM), account=account) as given:
        store = prepared(given)
        for ask in (read, create, replace):
            with pytest.raises(StoreUnavailable):
                ask(store)
        store.close()
    assert given.asked == []


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (None, StoreUnavailable),
        (answer(503), StoreUnavailable),
        (answer(404, body=b"<html>proxy</html>"), StoreUnavailable),
        (answer(401, x_ms_activity_id="5bd1c0b4"), StoreDenied),
        (answer(404, x_ms_activity_id="5bd1c0b4"), StoreDenied),
        (answer(200, body=b"<html>Sign in</html>"), StoreUnavailable),
    ],
    ids=["silence", "503", "404 in between", "401", "404", "page"],
)
def test_connecting_is_tried_once_within_the_timeout(said: bytes | None, kind: type[StoreError]) -> None:
    """The SDK would send it four times, with five seconds for each."""
    with Canned(said) as given:
        store = CosmosStore.from_connection_string(connection_string(f"http://127.0.0.1:{given.port}"))
        began = time.monotonic()
        with pytest.raises(StoreError) as raised:
            store.read(NAME, timeout=Timeout(connect=0.3, read=0.3))
        took = time.monotonic() - began
        store.close()
    assert type(raised.value) is kind
    assert len(given.asked) == 1
    assert took < 3


def test_the_account_is_asked_for_once(caplog: pytest.LogCaptureFixture) -> None:
    """Threads of the SDK would ask again, also after the store was closed."""
    said = [json.dumps(one).encode() for one in (ACCOUNT, CONTAINER, ITEM)]
    with Canned(*(answer(200, body=one, x_ms_activity_id="5bd1c0b4") for one in said)) as given:
        store = CosmosStore.from_connection_string(connection_string(f"http://127.0.0.1:{given.port}"))
        assert isinstance(read(store), Found)
        store.close()
        time.sleep(0.5)
    assert [target.rstrip("/").rpartition("/")[2] for _, target in given.asked] == ["", "db-state", ITEM["id"]]
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_no_thread_waits_for_others_to_connect_in_vain() -> None:
    with Canned(None) as given:
        store = CosmosStore.from_connection_string(connection_string(f"http://127.0.0.1:{given.port}"))

        def ask(_: int) -> float:
            began = time.monotonic()
            with pytest.raises(StoreUnavailable):
                store.read(NAME, timeout=Timeout(connect=0.3, read=0.5))
            return time.monotonic() - began

        with ThreadPoolExecutor(12) as threads:
            took = list(threads.map(ask, range(12)))
        store.close()
    assert max(took) < 4


def test_an_unknown_container_names_the_keys_and_the_command(cosmos_server: CosmosServer) -> None:
    cosmos_server.database()
    for database in (DATABASE, "no-such-database"):
        store = CosmosStore.from_connection_string(cosmos_server.connection_string, database, "no-such")
        for ask in (read, create, lambda made: list(made.names("state/"))):
            with pytest.raises(StoreDenied, match=r"state\.database and state\.container.*az cosmosdb sql container"):
                ask(store)


def test_the_check_finds_nothing_wrong(cosmos_server: CosmosServer) -> None:
    name = cosmos_server.new_container()
    store = CosmosStore.from_connection_string(cosmos_server.connection_string, DATABASE, name)
    assert {(one.check, one.severity) for one in store.checkup(NAME)} == {("tls", "ok"), ("container", "ok")}
    assert isinstance(store.read(NAME), Missing)
    store.close()


def test_a_document_as_json_beyond_two_megabytes_is_refused() -> None:
    """Quotes and backslashes count twice: a document that a blob holds may be too large here."""
    with CosmosAnswers(Said(201, ITEM)) as given:
        store = prepared(given)
        with pytest.raises(StoreError, match="too large for Azure Cosmos DB") as refused:
            store.write(NAME, b'"' * (LARGEST_ITEM // 2 + 1), if_tag=None)
        assert "poller quarantine list orders" in str(refused.value)
        assert given.asked == []
        store.write(NAME, b'"' * (LARGEST_ITEM // 2 - 1000), if_tag=None)
        store.close()


def test_bytes_that_are_no_text_are_kept(cosmos_server: CosmosServer) -> None:
    name = cosmos_server.new_container()
    store = CosmosStore.from_connection_string(cosmos_server.connection_string, DATABASE, name)
    store.write(NAME, b"\xff\x00", if_tag=None)
    found = store.read(NAME)
    assert isinstance(found, Found)
    assert found.body == b"\xff\x00"
    store.close()


@pytest.mark.parametrize(
    "name", ["a", "a/b", "a//b", ".", "..", "~", "_", "a_b/~2f/c", "\\#?%'\x00\t", "東京/\U0001f680/é"]
)
def test_a_name_survives_its_id(name: str) -> None:
    made = id_of(name)
    assert name_of(made) == name
    assert made.isascii()
    assert not set(made) & set("/\\#? ")
    assert set(made) != {"."}


def test_a_name_longer_than_an_id_is_refused() -> None:
    with CosmosAnswers(Said(201, ITEM)) as given:
        store = prepared(given)
        with pytest.raises(StoreError, match="longer than an id"):
            store.write(f"state/shop/{'x' * 1000}", b"{}", if_tag=None)
    assert given.asked == []


def test_no_log_shows_the_key_or_a_document(cosmos_server: CosmosServer, caplog: pytest.LogCaptureFixture) -> None:
    name = cosmos_server.new_container()
    store = CosmosStore.from_connection_string(cosmos_server.connection_string, DATABASE, name)
    with caplog.at_level(logging.DEBUG):
        store.write(NAME, b'{"row": "confidential"}', if_tag=None)
    store.close()
    for hidden in (KEY, "confidential", "sig%3d", "sig="):
        assert hidden not in caplog.text


@pytest.mark.parametrize(
    ("environ", "account"),
    [
        ({"A": f"AccountEndpoint=https://s.documents.azure.com:443/;AccountKey={SECRET};"}, "https://s.documents.azure.com:443"),
        ({"A__ACCOUNTENDPOINT": "https://shop.documents.azure.com/"}, "https://shop.documents.azure.com"),
        ({"A__accountEndpoint": "https://s.example", "A__clientId": "1"}, "https://s.example"),
        ({"A": f"AccountEndpoint=http://127.0.0.1:8081;AccountKey={SECRET}"}, "http://127.0.0.1:8081"),
    ],
)  # fmt: skip
def test_settings_lead_to_the_account_of_cosmos(environ: dict[str, str], account: str) -> None:
    store = open_store(StateOptions(store="cosmos", connection="A"), environ)
    assert store.locate("x") == f"document x in container db-state of database poller of {account}"


@pytest.mark.parametrize(
    ("environ", "options", "key"),
    [
        ({}, {"connection": "A"}, "state.connection"),
        ({"A": f"AccountEndpoint=https://s.example;AccountKey=no {SECRET}"}, {"connection": "A"}, "state.connection"),
        ({"A": f"nonsense {SECRET}"}, {"connection": "A"}, "state.connection"),
        ({"A": f"AccountEndpoint=http://shop.example;AccountKey={SECRET}"}, {"connection": "A"}, "state.connection"),
        ({"A": f"AccountEndpoint=https://u:{SECRET}@s;AccountKey={SECRET}"}, {"connection": "A"}, "state.connection"),
        ({"A__accountEndpoint": "http://shop.example"}, {"connection": "A"}, "state.connection"),
        ({"A__accountEndpoint": "https://s.example"}, {"connection": "A", "database": "a/b"}, "state.database"),
        ({"A__accountEndpoint": "https://s.example"}, {"connection": "A", "container": "a b"}, "state.container"),
        ({}, {}, "state.connection"),
    ],
)  # fmt: skip
def test_an_invalid_setting_of_cosmos_is_refused(environ: dict[str, str], options: dict[str, str], key: str) -> None:
    with pytest.raises(ConfigError) as refused:
        open_store(StateOptions(store="cosmos", **options), environ, file="poller.toml")  # type: ignore[arg-type]
    assert refused.value.key == key
    assert refused.value.next_step
    assert SECRET not in str(refused.value)


def test_without_azure_cosmos_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [one for one in sys.modules if one.startswith(("azure.cosmos", "poller.stores.cosmos"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "azure.cosmos", None)
    with pytest.raises(ConfigError, match=r"Install poller's extra cosmos: pip install azure-cosmos") as refused:
        open_store(StateOptions(store="cosmos", connection="A"), {"A__accountEndpoint": "https://s.example"})
    assert refused.value.key == "state.store"
