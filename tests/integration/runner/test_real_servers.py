"""Rows of PostgreSQL, state in Azurite: the design's document is continued, a year of flights arrives once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
import sqlalchemy as sa
from azure.storage.blob import BlobClient, ContainerClient

from poller import Batch, Poller
from poller.errors import StateCorrupt
from poller.sources import SqlSource
from poller.stores import BlobStore
from tests.support import flights
from tests.support.azurite import Azurite
from tests.unit.model.example import EXAMPLE

BLOB = "state/shop/orders.json"
AT = "2026-04-07T01:23:45.123456Z"
ROWS = [
    (12092, AT),
    (12093, AT),
    (12094, AT),
    (7, "2026-04-07T01:23:45.123457Z"),
    (12095, "2026-04-07T01:23:46Z"),
]


@pytest.fixture
def orders(azurite: Azurite, container: str, postgres_db: str) -> Iterator[Callable[[], Poller]]:
    """Makes pollers of one table, each with a store of its own, as in processes of their own."""
    engine = sa.create_engine(postgres_db)
    with engine.begin() as connection:
        connection.execute(
            sa.text("CREATE TABLE orders (id bigint PRIMARY KEY, updated_at timestamptz NOT NULL, total numeric)")
        )
        connection.execute(
            sa.text("INSERT INTO orders VALUES (:id, :at, 1)"), [{"id": id_, "at": at} for id_, at in ROWS]
        )
    engine.dispose()
    made: list[Poller] = []

    def make() -> Poller:
        source = SqlSource(postgres_db, table="orders", cursor_column="updated_at", pk_columns=["id"])
        store = BlobStore.from_connection_string(azurite.connection_string, container)
        made.append(Poller("orders", app_name="shop", source=source, store=store))
        return made[-1]

    yield make
    for poller in made:
        poller.close()


@pytest.fixture
def blob(azurite: Azurite, container: str) -> BlobClient:
    client = ContainerClient.from_connection_string(azurite.connection_string, container)
    client.create_container()
    return client.get_blob_client(BLOB)


def ids(seen: list[int]) -> Callable[[Batch], None]:
    return lambda batch: seen.extend(row["id"] for row in batch)


def test_the_designs_document_in_a_real_blob_is_taken_over(orders: Callable[[], Poller], blob: BlobClient) -> None:
    blob.upload_blob(EXAMPLE)
    seen: list[int] = []
    result = orders().tick(ids(seen))
    assert (result.outcome, result.fencing_token) == ("delivered", 43)
    assert seen == [12094, 7, 12095], "the next row after 12093, and so on"
    written = json.loads(blob.download_blob().readall())
    assert written["version"] == 1
    assert written["poller_name"] == "orders"
    assert written["source_fingerprint"].startswith("sha256:")
    assert written["source_fingerprint"] != "sha256:..."
    assert written["checkpoint"]["cursor"] == {
        "kind": "timestamp+pk",
        "value": "2026-04-07T01:23:46.000000Z",
        "tiebreaker": {"id": 12095},
    }
    assert written["checkpoint"]["metadata"] == {"row_count": 3}
    assert written["lease"]["fencing_token"] == 43
    assert written["lease"]["owner_id"] is None
    assert orders().tick(ids(seen)).outcome == "idle"


def test_a_blob_that_is_not_ours_is_named_and_left_alone(orders: Callable[[], Poller], blob: BlobClient) -> None:
    body = b"gone"
    tag = blob.upload_blob(body)["etag"]
    with pytest.raises(StateCorrupt) as refused:
        orders().tick(ids([]))
    assert BLOB in str(refused.value)
    assert blob.download_blob().readall() == body
    assert blob.get_blob_properties().etag.strip('"') == str(tag).strip('"')


@pytest.mark.prove
def test_a_whole_year_of_flights_none_missing_and_none_twice(
    azurite: Azurite, container: str, postgres_db: str, flights_year: list[dict[str, Any]]
) -> None:
    """By two workers in turns, so that each goes on where the other stopped."""
    engine = sa.create_engine(postgres_db)
    flights.load(engine, flights.create_table(engine), flights_year)
    with engine.connect() as connection:
        connection.execution_options(isolation_level="AUTOCOMMIT").execute(sa.text("ANALYZE flights"))

    def worker() -> Poller:
        return Poller(
            "flights",
            app_name="shop",
            source=SqlSource(postgres_db, table="flights", cursor_column="time_hour", pk_columns=list(flights.KEY)),
            store=BlobStore.from_connection_string(azurite.connection_string, container),
            batch_size=2000,
            max_batches_per_tick=60,
            observers=(),
        )

    delivered: list[tuple[Any, ...]] = []
    outcomes: list[str] = []

    def take(batch: Batch) -> None:
        delivered.extend(flights.key_of(dict(row)) for row in batch)

    with closing(worker()) as first, closing(worker()) as second:
        while "idle" not in outcomes:
            for one in (first, second):
                outcomes.append(one.tick(take).outcome)
    assert outcomes == ["delivered", "delivered", "delivered", "idle"]
    assert len(delivered) == flights.YEAR_ROWS
    assert Counter(delivered) == Counter(map(flights.key_of, flights_year))
    with engine.connect() as connection:
        last = connection.execute(
            sa.text(
                "SELECT to_char(time_hour AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"'), carrier, flight, "
                "origin, sched_dep_time FROM flights ORDER BY time_hour DESC, carrier DESC, flight DESC, origin DESC, "
                "sched_dep_time DESC LIMIT 1"
            )
        ).one()
    engine.dispose()
    blob = ContainerClient.from_connection_string(azurite.connection_string, container)
    document = json.loads(blob.download_blob("state/shop/flights.json").readall())
    cursor = document["checkpoint"]["cursor"]
    assert cursor["value"] == last[0]
    assert [cursor["tiebreaker"][name] for name in flights.KEY[1:]] == list(last[1:])
    assert document["lease"]["owner_id"] is None
