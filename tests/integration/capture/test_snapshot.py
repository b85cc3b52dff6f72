"""`start_from = "snapshot"`: the rows of the table, in chunks between the changes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from poller import Batch, Poller
from poller.admin.quick import QuickLooks
from poller.dispatch.probes import DatabaseProber, Question
from poller.errors import CaptureGap, ConfigError, SourceUnavailable
from poller.model.captured import AT, CHANGE, OLD, OP
from poller.model.document import State, decode
from poller.ports import Found
from poller.runtime import SystemRuntime
from poller.sources import SqlSource, snapshots
from poller.stores import MemoryStore
from tests.integration.capture.captured import Captured
from tests.integration.capture.reading import Replica, poller, source

FIXTURES = {"postgresql": "postgres_db", "mariadb": "mariadb_db", "sqlite": "sqlite_url"}
TABLE = "CREATE TABLE orders (id int PRIMARY KEY NOT NULL, note varchar(40), customer int)"
Write = Callable[[], Any]


def filled(made: Captured, *, rows: int = 9) -> Captured:
    """With rows that were there before it was captured: 10, 20, 30 ..."""
    made.run(TABLE, "INSERT INTO orders VALUES " + ", ".join(f"({10 * n}, 'a', {n % 3})" for n in range(1, rows + 1)))
    made.install()
    return made


@pytest.fixture(params=FIXTURES)
def orders(request: pytest.FixtureRequest) -> Iterator[Captured]:
    made = filled(Captured(request.getfixturevalue(FIXTURES[request.param])))
    yield made
    made.close()


@pytest.fixture
def postgresql(postgres_db: str) -> Iterator[Captured]:
    made = filled(Captured(postgres_db))
    yield made
    made.close()


@pytest.fixture
def in_file(sqlite_url: str) -> Iterator[Captured]:
    made = filled(Captured(sqlite_url))
    yield made
    made.close()


def table(made: Captured) -> dict[Any, dict[str, Any]]:
    rows = made.run("SELECT id, note, customer FROM orders")
    return {key: {"id": key, "note": note, "customer": customer} for key, note, customer in rows}


def drained(kept: Poller, handler: Callable[[Batch], None], *, most: int = 60) -> None:
    """Tick until nothing is left."""
    for _ in range(most):
        if kept.tick(handler).outcome == "idle":
            return
    raise AssertionError("it never comes to an end")


def same(made: Captured, replica: Replica) -> None:
    assert replica.breaks == []
    assert replica.rows == table(made)
    assert (replica.ops[0], replica.ops.count("B"), replica.ops.count("E")) == ("B", 1, 1)


class Writing(Replica):
    """A replica whose table is written while some batch is handled: `writes` says before which rows, by operation and
    place among these."""

    def __init__(self, made: Captured, writes: dict[int, list[str]]) -> None:
        super().__init__()
        self._made = made
        self._writes = writes

    def take(self, row: Any) -> None:
        super().take(row)
        self._made.run(*self._writes.pop(self.ops.count("R"), ()))


def test_rows_that_were_there_come_first(orders: Captured) -> None:
    kept, replica = poller(orders, start_from="snapshot", batch_size=4), Replica()
    result = kept.tick(replica)
    assert (result.outcome, replica.ops) == ("delivered", [*"BRRRRRRRRRE"])
    orders.run("UPDATE orders SET note = 'b' WHERE id = 20", "DELETE FROM orders WHERE id = 30")
    assert kept.tick(replica).rows == 2
    assert replica.ops[-2:] == ["U", "D"]
    same(orders, replica)
    kept.close()


def test_a_table_without_rows_has_a_beginning_and_an_end(orders: Captured) -> None:
    orders.run("DELETE FROM orders")
    kept, replica = poller(orders, start_from="snapshot"), Replica()
    drained(kept, replica)
    assert replica.ops == ["B", "E"]
    kept.close()


def test_what_is_written_meanwhile_comes_in_its_order(orders: Captured) -> None:
    """Rows that were read already, that were not, keys that move over the place where the snapshot is."""
    writes = {
        0: ["UPDATE orders SET note = 'b' WHERE id = 20", "INSERT INTO orders VALUES (5, 'new', 0), (95, 'new', 0)"],
        2: ["UPDATE orders SET note = 'c' WHERE id IN (10, 80)", "DELETE FROM orders WHERE id IN (20, 70)"],
        4: ["UPDATE orders SET id = 1 WHERE id = 60", "UPDATE orders SET id = 99 WHERE id = 10"],
        5: ["DELETE FROM orders WHERE id = 90", "INSERT INTO orders VALUES (90, 'again', 1)"],
    }
    kept, replica = poller(orders, start_from="snapshot", batch_size=2), Writing(orders, writes)
    drained(kept, replica)
    same(orders, replica)
    assert not writes
    kept.close()


def test_the_first_change_may_come_right_before_a_chunk(orders: Captured) -> None:
    """The change table was empty when it was looked at; what the chunk shows is of later."""
    kept, replica = poller(orders, start_from="snapshot", read_ahead=0), Replica()
    writes = ["UPDATE orders SET note = 'b' WHERE id = 20"]

    def write(*asked: Any) -> None:
        if "row_number()" in asked[2] and writes:
            orders.run(writes.pop())

    sa.event.listen(sa.Engine, "before_cursor_execute", write)
    try:
        drained(kept, replica)
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", write)
    same(orders, replica)
    assert not writes
    kept.close()


@pytest.mark.parametrize("family", ["postgresql", "mariadb"])
def test_a_row_of_an_open_transaction_is_left_out_of_its_chunk(
    family: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its change has a lower number than one that is there when the chunk is read, which does not see it."""
    monkeypatch.setattr(snapshots, "PATIENCE", 0.0)
    made = filled(Captured(request.getfixturevalue(FIXTURES[family])))
    store, replica = MemoryStore(), Replica()
    kept = poller(made, store, start_from="snapshot", max_batches_per_tick=1)
    while not replica.ops:
        kept.tick(replica)
    kept.close()
    kept = poller(made, store, start_from="snapshot")
    with made.engine.connect() as other:
        other.exec_driver_sql("BEGIN" if family == "postgresql" else "START TRANSACTION")
        other.exec_driver_sql("UPDATE orders SET note = 'late' WHERE id = 20")
        made.run("UPDATE orders SET note = 'early' WHERE id = 30")
        kept.tick(replica)
        assert replica.ops == ["B"]
        other.exec_driver_sql("COMMIT")
    drained(kept, replica)
    assert replica.ops == [*"BUURRRRRRRE"]
    same(made, replica)
    kept.close()
    made.close()


