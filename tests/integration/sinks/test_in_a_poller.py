"""A fenced handler under a real poller: its facts come from the state document, in this process and in a child."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from poller import Batch, Poller
from poller.sinks.sql import fenced
from poller.sources import SqlSource
from poller.stores import SqlStore


def deliver(batch: Batch) -> None:
    """Importable, for a child process; the target stands in the rows."""
    engine = create_engine(batch.rows[0]["target"])
    with engine.begin() as connection, fenced(connection, batch) as fresh:
        for row in fresh:
            connection.execute(text("INSERT INTO arrived VALUES (:id)"), {"id": row["id"]})
    engine.dispose()


def ship(batch: Batch) -> None:
    """The same, and the first attempt fails after the commit."""
    deliver(batch)
    if batch.attempt == 1:
        raise RuntimeError("after the commit")


def forget(batch: Batch) -> None:
    """Leaves its transaction open."""
    engine = create_engine(batch.rows[0]["target"])
    with fenced(engine.connect(), batch):
        pass


@pytest.fixture
def orders(tmp_path: Path, isolation: str) -> Poller:
    target = f"sqlite:///{tmp_path / 'target.db'}"
    with closing(sqlite3.connect(tmp_path / "target.db")) as db:
        db.execute("CREATE TABLE arrived (id INTEGER)")
    with closing(sqlite3.connect(tmp_path / "shop.db")) as db, db:
        db.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, target TEXT, updated_at TEXT)")
        for number in (1, 2, 3):
            db.execute("INSERT INTO orders VALUES (?, ?, '2026-01-01 00:00:00')", (number, target))
    source = SqlSource(
        f"sqlite:///{tmp_path / 'shop.db'}",
        table="orders",
        cursor_column="updated_at",
        pk_columns=["id"],
        cursor_time_zone="UTC",
    )
    store = SqlStore(f"sqlite:///{tmp_path / 'state.db'}")
    return Poller("orders", source=source, store=store, app_name="shop", isolation=isolation, retry_backoff="1ms")  # type: ignore[arg-type]


def arrived(folder: Path) -> list[int]:
    with closing(sqlite3.connect(folder / "target.db")) as db:
        return [one for (one,) in db.execute("SELECT id FROM arrived ORDER BY id")]


IN_BOTH = pytest.mark.parametrize("isolation", ["thread", pytest.param("process", marks=pytest.mark.soak)])


@pytest.mark.parametrize("isolation", ["thread", "process"])
def test_a_batch_that_failed_after_its_commit_is_applied_once(orders: Poller, tmp_path: Path) -> None:
    assert orders.tick(ship).outcome == "handler_failed"
    assert arrived(tmp_path) == [1, 2, 3]
    assert orders.tick(ship).outcome == "delivered"
    assert arrived(tmp_path) == [1, 2, 3]
    with closing(sqlite3.connect(tmp_path / "target.db")) as db:
        assert db.execute("SELECT app, poller, token FROM poller_fence").fetchall() == [("shop", "orders", 2)]
    orders.close()


@IN_BOTH
def test_a_reset_has_every_row_applied_again(orders: Poller, tmp_path: Path) -> None:
    assert [orders.tick(ship).outcome for _ in range(2)] == ["handler_failed", "delivered"]
    orders.reset("beginning", by="clerk", reason="the target was emptied")
    assert [orders.tick(ship).outcome for _ in range(2)] == ["handler_failed", "delivered"]
    assert arrived(tmp_path) == [1, 1, 2, 2, 3, 3]
    orders.close()


@IN_BOTH
def test_a_transaction_left_open_fails_the_batch(orders: Poller) -> None:
    result = orders.tick(forget)
    assert (result.outcome, result.rows) == ("handler_failed", 0)
    assert result.error == "FenceNotCommitted: a fenced transaction was not committed"
    orders.close()


@IN_BOTH
def test_the_ledger_forgets_what_the_checkpoint_has_passed(orders: Poller, tmp_path: Path) -> None:
    one_by_one = Poller(
        "orders",
        source=orders.source,
        store=orders.store,
        app_name="shop",
        batch_size=1,
        isolation=orders.options.isolation,
    )
    assert one_by_one.tick(deliver).rows == 3
    with closing(sqlite3.connect(tmp_path / "target.db")) as db:
        assert db.execute("SELECT count(*) FROM poller_applied").fetchone() == (1,)
    assert arrived(tmp_path) == [1, 2, 3]
    one_by_one.close()
