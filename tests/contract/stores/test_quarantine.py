"""The laws of records of rows that failed, in every store."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from poller.contract.stores import Place
from poller.journal import Quarantine, QuarantineRecord
from poller.journal.quarantine.prune import Pruner
from poller.runtime import SystemRuntime
from tests.support.documents import hold_to_schemas
from tests.support.quarantine import entry, quarantine

ROW: dict[str, Any] = {
    "id": 2**63,
    "name": "Zürich 東京 \U0001f680 ' \" \\ %s :x ? \x00 \u2028",
    "price": Decimal("12.3400"),
    "photo": b"\x00\xff",
    "at": datetime(2026, 4, 7, 1, 2, 3, 456789, tzinfo=UTC),
    "day": date(2026, 4, 7),
    "uid": UUID(int=7),
    "nan": float("inf"),
    "tags": ["a", None, Decimal("1.0")],
    "none": None,
}


def soon() -> float:
    return SystemRuntime().monotonic() + 60


def settle(records: Quarantine, id_: str, token: int = 7) -> QuarantineRecord | None:
    return records.settle(id_, "delivered", fencing_token=token, generation=2, deadline=soon())


def test_a_row_comes_back_from_its_record(place: Place) -> None:
    quarantine(place.open()).open(entry(row=ROW), deadline=soon())
    store = place.open()
    there = quarantine(store).read(entry().facts.id)
    assert there is not None
    assert there.values() == ROW
    assert [type(value) for value in there.values().values()] == [type(value) for value in ROW.values()]
    assert there.facts() == entry().facts
    assert there.created_at is not None
    assert abs(there.created_at - datetime.now(UTC)) < timedelta(minutes=10)
    found = store.read(f"quarantine/shop/orders/{there.id}.json")
    hold_to_schemas([(f"quarantine/shop/orders/{there.id}.json", found.body)])  # type: ignore[union-attr]


def test_a_record_is_opened_settled_and_opened_again(place: Place) -> None:
    records, others = quarantine(place.open()), quarantine(place.open())
    id_ = records.open(entry(), deadline=soon()).id
    assert settle(others, id_) == settle(records, id_)
    again = others.open(entry(fencing_token=8), deadline=soon())
    assert ([one.status for one in again.openings], again.status) == (["delivered"], "aside")
    assert records.read(id_) == again


def test_of_two_who_open_a_record_both_are_in_it(place: Place) -> None:
    places = [quarantine(place.open()) for _ in range(4)]
    with ThreadPoolExecutor() as pool:
        tokens = enumerate(places, 10)
        done = [pool.submit(one.open, entry(fencing_token=token), deadline=soon()) for token, one in tokens]
    highest = max(one.result().fencing_token for one in done)
    there = places[0].read(entry().facts.id)
    assert there is not None
    assert there.fencing_token == highest == 13
    assert there.values() == entry().row


def test_records_are_listed_by_poller(place: Place) -> None:
    store = place.open()
    ids = sorted(quarantine(store).open(entry(number), deadline=soon()).id for number in range(12))
    quarantine(store, poller_name="orders2").open(entry(20), deadline=soon())
    records = quarantine(place.open())
    assert records.ids() == ids
    there = records.records()
    assert list(there) == ids
    assert all(isinstance(one, QuarantineRecord) for one in there.values())
    assert list(records.records([ids[3], "0" * 16, ids[1]])) == [ids[3], ids[1]]


def test_only_what_is_settled_and_not_listed_is_removed(place: Place) -> None:
    records = quarantine(place.open())
    ids = [records.open(entry(number), deadline=soon()).id for number in range(4)]
    for id_ in ids[:3]:
        settle(records, id_)
    assert Pruner(quarantine(place.open()), timedelta(0)).prune([ids[0], ids[3]], check=lambda: None) == 2
    assert records.ids() == sorted([ids[0], ids[3]])
    assert Pruner(records, timedelta(0)).prune([ids[0]], check=lambda: None) == 0
