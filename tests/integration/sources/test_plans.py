"""Pages cost the same wherever they begin: the index gives the rows in order, and nothing before them is read."""

from __future__ import annotations

import re
from typing import Any

import sqlalchemy as sa

from poller.model.cursor import Cursor
from poller.sources import SqlSource
from poller.sources.checks import Explained
from tests.integration.sources.tables import closing, execute, orders
from tests.support.cases import each
from tests.support.mysql_family import numbers_to

ROWS, LIMIT = 40_000, 100
PLACES = [1, 5_000, 9_999, 10_005, 20_000, 29_000, 29_950, 39_000]
"""Before, at the edge of, deep inside and after a tie that half of the rows share."""
_SECOND = "case when n < 10000 then n when n < 30000 then 10000 else n end"


def _fill(url: str, kind: str) -> None:
    if url.startswith("postgresql"):
        rows = f"select n, timestamp '2026-01-01' + ({_SECOND}) * interval '1 s' from generate_series(1, {ROWS}) n"
    elif url.startswith("mysql"):
        rows = f"select n, '2026-01-01' + interval ({_SECOND}) second from {numbers_to(ROWS)}"
    else:
        numbers = f"with recursive s(n) as (select 1 union all select n + 1 from s where n < {ROWS})"
        rows = f"{numbers} select n, datetime('2026-01-01', ({_SECOND}) || ' seconds') from s"
    execute(
        url,
        f"create table orders (id integer not null primary key, updated_at {kind} not null, total integer)",
        f"insert into orders (id, updated_at) {rows}",
        "create index orders_cursor on orders (updated_at, id)",
        "analyze table orders" if url.startswith("mysql") else "analyze orders",
    )


def _at(url: str, number: int) -> Cursor:
    with closing(orders(url, filter=f"id = {number}")) as one:
        return one.page(None, 1).cursors[0]


def _connection(source: SqlSource) -> sa.Connection:
    return source._session.database.connection()


@each("kind", ["datetime", "datetime(6)", "timestamp"])
def test_mysql_and_mariadb_read_no_more_index_entries_than_rows(family_db: str, kind: str) -> None:
    _fill(family_db, kind)
    with closing(orders(family_db, bound="delay")) as source:
        source.page(None, 1)

        def reads() -> int:
            rows = _connection(source).execute(sa.text("show status like 'Handler_read%'"))
            return sum(int(row[1]) for row in rows)

        for number in PLACES:
            after = _at(family_db, number)
            before = reads()
            assert source.page(after, LIMIT).rows[0]["id"] == number + 1
            assert reads() - before <= LIMIT + 60, number  # also of the catalog, whether the table is the same
            before = reads()
            source.lag(after, cap=LIMIT)
            assert reads() - before <= 3 * LIMIT + 10, number


@each("kind", ["timestamptz", "timestamp(0)"])
def test_postgresql_walks_the_index_from_the_cursor_on(postgres_db: str, kind: str) -> None:
    _fill(postgres_db, kind)
    with closing(orders(postgres_db, bound="delay")) as source:
        source.page(None, 1)
        for number in PLACES:
            after = _at(postgres_db, number)
            statements = source._session.table.statements()
            (stretch,) = statements.ranges(after, "2026-06-01T00:00:00.000000Z"[: 26 + (kind == "timestamptz")])
            query, params = statements.select(stretch, LIMIT)
            explained = _connection(source).execute(Explained("explain (analyze, buffers)", query), params)
            plan = "\n".join(explained.scalars())
            assert re.search(r"Index Cond: .*ROW\(updated_at, id\) > ROW\(", plan), plan
            assert "Sort" not in plan
            assert "Rows Removed" not in plan
            buffers = re.search(r"shared (?:hit=(\d+))?(?: ?read=(\d+))?", plan)
            assert buffers is not None
            assert sum(int(n or 0) for n in buffers.groups()) < LIMIT, plan


def test_sqlite_searches_the_index_and_sorts_nothing(sqlite_url: str) -> None:
    _fill(sqlite_url, "text")
    with closing(orders(sqlite_url, bound="delay")) as source:
        source.page(None, 1)
        for number in PLACES:
            statements = source._session.table.statements()
            for stretch in statements.ranges(_at(sqlite_url, number), "2026-06-01 00:00:00"):
                query, params = statements.select(stretch, LIMIT)
                explained: list[Any] = list(_connection(source).execute(Explained("explain query plan", query), params))
                steps = [row[3] for row in explained]
                assert len(steps) == 1
                assert steps[0].startswith("SEARCH orders USING INDEX orders_cursor (updated_at")
