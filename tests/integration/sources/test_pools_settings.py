"""A function that a query, a filter or a view calls may change settings of its session: no other source notices."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from poller.sources import NoAnswer, RowProbe, SqlSource
from tests.integration.sources.tables import closing, execute, family, make_orders, orders
from tests.support.cases import each

NINE = [f"2026-01-01 00:00:{second:02}" for second in range(9)]
FUNCTION = {
    "postgresql": "create function changed() returns integer language plpgsql as $$ begin"
    " perform set_config('search_path', 'other, public', false), set_config('TimeZone', 'Asia/Tokyo', false),"
    " set_config('app.tenant', 'a', false), set_config('default_transaction_read_only', 'off', false),"
    " pg_advisory_lock(7); return 1; end $$",
    "mysql": "create function changed() returns integer deterministic begin"
    " set time_zone = '+05\\:00'; set session transaction read write; set sql_select_limit = 1; return 1; end",
}
SEEN = {
    "postgresql": "select current_setting('search_path'), current_setting('TimeZone'),"
    " coalesce(current_setting('app.tenant', true), ''), current_setting('default_transaction_read_only'),"
    " current_setting('statement_timeout'), (select count(*) from pg_locks where locktype = 'advisory')",
    "mysql": "select @@time_zone, @@tx_read_only, @@sql_select_limit, @@max_statement_time",
}
WAYS: dict[str, dict[str, Any]] = {
    "query": {"table": None, "query": "select * from orders where changed() = 1"},
    "filter": {"filter": "changed() = 1"},
    "view": {"table": "changing"},
}


@pytest.fixture(params=["postgres_db", "mariadb_db"])
def url(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(request.param)
    make_orders(found, NINE)
    execute(found, FUNCTION[family(found)], "create view changing as select * from orders where changed() = 1")
    return found


def seen(source: SqlSource) -> tuple[object, ...]:
    """The settings under which a source reads."""
    database = source._session.database
    name = family(str(database.engine.url))
    return tuple(map(str, source._guard(lambda: database.run(SEEN[name]).rows[0])))


@each("way", WAYS)
@each("limit", [4, 20])
def test_what_a_function_sets_ends_with_its_source(url: str, way: str, limit: int) -> None:
    """After a full page its connection is kept for it; the next source then has another one."""
    with closing(orders(url, connections=1)) as plain, closing(orders(url, connections=1, **WAYS[way])) as changing:
        before = seen(plain)
        for _ in range(2):
            assert changing.page(None, limit).rows
            assert seen(plain) == before
            assert len(plain.page(None, 20).rows) == 9


@each(("condition", "reset"), [("lower('A') = 'a'", False), ("pg_backend_pid() > 0", True)])
def test_only_functions_that_nobody_knows_cost_a_reset(postgres_db: str, condition: str, reset: bool) -> None:
    make_orders(postgres_db, NINE)
    with closing(orders(postgres_db, filter=condition)) as source:
        assert source._session.database.may_set is reset
        assert len(source.page(None, 20).rows) == 9


@each("way", WAYS)
def test_what_a_probed_source_sets_hides_no_other_row(url: str, way: str) -> None:
    """A dispatcher asks all sources of a database over one connection."""
    with closing(orders(url)) as plain, closing(orders(url, **WAYS[way])) as changing:
        lookout = RowProbe(plain.subject, timedelta(seconds=30), timedelta(seconds=30))
        try:
            first = lookout.prepare(plain.subject, None, None)
            assert first is not None
            before = tuple(map(str, lookout._database.run(SEEN[family(url)]).rows[0]))
            second = lookout.prepare(changing.subject, None, None)
            assert second is not None
            assert lookout.waits(second, None, None)
            assert tuple(map(str, lookout._database.run(SEEN[family(url)]).rows[0])) == before
            assert lookout.waits(first, None, None)
        finally:
            lookout.close()


def test_nor_does_what_a_refused_query_sets(url: str) -> None:
    """Its rows are checked in the connection, since no constraint proves its key, and refused."""
    query = "select id, updated_at, 1 as one from orders where changed() = 1"
    refused = orders(url, table=None, query=query, pk_columns=["one"])
    with closing(orders(url)) as plain, closing(refused) as changing:
        lookout = RowProbe(plain.subject, timedelta(seconds=30), timedelta(seconds=30))
        try:
            first = lookout.prepare(plain.subject, None, None)
            assert first is not None
            before = tuple(map(str, lookout._database.run(SEEN[family(url)]).rows[0]))
            with pytest.raises(NoAnswer):
                lookout.prepare(changing.subject, None, None)
            assert tuple(map(str, lookout._database.run(SEEN[family(url)]).rows[0])) == before
            assert lookout.waits(first, None, None)
        finally:
            lookout.close()
