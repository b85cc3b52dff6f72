"""Prepared transactions are asked for by a statement of its own, and only where the server allows any."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from tests.integration.sources.tables import closing, make_orders, orders
from tests.support.bounds import reading_as
from tests.support.cases import each
from tests.support.postgres import PostgresServer

BOUNDS = ("exact", "observed", "observed-strict")


@pytest.fixture(scope="module")
def without_prepared() -> Iterator[str]:
    """A database of a server as it is by default, with orders: `max_prepared_transactions = 0`."""
    with PostgresServer.start({"max_prepared_transactions": "0"}) as server:
        database = server.new_database()
        make_orders(database, ["2026-01-05 10:00:00"])
        yield database


def statements(url: str, kind: str) -> list[str]:
    """What a page runs once the source is set up."""
    reads, bound = reading_as(kind, url)
    engine, seen = sa.create_engine(reads, poolclass=sa.NullPool), list[str]()
    sa.event.listen(engine, "before_cursor_execute", lambda _c, _cursor, sql, *_: seen.append(sql))
    with closing(orders(engine, bound=bound)) as source:
        source.page(None, 1)
        seen.clear()
        assert source.page(None, 1).bound.kind == kind
    return seen


@each("bound", BOUNDS)
def test_none_are_asked_for_where_there_can_be_none(without_prepared: str, bound: str) -> None:
    seen = statements(without_prepared, bound)
    assert not [sql for sql in seen if "pg_prepared_xacts" in sql]
    if bound == "exact":
        assert len(seen) == 2, "a sample and a page"


@each("bound", BOUNDS)
def test_they_are_asked_for_at_every_sample_elsewhere(postgres_db: str, bound: str) -> None:
    make_orders(postgres_db, ["2026-01-05 10:00:00"])
    assert len([sql for sql in statements(postgres_db, bound) if "pg_prepared_xacts" in sql]) == 1