def test_a_table_that_is_emptied_meanwhile(postgresql: Captured) -> None:
    writes = {3: ["TRUNCATE orders", "INSERT INTO orders VALUES (15, 'new', 0), (55, 'new', 0)"]}
    kept, replica = poller(postgresql, start_from="snapshot", batch_size=3), Writing(postgresql, writes)
    drained(kept, replica)
    same(postgresql, replica)
    assert "T" in replica.ops
    kept.close()


def test_it_goes_on_where_another_process_left_it(orders: Captured) -> None:
    """Each tick has a source of its own, and delivers two batches at most."""
    store, replica, ticks = MemoryStore(), Replica(), 0
    while "E" not in replica.ops:
        kept = poller(orders, store, start_from="snapshot", batch_size=2, max_batches_per_tick=2)
        kept.tick(replica)
        kept.close()
        orders.run(f"UPDATE orders SET note = 'b{ticks}' WHERE id IN (20, {80 - 10 * ticks})")
        ticks += 1
    assert ticks > 3
    kept = poller(orders, store, start_from="snapshot")
    drained(kept, replica)
    same(orders, replica)
    kept.close()


def test_a_batch_that_failed_comes_again_with_later_changes(orders: Captured) -> None:
    at_once: dict[str, Any] = {"retry_backoff": "1ms", "retry_backoff_max": "1ms"}
    kept, replica, fails = poller(orders, start_from="snapshot", batch_size=3, **at_once), Replica(), [4]

    def handle(batch: Batch) -> None:
        if any(row[OP] == "R" and row["id"] == 40 for row in batch) and fails[0]:
            fails[0] -= 1
            orders.run(f"UPDATE orders SET note = 'f{fails[0]}' WHERE id IN (30, 50)")
            raise RuntimeError("no")
        replica(batch)

    for _ in range(40):
        if kept.tick(handle).outcome == "idle":
            break
    same(orders, replica)
    kept.close()


@pytest.mark.parametrize("batch_size", [1, 3])
def test_lanes(orders: Captured, batch_size: int) -> None:
    """Rows and changes of one key are of one lane; the beginning and the end wait for all."""
    orders.run("INSERT INTO orders VALUES " + ", ".join(f"({n}, 'more', 0)" for n in range(101, 161)))
    writes = {n: [f"UPDATE orders SET note = 'w{n}' WHERE id IN ({100 + n}, {161 - n}, {10 * n})"] for n in (1, 5, 20)}
    kept, replica = poller(orders, start_from="snapshot", concurrency=3, batch_size=batch_size), Writing(orders, writes)
    drained(kept, replica)
    same(orders, replica)
    kept.close()


