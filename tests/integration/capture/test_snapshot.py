"""`start_from = "snapshot"`: the rows of the table first, in chunks between the changes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from poller.model.captured import CHANGE, OLD, OP
from poller.stores import MemoryStore
from tests.integration.capture.captured import Captured
from tests.integration.capture.reading import Replica, poller, source

FIXTURES = {"postgresql": "postgres_db", "mariadb": "mariadb_db", "sqlite": "sqlite_url"}


@pytest.fixture(params=FIXTURES)
def orders(request: pytest.FixtureRequest) -> Iterator[Captured]:
    made = Captured(request.getfixturevalue(FIXTURES[request.param]))
    made.run("CREATE TABLE orders (id int PRIMARY KEY NOT NULL, note varchar(40), customer int)")
    made.run("INSERT INTO orders VALUES " + ", ".join(f"({n}, 'a', {n % 3})" for n in range(1, 8)))
    made.install()
    yield made
    made.close()


def test_rows_that_were_there_come_first(orders: Captured) -> None:
    kept, replica = poller(orders, start_from="snapshot", batch_size=3), Replica()
    result = kept.tick(replica)
    assert (result.outcome, replica.ops) == ("delivered", [*"BRRRRRRRE"])
    assert replica.rows == {n: {"id": n, "note": "a", "customer": n % 3} for n in range(1, 8)}
    orders.run("UPDATE orders SET note = 'b' WHERE id = 2", "DELETE FROM orders WHERE id = 3")
    assert kept.tick(replica).rows == 2
    assert replica.ops[-2:] == ["U", "D"]
    assert replica.breaks == []
    kept.close()
