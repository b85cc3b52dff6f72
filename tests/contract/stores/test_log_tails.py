"""The newest lines of a long log are read from its end: whoever asks for a few downloads not all that was written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from poller.journal import AuditTrail
from poller.model import limits
from poller.model.document import OperatorChange
from poller.runtime import SystemRuntime
from poller.stores import BlobStore
from poller.stores.blob.log import FIRST_PIECE
from tests.resilience.faults.proxy import FaultProxy
from tests.support.azurite import Azurite

NAME = "audit/shop/orders.jsonl"
LINES = [f"{n} " + "æ" * (n * 997 % 9000) for n in range(1, 61)]
"""Of two bytes a character, so that pieces of any length cut some; half a megabyte of them."""


@pytest.fixture
def proxy(azurite: Azurite) -> Iterator[FaultProxy]:
    with FaultProxy("127.0.0.1", azurite.port) as made:
        yield made


@pytest.fixture
def store(proxy: FaultProxy, container: str) -> Iterator[BlobStore]:
    with closing(BlobStore.from_connection_string(proxy.connection_string, container, log_blocks=40)) as made:
        for line in LINES:
            made.append(NAME, line)
        proxy.reset()
        yield made


def _asked(proxy: FaultProxy) -> list[str]:
    """The ranges that were read."""
    gets = [r.request for r in proxy.requests if r.request.method == "GET" and r.request.comp != "list"]
    return [get.header("x-ms-range") or get.header("Range") or "all" for get in gets]


def test_they_are_the_newest_lines_whole_and_in_order(store: BlobStore) -> None:
    for limit in (1, 2, 19, 20, 21, 30, 59, 60, 61):
        assert store.lines(NAME, limit=limit) == LINES[-limit:], limit
    assert store.lines(NAME) == LINES


def test_a_few_of_them_are_one_short_read(store: BlobStore, proxy: FaultProxy) -> None:
    assert store.lines(NAME, limit=3) == LINES[-3:]
    (asked,) = _asked(proxy)
    later = sum(len(line.encode()) + 1 for line in LINES[40:])
    assert asked.startswith(f"bytes={later - FIRST_PIECE}-")


def test_what_is_appended_meanwhile_may_be_among_them(store: BlobStore) -> None:
    store.append(NAME, "more")
    assert store.lines(NAME, limit=2) == [LINES[-1], "more"]


def test_a_log_of_an_empty_part_gives_what_stands_before_it(container: str, azurite: Azurite) -> None:
    """As where the process that began the part was killed before it wrote a line."""
    with closing(BlobStore.from_connection_string(azurite.connection_string, container)) as store:
        store.append(NAME, "one")
        blob = store._container.client().get_blob_client(f"{NAME}.000001")
        blob.create_append_blob()
        assert store.lines(NAME, limit=5) == ["one"]


def test_a_log_has_its_name_while_any_part_of_it_is_there(container: str, azurite: Azurite) -> None:
    """A rule of the account that deletes what was not modified for long deletes the first part first."""
    with closing(BlobStore.from_connection_string(azurite.connection_string, container, log_blocks=2)) as store:
        for line in ("one", "two", "three"):
            store.append(NAME, line)
        store._container.client().delete_blob(NAME)
        assert list(store.names(NAME)) == list(store.names("")) == [NAME]
        assert store.lines(NAME) == ["three"]


def test_a_process_that_starts_reads_the_end_of_the_trail_only(proxy: FaultProxy, container: str) -> None:
    """At its first acquire, for as long as an operator's change stands in the document: one LIST and one short GET."""
    change = OperatorChange(id="c1", kind="pause", by="ann")
    with closing(BlobStore.from_connection_string(proxy.connection_string, container)) as store:
        for text in ("x" * 4 * FIRST_PIECE, *(f'{{"id": "r{number}"}}' for number in range(25))):
            store.append(NAME, text)
        AuditTrail(store, app_name="shop", poller_name="orders", runtime=SystemRuntime()).copy_now(change)
        proxy.reset()
        AuditTrail(store, app_name="shop", poller_name="orders", runtime=SystemRuntime()).copy_now(change)
    assert [r.request.method for r in proxy.requests] == ["GET", "GET"]
    (asked,) = _asked(proxy)
    assert int(asked.removeprefix("bytes=").partition("-")[0]) > 3 * FIRST_PIECE


def test_a_change_that_was_copied_long_ago_is_not_copied_again(store: BlobStore) -> None:
    change = OperatorChange(id="c1", kind="pause", by="ann")
    trail = AuditTrail(store, app_name="shop", poller_name="orders", runtime=SystemRuntime())
    trail.copy_now(change)
    for number in range(60):
        store.append(NAME, f'{{"id": "r{number}"}}')
    before = store.lines(NAME)
    trail.copy_now(change)
    assert store.lines(NAME) == before


def test_an_end_without_a_line_is_not_read_as_a_whole(
    store: BlobStore, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever can write the container can make it hundreds of gigabytes; a worker looks at the end at every start."""
    monkeypatch.setattr(limits, "LARGEST_TRAIL", 2 * FIRST_PIECE)
    store.append(NAME, "x" * 50 * FIRST_PIECE)
    proxy.reset()
    assert LINES[-1] not in store.lines(NAME, limit=1)
    assert len(_asked(proxy)) == 3  # two pieces of that end, and one of the part before it
    store.append(NAME, "last")
    assert store.lines(NAME, limit=1) == ["last"]