def test_who_holds_up_the_beginning_is_named(postgresql: Captured) -> None:
    with postgresql.engine.connect() as older:
        older.exec_driver_sql("BEGIN")
        older.exec_driver_sql("INSERT INTO orders VALUES (1, 'a', 0)")
        postgresql.run("UPDATE orders SET note = 'b' WHERE id = 20")
        pid = older.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
        kept = poller(postgresql, start_from="snapshot")
        with pytest.raises(SourceUnavailable, match=f"the present bound is not known: .*pid {pid} of postgres"):
            kept.tick(Replica())
        kept.close()


def test_a_row_in_quarantine_is_replayed_as_it_was_read(in_file: Captured) -> None:
    kept, replica, bad = poller(in_file, start_from="snapshot", on_poison="quarantine", max_attempts=1), Replica(), [20]

    def handle(batch: Batch) -> None:
        for row in batch:
            if row.get("id") in bad:
                batch.reject(row, "no")
            else:
                replica.take(row)

    result = kept.tick(handle)
    assert (result.quarantined, "E" in replica.ops) == (1, False)
    assert kept.tick(handle).outcome == "blocked"
    in_file.run("UPDATE orders SET note = 'b' WHERE id = 20")
    bad.clear()
    kept.quarantine.replay(handler=handle, all=True)
    drained(kept, handle)
    same(in_file, replica)
    kept.close()


def document(store: MemoryStore) -> dict[str, Any]:
    found = store.read("state/shop/orders.json")
    assert isinstance(found, Found)
    read: dict[str, Any] = json.loads(found.body)
    return read


def test_the_document_says_how_far_it_got(orders: Captured) -> None:
    store = MemoryStore()
    kept = poller(orders, store, start_from="snapshot", batch_size=4, max_batches_per_tick=2)
    kept.tick(Replica())
    cursor = document(store)["checkpoint"]["cursor"]
    assert [str(value) for value in cursor["snapshot"]["after"].values()] == ["40"]
    assert cursor["snapshot"]["done"] is False
    drained(kept, Replica())
    assert "snapshot" not in document(store)["checkpoint"]["cursor"]
    kept.close()


def test_the_rows_of_the_table_wait_too(orders: Captured) -> None:
    """Else a snapshot whose worker is gone looks like a poller that has delivered everything."""
    kept = poller(orders, MemoryStore(), start_from="snapshot", batch_size=4, max_batches_per_tick=1)
    assert [kept.tick(Replica()).pending for _ in range(4)] == [10, 6, 2, 1], "nine rows, and the end"
    orders.run("UPDATE orders SET note = 'b'")
    assert kept.tick(Replica()).pending == 9, "the end was delivered"
    drained(kept, Replica())
    assert kept.tick(Replica()).pending == 0
    kept.close()


def test_a_reset_begins_again_and_ends_what_vanished_in_a_gap(orders: Captured) -> None:
    store = MemoryStore()
    kept, replica = poller(orders, store, start_from="snapshot", batch_size=4), Replica()
    drained(kept, replica)
    generation = document(store)["checkpoint"]["generation"]
    orders.run("INSERT INTO poller_orders_changes (op) VALUES ('X')")
    with pytest.raises(CaptureGap, match="--to snapshot"):
        kept.tick(replica)
    replica.rows[77] = {"id": 77, "note": "vanished", "customer": 0}
    kept.reset("snapshot")
    assert document(store)["checkpoint"]["generation"] == generation + 1
    replica.ops.clear()
    drained(kept, replica)
    same(orders, replica)
    kept.close()


def test_rows_have_the_reserved_columns(orders: Captured) -> None:
    kept, seen = poller(orders, start_from="snapshot"), list[dict[str, Any]]()
    kept.tick(lambda batch: seen.extend(dict(row) for row in batch))
    first, row = seen[0], seen[1]
    assert [first[name] for name in (OP, "id", "note", OLD)] == ["B", None, None, None]
    assert (row[OP], row[OLD], row[CHANGE]) == ("R", None, first[CHANGE])
    assert {one[AT].utcoffset().total_seconds() for one in seen} == {0.0}
    kept.close()


def test_changes_that_were_pruned_before_the_chunk_was_compared(
    in_file: Captured,
) -> None:
    """The chunk is read again: what it may have seen in part is not known any more."""
    of, made = source(in_file, start_from="snapshot"), in_file
    begin = of.start()
    first = of.page(begin, 10)
    made.run("UPDATE orders SET note = 'b' WHERE id = 20")
    page = of.page(first.cursors[-1], 10)
    assert [row[OP] for row in page.rows] == ["U"]
    made.run("DELETE FROM poller_orders_changes", "UPDATE poller_captures SET pruned_through = 1")
    rows = of.page(page.cursors[-1], 20).rows
    assert [(row[OP], row["id"]) for row in rows] == [("R", 10 * n) for n in range(1, 10)]
    of.close()


