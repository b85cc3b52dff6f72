"""PostgreSQL keeps the plans of a sample's statements, and of no others, where a connection leads to one session."""

from __future__ import annotations

import pytest

from poller.sources.postgresql import bound as postgresql_bound
from tests.integration.sources.tables import closing, execute, make_orders, orders
from tests.support.bounds import reading_as
from tests.support.cases import each

LONG_AGO = [f"2026-01-01 00:00:{second:02}" for second in range(9)]


def prepared(url: str, kind: str) -> list[str]:
    """What a source's session has prepared after a few pages."""
    make_orders(url, LONG_AGO)
    reads, bound = reading_as(kind, url)
    with closing(orders(reads, bound=bound)) as source:
        for _ in range(postgresql_bound.PLANNED_AFTER + 2):
            assert len(source.page(None, 20).rows) == 9
            source.lag(None, cap=10)
        source._session.database.connection()
        driver = source._session.database.driver_connection()
        return [str(row[0]) for row in driver.execute("select statement from pg_prepared_statements")]


@each("bound", ["exact", "observed"])
def test_samples_are_planned_once_and_pages_each_time(postgres_db: str, bound: str) -> None:
    """A plan that is kept for a user's table would not follow what is in it, and break with a new column."""
    found = prepared(postgres_db, bound)
    assert len(found) == 2
    assert all("pg_stat_activity" in one or "pg_prepared_xacts" in one for one in found)


def test_behind_a_pooler_nothing_is_prepared(postgres_db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next statement may run in a session that knows nothing of it."""
    monkeypatch.setattr(postgresql_bound, "session_of", lambda _: 1)
    assert prepared(postgres_db, "exact") == []


def test_a_table_may_change_while_its_source_is_open(postgres_db: str) -> None:
    make_orders(postgres_db, LONG_AGO)
    with closing(orders(postgres_db, bound="exact")) as source:
        for _ in range(postgresql_bound.PLANNED_AFTER + 2):
            source.page(None, 20)
        execute(postgres_db, "alter table orders add column added text")
        execute(postgres_db, "alter table orders alter column id type numeric")
        assert "added" in source.page(None, 20).rows[0]
