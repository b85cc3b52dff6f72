"""How many requests a tick sends to Table Storage, which has no conditional GET (protocol 4 and 7)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

import pytest
import sqlalchemy as sa

from poller import Poller
from poller.lease import state_file
from poller.sources import SqlSource
from tests.support.azurite import Azurite

pytest.importorskip("azure.data.tables", reason="needs the extra table")


@dataclass
class Counted:
    """A poller, and the requests of its ticks."""

    azurite: Azurite
    poller: Poller
    database: sa.Engine

    def add(self, count: int) -> None:
        rows = [{"id": n, "at": f"2026-04-01T00:00:{n // 10:02d}.000000"} for n in range(count)]
        with self.database.begin() as connection:
            connection.execute(sa.text("INSERT INTO orders VALUES (:id, :at)"), rows)

    def tick(self) -> tuple[str, Counter[str]]:
        mark = self.azurite.mark(tables=True)
        outcome = self.poller.tick(lambda batch: None).outcome
        return outcome, Counter(one.method for one in self.azurite.requests(mark, tables=True))


@pytest.fixture
def counted(azurite: Azurite, sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    """After its first tick, which creates table and document; ten rows a batch. No release counts as late."""
    from poller.stores import TableStore

    monkeypatch.setattr(state_file, "STALE", 60.0)
    database = sa.create_engine(sqlite_url)
    with database.begin() as connection:
        connection.execute(sa.text("CREATE TABLE orders (id INTEGER PRIMARY KEY, updated_at TEXT NOT NULL)"))
    source = SqlSource(
        sqlite_url,
        table="orders",
        cursor_column="updated_at",
        cursor_time_zone="UTC",
        pk_columns=["id"],
        bound="none",
    )
    store = TableStore.from_connection_string(azurite.connection_string_with_tables, azurite.table_name())
    with closing(Poller("orders", app_name="shop", source=source, store=store, batch_size=10)) as poller:
        made = Counted(azurite, poller, database)
        assert made.tick()[0] == "idle"
        yield made
    database.dispose()


def test_on_tables_an_idle_tick_is_one_get_and_no_write(counted: Counted) -> None:
    assert counted.tick() == ("idle", {"GET": 1})


def test_on_tables_ten_batches_are_one_get_and_eleven_puts(counted: Counted) -> None:
    counted.add(100)
    assert counted.tick() == ("delivered", {"GET": 1, "PUT": 11})
