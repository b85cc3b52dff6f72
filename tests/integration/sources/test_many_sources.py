"""Hundreds of pollers of one process against one server: never more than a few connections, and every row."""

from __future__ import annotations

import threading
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from poller import Batch, Poller
from poller.sources import SqlSource
from poller.stores import MemoryStore
from tests.integration.sources.tables import execute
from tests.support.postgres import PostgresServer
from tests.support.services import wait_until

MANY = 300
ROWS = 7
AT_MOST = 4
MEMORY = 200_000
"""Bytes: what one more poller may take that has ticked."""


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """As it comes: at most 100 connections."""
    server = PostgresServer.start({"max_connections": "100"})
    try:
        yield server
    finally:
        server.stop()


def filled(server: PostgresServer) -> str:
    url = server.new_database()
    execute(
        url,
        "create table orders (id integer primary key, updated_at timestamptz not null default clock_timestamp(),"
        " shop integer not null)",
        "create index on orders (shop, updated_at, id)",
        f"insert into orders (id, shop) select n, n % {MANY} from generate_series(1, {ROWS * MANY}) n",
    )
    return url


def poller_of(url: str, shop: int, store: MemoryStore) -> Poller:
    source = SqlSource(
        url,
        table="orders",
        cursor_column="updated_at",
        pk_columns=["id"],
        filter=f"shop = {shop}",
        settle="0s",
        query_timeout=f"{30 + shop % 3}s",
    )
    return Poller(f"shop-{shop}", source=source, store=store, app_name="many", batch_size=3)


@pytest.mark.guarantee(
    "Rows that commit late",
    "Hundreds of pollers of one process need a few connections to a database, and each reads as if it had its own",
)
@pytest.mark.soak
def test_300_pollers_with_slow_handlers_need_4_connections(server: PostgresServer) -> None:
    """All handlers run at once; in the middle of it the server restarts."""
    url, store = filled(server), MemoryStore()
    seen: list[tuple[str, int]] = []
    most, over = [0], threading.Event()
    counts = "select count(*) from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()"

    def handle(batch: Batch) -> None:
        seen.extend((batch.poller_name, row["id"]) for row in batch.rows)
        over.wait(0.2)

    def watch() -> None:
        while not over.wait(0.05):
            most[0] = max(most[0], int(str(server.execute(counts)[0][0])))

    with ExitStack() as stack:
        pollers = [stack.enter_context(poller_of(url, shop, store)) for shop in range(MANY)]
        watcher = threading.Thread(target=watch)
        with ThreadPoolExecutor(MANY) as threads:
            watcher.start()
            results = list(threads.map(lambda one: one.tick(handle), pollers))
            over.set()
            watcher.join()
            assert {result.outcome for result in results} == {"delivered"}
            server.restart()
            execute(url, f"insert into orders (id, shop) select n + 100000, n from generate_series(0, {MANY - 1}) n")
            results = list(threads.map(lambda one: one.tick(handle), pollers))
        assert sum(result.rows for result in results) == MANY
    assert len(seen) == len(set(seen)) == MANY * (ROWS + 1)
    assert 0 < most[0] <= AT_MOST
    wait_until(lambda: server.execute(counts) == [(0,)], "the end of all sessions")


@pytest.mark.prove
@pytest.mark.timeout(600)
def test_one_more_poller_that_has_ticked_is_small(server: PostgresServer) -> None:
    url, store = filled(server), MemoryStore()
    with ExitStack() as stack:
        first = stack.enter_context(poller_of(url, 0, store))
        first.tick(lambda _: None)
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            for shop in range(1, MANY):
                stack.enter_context(poller_of(url, shop, store)).tick(lambda _: None)
            each = (tracemalloc.get_traced_memory()[0] - before) / (MANY - 1)
        finally:
            tracemalloc.stop()
    assert each < MEMORY, f"{each:.0f} bytes"
