"""The laws of listings, for a store that has them: one request says which version of each document there is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from poller.contract.stores.place import Place
from poller.ports import Found, ListingStore, StateStore, unquoted


@pytest.fixture
def listing(store: StateStore) -> ListingStore:
    """The store, which can list."""
    if not isinstance(store, ListingStore):
        pytest.skip("this store lists no versions")
    return store


def test_a_listing_has_the_tags_that_reads_and_writes_give(store: StateStore, listing: ListingStore) -> None:
    written = store.write("state/shop/orders.json", b"{}", if_tag=None)
    store.write("state/shop/refunds.json", b"{}", if_tag=None)
    found = store.read("state/shop/orders.json")
    assert isinstance(found, Found)

    listed = {one.name: one.tag for one in listing.listed("state/shop/")}

    assert list(listed) == ["state/shop/orders.json", "state/shop/refunds.json"]
    assert listed["state/shop/orders.json"] == unquoted(written.tag) == unquoted(found.tag)


def test_a_listed_tag_moves_with_every_write(store: StateStore, listing: ListingStore) -> None:
    first = store.write("state/shop/orders.json", b"{}", if_tag=None)
    before = [one.tag for one in listing.listed("state/shop/")]
    store.write("state/shop/orders.json", b"{}", if_tag=first.tag)

    assert [one.tag for one in listing.listed("state/shop/")] != before


def test_a_listing_leaves_out_logs_and_other_prefixes(store: StateStore, listing: ListingStore) -> None:
    store.write("state/shop/orders.json", b"{}", if_tag=None)
    store.write("state/shop-2/orders.json", b"{}", if_tag=None)
    store.append("state/shop/orders.jsonl", "a line")

    assert [one.name for one in listing.listed("state/shop/")] == ["state/shop/orders.json"]


def test_a_listing_says_when_a_document_was_written(store: StateStore, listing: ListingStore) -> None:
    store.write("state/shop/orders.json", b"{}", if_tag=None)

    (one,) = listing.listed("state/shop/")

    assert one.modified_at is not None
    assert abs(one.modified_at - datetime.now(UTC)) < timedelta(minutes=1)


def test_nothing_is_listed_where_there_is_no_container(place: Place, listing: ListingStore) -> None:
    assert list(listing.listed("state/shop/")) == []
