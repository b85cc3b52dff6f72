"""Looking at one poller from Python: `Poller.status()`, `.peek()`, `.history()` and `.check()`."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from poller import Batch, FingerprintMismatch, LeaseHeld, Poller, SourceUnavailable, StoreUnavailable
from poller.model.finding import Finding
from poller.ports import Found, StateStore, Timeout
from poller.sources import SqlSource
from poller.stores import MemoryStore


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database, database:
        for table in ("orders", "returns"):
            database.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY NOT NULL, updated_at TEXT NOT NULL)")
            database.executemany(
                f"INSERT INTO {table} VALUES (?, ?)",
                [(n, f"2026-01-01 00:00:0{n}") for n in range(3)],
            )
    return tmp_path / "shop.db"


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def orders(database: Path, store: StateStore, table: str = "orders") -> Poller:
    source = SqlSource(
        f"sqlite:///{database}", table=table, cursor_column="updated_at", cursor_time_zone="UTC", pk_columns=["id"]
    )
    return Poller("orders", source=source, store=store, app_name="shop", observers=[])


def ignore(batch: Batch) -> None:
    """Takes everything."""


def findings_of(poller: Poller) -> dict[str, Finding]:
    return {one.check: one for one in poller.check()}


class AwayStore(MemoryStore):
    """A store that does not answer."""

    def read(self, name: str, *, unless: str | None = None, timeout: Timeout | None = None) -> Found:
        raise StoreUnavailable("The store does not answer.")


@pytest.mark.guarantee(
    "One worker at a time",
    "Looking at a poller takes no lease, writes nothing, and disturbs no batch in hand",
)
def test_the_status_follows_the_checkpoint_and_changes_nothing(shop: Path, store: MemoryStore) -> None:
    with orders(shop, store) as poller:
        before = poller.status()
        assert list(store.names("")) == []
        poller.tick(ignore)
        after = poller.status()

    assert (before.exists, before.cursor, before.pending, before.lease.live) == (False, None, 3, False)
    assert (after.exists, after.pending, after.attempts, after.lease.owner_id) == (True, 0, 0, None)
    assert after.cursor is not None
    assert after.cursor.tiebreaker == {"id": 2}
    assert (after.error, after.failure) == (None, None)


def test_the_next_rows_and_what_was_done_are_read_without_a_lease(shop: Path, store: MemoryStore) -> None:
    with orders(shop, store) as poller:
        assert [row["id"] for row in poller.peek(2).rows] == [0, 1]
        assert list(store.names("")) == []
        assert poller.history().records == []
        poller.tick(ignore)
        token = poller.status().lease.fencing_token
        poller.pause(reason="deploy", by="operator")
        peeked, (created, record) = poller.peek(), poller.history().records
        assert poller.status().lease.fencing_token == token

    assert (list(peeked.rows), peeked.lag is not None and peeked.lag.pending) == ([], 0)
    assert peeked.cursor is not None
    assert peeked.cursor.tiebreaker == {"id": 2}
    assert (created.kind, created.reason) == ("created", None)
    assert (record.kind, record.by, record.reason) == ("pause", "operator", "deploy")


def test_a_status_says_what_was_found_before_the_database_failed(shop: Path, store: MemoryStore) -> None:
    with orders(shop, store) as poller:
        poller.tick(ignore)
    shop.unlink()

    with orders(shop, store) as poller:
        status = poller.status()

    assert status.cursor is not None
    assert status.pending is None
    assert isinstance(status.failure, SourceUnavailable)
    assert status.error == str(status.failure)
    assert '"failure"' not in status.model_dump_json()


def test_a_store_that_is_away_is_a_status_and_a_finding(shop: Path) -> None:
    with orders(shop, AwayStore()) as poller:
        status, findings = poller.status(), findings_of(poller)

    assert isinstance(status.failure, StoreUnavailable)
    assert (status.exists, status.lease.live) == (None, None)
    assert findings["storage"].severity == "error"
    assert findings["key"].severity == "ok"


def test_a_fault_is_no_pollers_error_and_ends_no_program(shop: Path, store: MemoryStore) -> None:
    with orders(shop, store) as poller:
        poller.source.lag = lambda *_, **__: 1 / 0  # type: ignore[method-assign, assignment]
        status = poller.status()

    assert isinstance(status.failure, ZeroDivisionError)
    assert "This is a fault in poller" in (status.error or "")


def test_a_checkpoint_of_another_table_is_named_by_both(shop: Path, store: MemoryStore) -> None:
    with orders(shop, store) as poller:
        poller.tick(ignore)

    with orders(shop, store, table="returns") as other:
        status, findings = other.status(), findings_of(other)

    assert isinstance(status.failure, FingerprintMismatch)
    assert [one.field for one in status.failure.differences] == ["table"]
    assert findings["fingerprint"].severity == "error"
    assert "index" not in findings  # the other table was not asked about


def test_a_check_finds_what_is_missing_and_writes_nothing(shop: Path, store: MemoryStore) -> None:
    with orders(shop, store) as poller:
        findings = findings_of(poller)

    assert findings["handler"].severity == "warn"
    assert findings["storage"].fix == '[state] store = "sql", "blob", "table" or "s3"'
    assert "CREATE INDEX" in findings["index"].fix
    assert list(store.names("")) == []


def test_a_host_that_ends_a_tick_early_is_found_beside_the_program(
    shop: Path, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shop.parent / "host.json").write_text('{"functionTimeout": "00:00:10"}')
    monkeypatch.chdir(shop.parent)

    with orders(shop, store) as poller:
        assert findings_of(poller)["host"].severity == "error"


def test_a_poller_at_work_is_seen_through_another_connection(shop: Path, store: MemoryStore) -> None:
    poller = orders(shop, store)
    refused: list[str] = []

    def look(_: Batch) -> None:
        for looking in (poller.status, poller.check):
            with pytest.raises(LeaseHeld, match="still runs in this process") as raised:
                looking()
            refused.append(type(raised.value).__name__)
        with orders(shop, store) as other:
            refused.append(str(other.status().lease.live))

    with poller:
        assert poller.tick(look).outcome == "delivered"
        assert refused == ["LeaseHeld", "LeaseHeld", "True"]
        assert poller.status().pending == 0