@pytest.mark.parametrize("fixture", FIXTURES.values())
def test_a_key_of_several_columns(fixture: str, request: pytest.FixtureRequest) -> None:
    made = Captured(request.getfixturevalue(fixture))
    made.run("CREATE TABLE orders (a varchar(9) NOT NULL, b int NOT NULL, note text, PRIMARY KEY (a, b))")
    rows = [(a, b) for a in ("", "a", "a'b", "b:c", "z") for b in (-1, 2, 30)]
    made.run(
        "INSERT INTO orders VALUES " + ", ".join("('{}', {}, 'x')".format(a.replace("'", "''"), b) for a, b in rows)
    )
    made.install()
    kept, seen = poller(made, start_from="snapshot", batch_size=2), list[tuple[str, int]]()
    drained(kept, lambda batch: seen.extend((row["a"], row["b"]) for row in batch if row[OP] == "R"))
    assert sorted(seen) == sorted(rows)
    kept.close()
    made.close()


def test_a_key_that_no_snapshot_can_follow_is_refused(mariadb_db: str) -> None:
    made = Captured(mariadb_db)
    made.run("CREATE TABLE orders (kind enum('z', 'a') PRIMARY KEY)", "INSERT INTO orders VALUES ('a'), ('z')")
    made.install()
    kept = poller(made, start_from="snapshot")
    with pytest.raises(Exception, match="kind is of the type enum") as refused:
        drained(kept, lambda batch: None)
    assert "start_from" in str(refused.value)
    kept.close()
    made.close()


def test_a_table_that_is_not_captured_has_none() -> None:
    with pytest.raises(ConfigError, match="needs capture"):
        SqlSource("sqlite://", table="orders", cursor_column="id", pk_columns=["id"], start_from="snapshot")


def test_a_source_without_one_refuses_the_reset(sqlite_url: str) -> None:
    engine = sa.create_engine(sqlite_url)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE orders (id INTEGER PRIMARY KEY AUTOINCREMENT)")
    rows = SqlSource(sqlite_url, table="orders", cursor_column="id", cursor_kind="integer+pk", pk_columns=["id"])
    kept = Poller("orders", source=rows, store=MemoryStore(), app_name="shop", observers=[])
    kept.tick(lambda batch: None)
    with pytest.raises(Exception, match="has no snapshot"):
        kept.reset("snapshot")
    kept.close()
    engine.dispose()


@pytest.mark.parametrize("orders", ["postgresql", "mariadb"], indirect=True)
def test_a_quick_look_knows_that_rows_of_the_table_wait(orders: Captured) -> None:
    store, looks = MemoryStore(), QuickLooks()
    kept = poller(orders, store, start_from="snapshot", batch_size=4, max_batches_per_tick=1)

    def state() -> State:
        found = store.read("state/shop/orders.json")
        assert isinstance(found, Found)
        return decode(found.body, location="orders")

    looks.looked("orders", 0)
    kept.tick(Replica())
    assert looks.nothing_waits(kept, state()) is None
    drained(kept, Replica())
    assert looks.nothing_waits(kept, state()) == 0
    kept.close()


def test_a_dispatcher_knows_that_a_snapshot_is_not_at_its_end(orders: Captured) -> None:
    """Its worker was killed before or within it, and nothing is written: no change says that rows wait."""
    store, replica, prober = MemoryStore(), Replica(), DatabaseProber(SystemRuntime())
    kept = poller(orders, store, start_from="snapshot", batch_size=4, max_batches_per_tick=1)

    def killed(_: Batch) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kept.tick(killed)
    for ended in (False, False, False, False, False, True):
        found = store.read("state/shop/orders.json")
        assert isinstance(found, Found)
        question = Question("orders", kept.source, decode(found.body, location="orders"))
        assert (replica.ops[-1:] == ["E"]) is ended
        assert prober.ask([question]) == {"orders": "none" if ended else "rows"}, replica.ops
        kept.tick(replica)
    kept.reset("beginning")
    found = store.read("state/shop/orders.json")
    assert isinstance(found, Found)
    begun = Question("orders", kept.source, decode(found.body, location="orders"))
    assert prober.ask([begun]) == {"orders": "none"}, "at the first change, of which there is none"
    prober.close()
    kept.close()
