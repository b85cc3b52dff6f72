"""A poller of a captured table stops before changes that were missed, and says what to do."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from poller import Poller
from poller.errors import CaptureGap, FingerprintMismatch
from poller.model.cursor import Cursor
from poller.observability import PollerEvent
from poller.sources import SqlSource
from poller.stores import MemoryStore
from tests.integration.capture.captured import Captured
from tests.integration.capture.reading import Replica, poller, source

FIXTURES = {"postgresql": "postgres_db", "mariadb": "mariadb_db", "sqlite": "sqlite_url"}


@pytest.fixture(params=FIXTURES)
def orders(request: pytest.FixtureRequest) -> Iterator[Captured]:
    made = Captured(request.getfixturevalue(FIXTURES[request.param]))
    made.run("CREATE TABLE orders (id int PRIMARY KEY NOT NULL, note varchar(40))")
    made.install()
    yield made
    made.close()


def stops(kept: Poller, replica: Replica) -> CaptureGap:
    with pytest.raises(CaptureGap) as stopped:
        kept.tick(replica)
    return stopped.value


def test_a_gap_stops_the_poller_before_it(orders: Captured) -> None:
    """It never goes on by itself, and then from where a person says."""
    orders.run("INSERT INTO orders VALUES (1, 'a')", "INSERT INTO poller_orders_changes (op) VALUES ('X')")
    orders.run("INSERT INTO orders VALUES (2, 'b')")
    events: list[PollerEvent] = []
    kept, replica = poller(orders, observers=[events.append]), Replica()
    assert kept.tick(replica).rows == 1
    stops(kept, replica)
    gap = stops(kept, replica)
    assert gap.change == 2
    assert "before change 2" in gap.message
    assert "--to 2 --pk id=2" in gap.next_step
    assert [one.name for one in events].count("capture_gap") == 2
    assert kept.status().word == "capture_gap"
    kept.reset(Cursor(kind="integer+pk", value="2", tiebreaker={"id": 2}), allow_skip=True)
    assert kept.tick(replica).rows == 1
    assert replica.ops == ["I", "I"]
    kept.close()


def test_changes_that_were_pruned_behind_the_checkpoint_stop_it(orders: Captured) -> None:
    kept, replica = poller(orders), Replica()
    orders.run("INSERT INTO orders VALUES (1, 'a')")
    kept.tick(replica)
    orders.run("INSERT INTO orders VALUES (2, 'b')", "INSERT INTO orders VALUES (3, 'c')")
    orders.run("DELETE FROM poller_orders_changes WHERE id <= 2", "UPDATE poller_captures SET pruned_through = 2")
    gap = stops(kept, replica)
    assert "changes up to 2 were pruned, and the checkpoint is 1: 1 number is gone" in gap.message
    orders.run("DELETE FROM poller_orders_changes")
    assert "pruned" in stops(kept, replica).message
    assert replica.ops == ["I"]
    kept.close()


def test_what_the_checkpoint_passed_may_be_pruned(orders: Captured) -> None:
    kept, replica = poller(orders), Replica()
    orders.run("INSERT INTO orders VALUES (1, 'a')")
    kept.tick(replica)
    orders.run("DELETE FROM poller_orders_changes", "UPDATE poller_captures SET pruned_through = 1")
    assert kept.tick(replica).outcome == "idle"
    orders.run("INSERT INTO orders VALUES (2, 'b')")
    assert kept.tick(replica).rows == 1
    kept.close()


def test_a_pruned_table_has_no_beginning(orders: Captured) -> None:
    orders.run("INSERT INTO orders VALUES (1, 'a')", "INSERT INTO orders VALUES (2, 'b')")
    orders.run("DELETE FROM poller_orders_changes WHERE id = 1", "UPDATE poller_captures SET pruned_through = 1")
    kept = poller(orders)
    assert "the checkpoint is 0" in stops(kept, Replica()).message
    kept.close()


def test_a_table_that_is_not_captured_is_named(orders: Captured) -> None:
    orders.capture().remove(changes=True)
    kept = poller(orders)
    gap = stops(kept, Replica())
    assert "not captured" in gap.message
    assert "--install" in gap.next_step
    kept.close()


def test_one_that_was_removed_stops_it(orders: Captured) -> None:
    kept = poller(orders)
    orders.capture().remove(changes=False)
    assert "removed" in stops(kept, Replica()).message
    kept.close()


@pytest.mark.parametrize(
    ("change", "said"),
    [("ADD extra int", "column extra was added"), ("RENAME COLUMN note TO words", "column")],
)
def test_other_columns_stop_it_until_it_is_installed_again(orders: Captured, change: str, said: str) -> None:
    store, replica = MemoryStore(), Replica()
    kept = poller(orders, store)
    orders.run("INSERT INTO orders VALUES (1, 'a')")
    kept.tick(replica)
    orders.run(f"ALTER TABLE orders {change}")
    kept.source.close()  # the next connection looks
    assert said in stops(kept, replica).message
    kept.close()


def test_a_column_that_was_added_is_captured_once_it_is_installed(orders: Captured) -> None:
    kept, replica = poller(orders), Replica()
    kept.tick(replica)
    orders.run("ALTER TABLE orders ADD extra int")
    orders.install()
    orders.run("INSERT INTO orders VALUES (1, 'a', 7)")
    kept.source.close()
    kept.tick(replica)
    assert replica.rows == {1: {"id": 1, "note": "a", "extra": 7}}
    kept.close()


def test_a_table_that_was_swapped_stops_it(orders: Captured) -> None:
    kept, replica = poller(orders), Replica()
    orders.run("INSERT INTO orders VALUES (1, 'a')")
    kept.tick(replica)
    orders.run("ALTER TABLE orders RENAME TO former")
    orders.run("CREATE TABLE orders (id int PRIMARY KEY NOT NULL, note varchar(40))")
    kept.source.close()
    assert "changes may not be written" in stops(kept, replica).message
    kept.close()


def test_another_change_table_is_another_source(orders: Captured) -> None:
    """One that was made again begins with 1."""
    kept, replica = poller(orders), Replica()
    orders.run("INSERT INTO orders VALUES (1, 'a')")
    kept.tick(replica)
    orders.capture().remove(changes=True)
    orders.install()
    kept.source.close()
    with pytest.raises(FingerprintMismatch) as refused:
        kept.tick(replica)
    assert [one.field for one in refused.value.differences] == ["capture.made_at"]
    kept.close()


def test_leaving_out_a_column_is_the_same_source(orders: Captured) -> None:
    before = source(orders)
    before.page(None, 1)
    orders.install(old=False, excluded=("note",))
    after = source(orders)
    after.page(None, 1)
    assert before.describe().fingerprint() == after.describe().fingerprint()
    for one in (before, after):
        one.close()


def test_check_says_what_is_captured_and_what_is_wrong(orders: Captured) -> None:
    def found(of: SqlSource) -> tuple[str, str]:
        findings = of.checkup(None, lambda: datetime.now(UTC)).findings
        return next((one.severity, one.message) for one in findings if one.check == "capture")

    of = source(orders)
    assert found(of)[0] == "ok"
    orders.run("ALTER TABLE orders ADD extra int")
    assert found(of)[0] == "error"
    of.close()


@pytest.mark.parametrize("orders", ["postgresql", "sqlite"], indirect=True)
def test_a_table_that_would_be_refused_now_stops_it(orders: Captured) -> None:
    """In MariaDB such an ALTER TABLE makes it another one, which is said first."""
    kept = poller(orders)
    kept.tick(Replica())
    is_file = orders.engine.dialect.name == "sqlite"
    orders.run("CREATE UNIQUE INDEX notes ON orders (note)" if is_file else "ALTER TABLE orders SET UNLOGGED")
    kept.source.close()
    gap = stops(kept, Replica())
    kept.close()
    assert ("unique index notes" if is_file else "unlogged") in gap.message
    assert gap.next_step.endswith(" --install")


def test_what_was_accepted_stops_nothing(sqlite_url: str) -> None:
    made = Captured(sqlite_url)
    made.run("CREATE TABLE orders (id int PRIMARY KEY NOT NULL, note varchar(40) UNIQUE)")
    made.install(accepted=("replace",))
    kept = poller(made)
    assert kept.tick(Replica()).outcome == "idle"
    kept.close()
    made.close()
