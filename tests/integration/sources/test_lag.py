"""The lag after an empty page: counted with the rows that have no cursor, in one statement, and never for another
question."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from poller.errors import SourceError
from poller.ports import Lag
from poller.sources import SqlSource
from tests.integration.sources.tables import TIMESTAMP, add_orders, closing, execute, family, orders

STAMPS = ["2026-01-05 10:00:00", "2026-01-05 10:00:01"]
CAP = 5


@pytest.fixture
def nullable(any_db: str) -> Iterator[tuple[str, SqlSource, list[str]]]:
    """Orders whose cursor may be NULL: the URL, a source that has read them all, and what it then runs."""
    kind = TIMESTAMP[family(any_db)] + (" null" if family(any_db) == "mysql" else "")
    execute(any_db, f"create table orders (id integer not null primary key, updated_at {kind}, status varchar(9),"
            " total integer)")  # fmt: skip
    add_orders(any_db, STAMPS, first=1)
    engine, ran = sa.create_engine(any_db, poolclass=sa.NullPool), list[str]()
    sa.event.listen(engine, "before_cursor_execute", lambda *call: ran.append(call[2]))
    with closing(orders(engine)) as source:
        source.lag(source.page(None, 10).cursors[-1], cap=CAP)
        ran.clear()
        yield any_db, source, ran


def end_of(source: SqlSource) -> Any:
    return source.span(None, None, 10).cursors[-1]


def test_an_idle_look_counts_both_in_one_statement(nullable: tuple[str, SqlSource, list[str]]) -> None:
    _, source, ran = nullable
    after = end_of(source)
    ran.clear()
    page = source.page(after, 10, lag_cap=CAP)
    assert (list(page.rows), page.lag) == ([], Lag(0.0, 0))
    assert len([sql for sql in ran if "poller_many" in sql and "poller_counted" in sql]) == 1
    assert not [sql for sql in ran if "poller_counted" in sql and "poller_many" not in sql]


def test_a_row_without_a_cursor_still_stops_an_empty_page(nullable: tuple[str, SqlSource, list[str]]) -> None:
    url, source, _ = nullable
    after = end_of(source)
    execute(url, "insert into orders (id, total) values (7, 1)")
    with pytest.raises(SourceError, match=r"1 row has no updated_at \(NULL\)"):
        source.page(after, 10)
    execute(url, "delete from orders where id = 7")
    assert source.lag(after, cap=CAP).pending == 0


def test_rows_that_wait_are_counted_with_them(nullable: tuple[str, SqlSource, list[str]]) -> None:
    """Rows above the bound."""
    url, _, _ = nullable
    with closing(orders(url, bound="delay", settle="1h")) as source:
        after = source.span(None, None, 10).cursors[-1]
        source.lag(after, cap=CAP)
        execute(url, "update orders set updated_at = '9000-01-01 00:00:00' where id = 2")
        first = source.span(None, None, 1).cursors[0]
        assert source.page(first, 10).rows == []
        assert source.lag(first, cap=CAP).pending == 1
        assert source.lag(first, cap=CAP).seconds == 0.0


def test_a_lag_that_no_page_said_is_counted_anew(nullable: tuple[str, SqlSource, list[str]]) -> None:
    url, source, _ = nullable
    first, after = source.span(None, None, 10).cursors
    page = source.page(after, 10, lag_cap=CAP)
    assert (list(page.rows), page.lag) == ([], Lag(0.0, 0))
    add_orders(url, ["2026-01-05 10:00:02", "2026-01-05 10:00:03"], first=3)
    assert source.lag(first, cap=CAP).pending == 3
    assert source.lag(after, cap=1).pending_capped
    page = source.page(after, 10, lag_cap=CAP)
    assert (len(page.rows), page.lag) == (2, None)
    assert source.lag(after, cap=CAP).pending == 2


def test_who_does_not_ask_gets_no_lag_with_a_page(nullable: tuple[str, SqlSource, list[str]]) -> None:
    _, source, ran = nullable
    after = end_of(source)
    ran.clear()
    assert source.page(after, 10).lag is None
    assert not [sql for sql in ran if "poller_many" in sql]
