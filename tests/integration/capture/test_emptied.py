"""A table that was emptied concerns every key: it is handled while no other row is in hand or waits."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from poller import Batch
from poller.errors import ConfigError
from poller.model.captured import OP
from poller.relays import relay
from tests.integration.capture.captured import Captured
from tests.integration.capture.reading import Replica, poller


@pytest.fixture
def orders(postgres_db: str) -> Iterator[Captured]:
    made = Captured(postgres_db)
    made.run("CREATE TABLE orders (id int PRIMARY KEY, note text)")
    made.install()
    yield made
    made.close()


def test_it_is_a_row_without_values_between_the_others(orders: Captured) -> None:
    orders.run("INSERT INTO orders VALUES (1, 'a'), (2, 'b')", "TRUNCATE orders", "INSERT INTO orders VALUES (3, 'c')")
    kept, replica = poller(orders), Replica()
    while kept.tick(replica).rows:
        pass
    assert replica.ops == ["I", "I", "T", "I"]
    assert replica.rows == {3: {"id": 3, "note": "c"}}
    kept.close()


def test_lanes_wait_for_it(orders: Captured) -> None:
    """One of four lanes is slow: the table is not emptied before it has ended."""
    orders.run(
        "INSERT INTO orders SELECT n, 'a' FROM generate_series(1, 40) n",
        "TRUNCATE orders",
        "INSERT INTO orders SELECT n, 'b' FROM generate_series(1, 40) n",
    )
    ends: list[str] = []
    slow, lock = threading.Event(), threading.Lock()

    def handle(batch: Batch) -> None:
        ops = {row[OP] for row in batch}
        if any(row["id"] == 1 and row["note"] == "a" for row in batch):
            slow.wait(0.5)
        with lock:
            ends.extend("T" if op == "T" else str(batch.rows[0]["note"]) for op in ops)

    kept = poller(orders, concurrency=4, batch_size=5)
    while kept.tick(handle).rows:
        pass
    at = ends.index("T")
    assert (set(ends[:at]), set(ends[at + 1 :])) == ({"a"}, {"b"})
    kept.close()


def test_it_waits_for_a_person_while_rows_wait(orders: Captured) -> None:
    orders.run("INSERT INTO orders VALUES (1, 'bad'), (2, 'good')", "TRUNCATE orders")
    seen: list[str] = []

    def handle(batch: Batch) -> None:
        for row in batch:
            seen.append(row[OP])
            if row["note"] == "bad":
                batch.reject(row, "no")

    kept = poller(orders, on_poison="quarantine")
    kept.tick(handle)
    result = kept.tick(handle)
    assert (result.outcome, seen) == ("blocked", ["I", "I"])
    assert "emptied" in str(result.error)
    kept.quarantine.discard(all=True)
    kept.tick(handle)
    assert seen == ["I", "I", "T"]
    kept.close()


def test_one_that_fails_is_not_set_aside(orders: Captured) -> None:
    orders.run("TRUNCATE orders", "INSERT INTO orders VALUES (1, 'a')")
    seen: list[str] = []

    def handle(batch: Batch) -> None:
        seen.extend(row[OP] for row in batch)
        if batch.rows[0][OP] == "T":
            batch.reject(batch.rows[0], "no")

    kept = poller(orders, on_poison="quarantine", max_attempts=1)
    assert kept.tick(handle).outcome == "handler_failed"
    assert set(seen) == {"T"}
    kept.close()


def test_a_relay_that_does_not_know_deletes_is_refused(orders: Captured) -> None:
    class Old(type(relay("stdout"))):  # type: ignore[misc]
        knows_changes = False

    kept = poller(orders)
    with pytest.raises(ConfigError, match="does not know deletes"):
        kept.tick(Old(relay("stdout").settings))
    kept.close()
