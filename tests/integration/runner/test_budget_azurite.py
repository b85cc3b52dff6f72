"""How many requests a tick sends, counted at the blob endpoint of a real Azurite: by a proxy before it, and by its own
log (protocol 4 and 7)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

import pytest
import sqlalchemy as sa

from poller import Batch, Poller
from poller.lease import state_file
from poller.sources import SqlSource
from poller.stores import BlobStore
from tests.resilience.faults.proxy import FaultProxy
from tests.support.azurite import Azurite, Request


@dataclass
class Counted:
    """A poller whose every request to the storage service is counted, from `forget` on."""

    azurite: Azurite
    proxy: FaultProxy
    poller: Poller
    database: sa.Engine
    container: str
    delivered: list[int]
    mark: int = 0

    def add(self, first: int, count: int) -> None:
        with self.database.begin() as connection:
            connection.execute(
                sa.text("INSERT INTO orders VALUES (:id, :at)"),
                [{"id": n, "at": f"2026-04-01T00:00:{n // 10:02d}.000000"} for n in range(first, first + count)],
            )

    def forget(self) -> None:
        self.proxy.reset()
        self.mark = self.azurite.mark()

    def tick(self) -> str:
        return self.poller.tick(lambda batch: self.delivered.extend(row["id"] for row in batch)).outcome

    def logged(self) -> list[Request]:
        return self.azurite.requests(self.mark)


@pytest.fixture
def counted(azurite: Azurite, container: str, sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    """After its first tick, which creates container and document; ten rows a batch.

    No release counts as late: the one write more that stamps it is another test's matter, and a busy machine, or
    the whole seconds of the server's times, would bring it now and then.
    """
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
    with FaultProxy("127.0.0.1", azurite.port) as proxy:
        store = BlobStore.from_connection_string(proxy.connection_string, container)
        with closing(Poller("orders", app_name="shop", source=source, store=store, batch_size=10)) as poller:
            made = Counted(azurite, proxy, poller, database, container, [])
            assert made.tick() == "idle"
            made.forget()
            yield made
    database.dispose()


@pytest.mark.guarantee("Cost", "An idle poll is one conditional GET; N batches are one GET and N + 1 PUTs")
def test_an_idle_tick_is_one_get_and_no_put(counted: Counted) -> None:
    assert counted.tick() == "idle"
    assert counted.proxy.counts() == {"GET": 1}
    assert len(counted.proxy.requests) == 1, "nor anything else: no audit, no container"
    assert [(one.method, one.status) for one in counted.logged()] == [("GET", 304)]


def test_a_tick_of_n_batches_is_one_get_and_n_plus_one_puts(counted: Counted) -> None:
    counted.add(0, 100)
    assert counted.tick() == "delivered"
    assert counted.proxy.counts() == {"GET": 1, "PUT": 11}
    assert len(counted.proxy.requests) == len(counted.logged()) == 12
    assert counted.delivered == list(range(100))
    assert [(one.method, one.status) for one in counted.logged()] == [("GET", 304), *[("PUT", 201)] * 11]
    assert all(one.request.if_match for one in counted.proxy.requests.select("PUT"))
    (get,) = counted.proxy.requests.select("GET")
    assert get.request.if_none_match


def test_the_first_look_of_a_process_is_one_request_more(counted: Counted) -> None:
    """A LIST: is there an audit trail, which shows that the document exists?"""
    store = BlobStore.from_connection_string(counted.proxy.connection_string, counted.container)
    with closing(
        Poller("orders", app_name="shop", source=counted.poller.source, store=store, batch_size=10)
    ) as another:
        batches: list[Batch] = []
        assert another.tick(batches.append).outcome == "idle"
        assert len(counted.logged()) == 2
        assert "comp=list&prefix=audit" in counted.logged()[1].query
        counted.forget()
        counted.add(0, 10)
        assert another.tick(batches.append).outcome == "delivered"
    assert counted.proxy.counts() == {"GET": 1, "PUT": 2}
    assert len(counted.logged()) == 3
