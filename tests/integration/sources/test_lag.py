"""The lag after an empty page: counted with the rows that have no cursor, in one statement, and never for another
question."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

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


def test_a_lag_comes_with_an_empty_page_and_serves_it_alone(
    nullable: tuple[str, SqlSource, list[str]],
) -> None:
    url, source, ran = nullable
    first, after = source.span(None, None, 10).cursors
    ran.clear()
    assert source.page(after, 10).lag is None
    assert not [sql for sql in ran if "poller_many" in sql], "who does not ask gets none"
    ran.clear()
    page = source.page(after, 10, lag_cap=CAP)
    assert (list(page.rows), page.lag) == ([], Lag(0.0, 0))
    assert len([sql for sql in ran if "poller_many" in sql and "poller_counted" in sql]) == 1
    assert not [sql for sql in ran if "poller_counted" in sql and "poller_many" not in sql]
    add_orders(url, ["2026-01-05 10:00:02", "2026-01-05 10:00:03"], first=3)
    assert source.lag(first, cap=CAP).pending == 3
    assert source.lag(after, cap=1).pending_capped
    page = source.page(after, 10, lag_cap=CAP)
    assert (len(page.rows), page.lag) == (2, None)
    assert source.lag(after, cap=CAP).pending == 2
