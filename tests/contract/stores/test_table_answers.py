"""What the table store asks, how often, and what it makes of the answers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

from poller.errors import StoreDenied, StoreError, StoreUnavailable, WriteConflict
from poller.model.limits import HELD_EVERYWHERE, LARGEST_BODY
from poller.ports import Found, Missing, Timeout, Unchanged
from poller.stores.table.keys import beginning_with, keys_of, name_of
from tests.contract.stores.canned import Canned, answer
from tests.support.azurite import ACCOUNT, KEY, Azurite

pytest.importorskip("azure.data.tables", reason="needs the extra table")

from poller.stores import TableStore
from poller.stores.table import entities

NAME = "state/shop/orders.json"
TAG = "W/\"datetime'2026-04-07T01%3A23%3A45.1234567Z'\""
QUICK = Timeout(connect=0.3, read=0.3)
SIGNATURE = "c2VjcmV0LXNpZ25hdHVyZQ"

Ask = Callable[[TableStore], object]


@pytest.fixture
def table(azurite: Azurite) -> str:
    return azurite.table_name()


@pytest.fixture
def store(azurite: Azurite, table: str) -> Iterator[TableStore]:
    made = TableStore.from_connection_string(azurite.connection_string_with_tables, table)
    yield made
    made.close()


def asked(azurite: Azurite, ask: Callable[[], object]) -> list[tuple[str, int]]:
    """Method and status of each request for tables that a call makes."""
    mark = azurite.mark(tables=True)
    with contextlib.suppress(WriteConflict):
        ask()
    return [(request.method, request.status) for request in azurite.requests(mark, tables=True)]


def test_one_read_is_one_get_and_one_write_is_one_request(azurite: Azurite, store: TableStore) -> None:
    assert asked(azurite, lambda: store.write(NAME, b"{}", if_tag=None)) == [
        ("POST", 404),
        ("POST", 201),
        ("POST", 204),
    ]
    first = store.read(NAME)
    assert isinstance(first, Found)
    assert asked(azurite, lambda: store.read(NAME, unless=first.tag)) == [("GET", 200)]
    assert asked(azurite, lambda: store.read("state/none.json")) == [("GET", 404)]
    assert asked(azurite, lambda: store.write(NAME, b"x", if_tag=first.tag)) == [("PUT", 204)]
    assert asked(azurite, lambda: store.write(NAME, b"x", if_tag=first.tag)) == [("PUT", 412)]
    assert asked(azurite, lambda: store.write(NAME, b"x", if_tag=None)) == [("POST", 409)]
    store.append("audit/shop/orders.jsonl", "one")
    assert asked(azurite, lambda: store.append("audit/shop/orders.jsonl", "two")) == [("POST", 204)]
    assert asked(azurite, lambda: store.lines("audit/shop/orders.jsonl", limit=2)) == [("GET", 200)]


def test_of_a_large_document_an_idle_read_asks_for_the_tag_alone(
    azurite: Azurite, table: str, store: TableStore
) -> None:
    """The service has no conditional GET: a megabyte would travel with every idle tick."""
    body = b"x" * 500_000
    tag = store.write(NAME, body, if_tag=None).tag
    mark = azurite.mark(tables=True)
    assert isinstance(store.read(NAME, unless=tag), Unchanged)
    (request,) = azurite.requests(mark, tables=True)
    assert "select=RowKey" in request.query

    other = TableStore.from_connection_string(azurite.connection_string_with_tables, table)
    moved = other.write(NAME, body + b"y", if_tag=tag)
    found = store.read(NAME, unless=tag)
    assert isinstance(found, Found)
    assert (found.body, found.tag) == (body + b"y", moved.tag)
    other.remove(NAME, if_tag=moved.tag)
    assert isinstance(store.read(NAME, unless=moved.tag), Missing)
    other.close()


def test_a_page_of_a_thousand_is_one_request(azurite: Azurite, store: TableStore) -> None:
    for number in range(3):
        store.write(f"state/shop/p{number}.json", b"{}", if_tag=None)
    mark = azurite.mark(tables=True)

    assert len(list(store.listed("state/shop/"))) == 3

    (request,) = azurite.requests(mark, tables=True)
    assert "top=1000" in request.query


def test_a_listing_goes_on_after_a_page(store: TableStore, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"state/shop/p_{number}.json" for number in range(5)]
    for name in names:
        store.write(name, b"{}", if_tag=None)
    monkeypatch.setattr(entities, "PAGE", 2)
    assert [one.name for one in store.listed("state/shop/")] == names
    assert list(store.names("state/")) == names


@pytest.mark.parametrize(
    "name",
    ["a", "a/b", "a/b/c/d.json", "/", "a//b", "~", "_", "a_b/~2f/c", "\\#?%'\x00\x7f\x85/\t", "東京/\U0001f680/é"],
)
def test_a_name_survives_its_keys(name: str) -> None:
    keys = keys_of(name)
    assert name_of(*keys) == name
    assert all(key.isascii() and key.isprintable() and not set(key) & set("/\\#?%'\" ") for key in keys)


def test_a_prefix_within_an_app_is_a_query_of_one_partition() -> None:
    assert beginning_with("state/shop/or") == ("PartitionKey eq 'state_shop' and RowKey ge 'or' and RowKey lt 'or~~'")


@pytest.mark.guarantee(
    "Hostile and broken input",
    "A document that Table Storage cannot hold is refused before it is sent, with the poller's name and what to do; "
    "any name has keys of its own there",
)
def test_what_no_entity_holds_is_refused_with_the_pollers_name(azurite: Azurite, store: TableStore) -> None:
    def refused() -> StoreError:
        with pytest.raises(StoreError, match="too large for Table Storage") as raised:
            store.write(NAME, b"x" * (HELD_EVERYWHERE + 1), if_tag=None)
        return raised.value

    assert asked(azurite, refused) == []
    error = refused()
    assert not isinstance(error, StoreUnavailable | WriteConflict)
    assert "poller quarantine list orders" in str(error)
    assert f"{HELD_EVERYWHERE:,}" in str(error)
    store.write(NAME, b"x" * HELD_EVERYWHERE, if_tag=None)
    assert HELD_EVERYWHERE < LARGEST_BODY


def test_a_name_longer_than_a_key_is_refused(store: TableStore) -> None:
    for ask in (store.read, lambda name: store.append(name, "line")):
        with pytest.raises(StoreError, match="longer than a key"):
            ask(f"state/shop/{'x' * 600}")


def test_what_a_person_typed_into_a_property_is_read(azurite: Azurite, table: str, store: TableStore) -> None:
    store.write(NAME, b"{}", if_tag=None)
    partition, row = keys_of(NAME)
    tables = pytest.importorskip("azure.data.tables")
    with tables.TableClient.from_connection_string(azurite.connection_string_with_tables, table) as client:
        client.upsert_entity({"PartitionKey": partition, "RowKey": row, "B00": '{"é": 1}', "Note": 5})
    found = store.read(NAME)
    assert isinstance(found, Found)
    assert found.body == '{"é": 1}'.encode()


def read(store: TableStore) -> object:
    return store.read(NAME, timeout=QUICK)


def create(store: TableStore) -> object:
    return store.write(NAME, b"{}", if_tag=None, timeout=QUICK)


def replace(store: TableStore) -> object:
    return store.write(NAME, b"{}", if_tag=TAG, timeout=QUICK)


def said(code: str) -> dict[str, object]:
    """A refusal as tables say it: the code stands in the body alone."""
    text = f'{{"odata.error":{{"code":"{code}","message":{{"lang":"en-US","value":"sig={SIGNATURE} was refused"}}}}}}'
    return {"body": text.encode(), "Content_Type": "application/json"}


def prepared(given: Canned) -> TableStore:
    return TableStore.from_connection_string(f"AccountName={ACCOUNT};AccountKey={KEY};TableEndpoint={given.endpoint};")


@pytest.mark.parametrize(
    ("status", "code", "ask", "kind"),
    [
        (503, "ServerBusy", replace, StoreUnavailable),
        (500, "OperationTimedOut", create, StoreUnavailable),
        (429, "", replace, StoreUnavailable),
        (404, "", read, StoreUnavailable),
        (404, "", replace, StoreUnavailable),
        (404, "ResourceNotFound", replace, WriteConflict),
        (412, "UpdateConditionNotSatisfied", replace, WriteConflict),
        (409, "EntityAlreadyExists", create, WriteConflict),
        (409, "TableBeingDeleted", create, StoreUnavailable),
        (403, "AuthorizationPermissionMismatch", replace, StoreDenied),
        (403, "AuthenticationFailed", read, StoreDenied),
        (413, "RequestBodyTooLarge", replace, StoreError),
        (400, "InvalidInput", replace, StoreError),
        (302, "", replace, StoreError),
        (204, "", replace, StoreUnavailable),  # without an ETag it is unknown what was written
        (200, "", read, StoreUnavailable),  # not an entity
    ],
)
def test_every_answer_is_one_request_and_one_error(status: int, code: str, ask: Ask, kind: type[StoreError]) -> None:
    with Canned(answer(status, **(said(code) if code else {}))) as given:  # type: ignore[arg-type]
        store = prepared(given)
        with pytest.raises(StoreError) as raised:
            ask(store)
        store.close()
    assert type(raised.value) is kind
    assert len(given.asked) == 1
    assert SIGNATURE not in f"{raised.value!r}{raised.value}"
    assert raised.value.__cause__ is None


@pytest.mark.parametrize("ask", [read, create, replace])
@pytest.mark.parametrize(
    ("code", "step"),
    [
        ("KeyVaultEncryptionKeyNotFound", "Key Vault"),
        ("KeyVaultAccessTokenCannotBeAcquired", "Key Vault"),
        ("WriteOperationNotSupportedOnSecondary", "without -secondary"),
    ],
)
def test_a_refusal_that_is_of_the_account_says_so(ask: Ask, code: str, step: str) -> None:
    with Canned(answer(403, **said(code))) as given:  # type: ignore[arg-type]
        store = prepared(given)
        with pytest.raises(StoreDenied) as refused:
            ask(store)
        store.close()
    assert step in refused.value.next_step
    assert "Grant this identity" not in refused.value.next_step


@pytest.mark.parametrize("ask", [read, create, replace])
def test_silence_is_one_request_and_unavailable(ask: Ask) -> None:
    with Canned(None) as given:
        store = prepared(given)
        with pytest.raises(StoreUnavailable):
            ask(store)
        store.close()
    assert len(given.asked) == 1


def test_a_tag_of_another_store_conflicts_before_it_is_sent(azurite: Azurite, store: TableStore) -> None:
    store.write(NAME, b"{}", if_tag=None)
    assert asked(azurite, lambda: store.write(NAME, b"x", if_tag='"0x8DAAAAAAAAAAAAA"')) == []
