"""A poller with `capture = true` delivers each change as a row of the table."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from poller.errors import ConfigError
from poller.model.captured import AT, CHANGE, OLD, OP, TX
from tests.integration.capture.captured import Captured
from tests.integration.capture.reading import Replica, poller, rows, source

FIXTURES = {"postgresql": "postgres_db", "mariadb": "mariadb_db", "sqlite": "sqlite_url"}


@pytest.fixture(params=FIXTURES)
def orders(request: pytest.FixtureRequest) -> Iterator[Captured]:
    made = Captured(request.getfixturevalue(FIXTURES[request.param]))
    made.run("CREATE TABLE orders (id int PRIMARY KEY NOT NULL, note varchar(40), customer int)")
    yield made
    made.close()


def test_each_change_is_a_row_of_the_table(orders: Captured) -> None:
    orders.install()
    orders.run(
        "INSERT INTO orders VALUES (1, 'a', 7)",
        "UPDATE orders SET note = 'b' WHERE id = 1",
        "UPDATE orders SET id = 2 WHERE id = 1",
        "DELETE FROM orders WHERE id = 2",
    )
    found = rows(orders)
    assert [(row[OP], row["id"], row["note"], row["customer"]) for row in found] == [
        ("I", 1, "a", 7),
        ("U", 1, "b", 7),
        ("D", 1, "b", 7),
        ("I", 2, "b", 7),
        ("D", 2, "b", 7),
    ]
    assert [row[OLD] for row in found] == [
        None,
        {"id": 1, "note": "a", "customer": 7},
        {"id": 1, "note": "b", "customer": 7},
        None,
        {"id": 2, "note": "b", "customer": 7},
    ]
    assert [row[CHANGE] for row in found] == sorted(row[CHANGE] for row in found)
    assert all(abs(datetime.now(UTC) - row[AT]) < timedelta(minutes=2) for row in found)
    assert {type(row[TX]) for row in found} <= {str, type(None)}


def test_a_poller_keeps_a_replica(orders: Captured) -> None:
    orders.install()
    kept, replica = poller(orders, batch_size=2), Replica()
    assert kept.tick(replica).outcome == "idle"
    orders.run("INSERT INTO orders VALUES (1, 'a', 7), (2, 'b', 7), (3, NULL, NULL)")
    orders.run("UPDATE orders SET note = 'c' WHERE id > 1", "DELETE FROM orders WHERE id = 1")
    result = kept.tick(replica)
    assert (result.outcome, result.rows, result.batches) == ("delivered", 6, 3)
    assert replica.rows == {2: {"id": 2, "note": "c", "customer": 7}, 3: {"id": 3, "note": "c", "customer": None}}
    assert replica.breaks == []
    kept.close()


def test_a_change_is_not_delivered_twice(orders: Captured) -> None:
    orders.install()
    kept, replica = poller(orders), Replica()
    orders.run("INSERT INTO orders VALUES (1, 'a', 7)")
    kept.tick(replica)
    orders.run("DELETE FROM orders")
    assert kept.tick(replica).rows == 1
    assert replica.ops == ["I", "D"]
    kept.close()


def test_old_values_that_are_not_kept_are_none(orders: Captured) -> None:
    orders.install(old=False)
    orders.run("INSERT INTO orders VALUES (1, 'a', 7)", "UPDATE orders SET note = 'b'", "DELETE FROM orders")
    found = rows(orders)
    assert [(row[OP], row["note"]) for row in found] == [("I", "a"), ("U", "b"), ("D", None)]
    assert found[1][OLD] is None
    assert found[2]["id"] == 1


def test_a_column_that_is_left_out_is_in_no_row(orders: Captured) -> None:
    orders.install(excluded=("note",))
    orders.run("INSERT INTO orders VALUES (1, 'a', 7)")
    assert "note" not in rows(orders)[0]
    assert set(rows(orders, columns=["customer"])[0]) == {"id", "customer", OP, OLD, CHANGE, TX, AT}


def test_changes_count_from_now_on_if_it_is_asked_for(orders: Captured) -> None:
    orders.install()
    orders.run("INSERT INTO orders VALUES (1, 'a', 7)")
    kept, replica = poller(orders, start_from="now"), Replica()
    kept.tick(replica)
    orders.run("INSERT INTO orders VALUES (2, 'b', 7)")
    kept.tick(replica)
    assert list(replica.rows) == [2]
    kept.close()


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"start_from": "2026-01-01"}, "start_from"),
        ({"cursor_column": "id"}, "cursor_column"),
        ({"filter": "id > 1"}, "filter"),
        ({"format": "arrow"}, "format"),
    ],
)
def test_an_option_that_does_not_go_with_it_is_refused(options: dict[str, str], key: str) -> None:
    with pytest.raises(ConfigError) as refused:
        source(Captured("sqlite://"), **options)
    assert refused.value.key == key
