"""Where nothing waited a moment ago, the count that makes the lag says that there is no page; a row that is there is
never taken for none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import OperationalError

from poller.errors import SourceError
from poller.sources import SqlSource
from poller.sources.faults import Fault
from poller.sources.lag import PAGE_EVERY
from tests.integration.sources.tables import TIMESTAMP, add_orders, closing, execute, family, orders

CAP = 5


class Idle:
    """A source that has read all rows, and has looked once since."""

    def __init__(self, url: str, source: SqlSource, ran: list[str]) -> None:
        self.url = url
        self.source = source
        self.after = source.page(None, 10).cursors[-1]
        self._ran = ran
        assert self.look() == []

    def look(self) -> list[int]:
        """What a tick asks."""
        self._ran.clear()
        page = self.source.page(self.after, 10, lag_cap=CAP)
        if not page.rows and page.lag is None:
            self.source.lag(self.after, cap=CAP)
        return [row["id"] for row in page.rows]

    @property
    def pages(self) -> int:
        """How many statements of the last look were pages."""
        return len([sql for sql in self._ran if "ORDER BY" in sql and "count(" not in sql])


@pytest.fixture
def idle(any_db: str) -> Iterator[Idle]:
    kind = TIMESTAMP[family(any_db)] + (" null" if family(any_db) == "mysql" else "")
    execute(any_db, f"create table orders (id integer not null primary key, updated_at {kind}, status varchar(9),"
            " total integer)")  # fmt: skip
    add_orders(any_db, ["2026-01-05 10:00:00", "2026-01-05 10:00:01"], first=1)
    engine, ran = sa.create_engine(any_db, poolclass=sa.NullPool), list[str]()
    sa.event.listen(engine, "before_cursor_execute", lambda *call: ran.append(call[2]))
    with closing(orders(engine, bound="delay")) as source:
        yield Idle(any_db, source, ran)


@pytest.mark.guarantee(
    "Rows that commit late",
    "A table that was idle is still read: no row that is there is taken for none",
)
def test_an_idle_look_reads_no_page_and_finds_the_next_row(idle: Idle) -> None:
    """Also one that waited, and if no count is asked for; a row without a cursor stops it."""
    assert (idle.look(), idle.pages) == ([], 0)
    assert (idle.look(), idle.pages) == ([], 0)
    for cap in (0, None):
        assert list(idle.source.page(idle.after, 10, lag_cap=cap).rows) == []
    add_orders(idle.url, ["9000-01-01 00:00:00"], first=3)
    assert idle.look() == []
    assert idle.source.lag(idle.after, cap=CAP).pending == 1
    assert idle.look() == []
    assert idle.pages > 0
    execute(idle.url, "update orders set updated_at = '2026-01-05 10:00:02' where id = 3")
    assert idle.look() == [3]
    assert [row["id"] for row in idle.source.page(idle.after, 10, lag_cap=0).rows] == [3]
    execute(idle.url, "delete from orders where id = 3")
    assert (idle.look(), idle.look(), idle.pages) == ([], [], 0)
    add_orders(idle.url, ["2026-01-05 10:00:01"], first=3)
    assert idle.look() == [3]
    execute(idle.url, "delete from orders where id = 3")
    assert (idle.look(), idle.look()) == ([], [])
    execute(idle.url, "insert into orders (id, total) values (7, 1)")
    with pytest.raises(SourceError, match=r"1 row has no updated_at \(NULL\)"):
        idle.look()


def test_once_a_minute_a_page_is_read(idle: Idle, monkeypatch: pytest.MonkeyPatch) -> None:
    """It shows what a count does not: a column that has another type."""
    now = idle.source._session.lags.monotonic() + PAGE_EVERY
    monkeypatch.setattr(idle.source._session.lags, "monotonic", lambda: now)
    assert idle.look() == []
    assert idle.pages > 0
    assert (idle.look(), idle.pages) == ([], 0)


def never_counted(source: SqlSource, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """From now on no count of what waits ends in time; those that were tried."""
    run, counts = source._session.database.run, list[str]()

    def late(query: Any, *params: Any) -> Any:
        sql = str(query)
        if "poller_many" not in sql:
            return run(query, *params)
        counts.append(sql)
        raise OperationalError(sql, {}, Exception("interrupted"))

    monkeypatch.setattr(source._session.database, "run", late)
    monkeypatch.setattr(type(source._session.database.dialect), "classify", lambda *_: Fault.TIMEOUT)
    return counts


def test_what_cannot_be_counted_in_time_is_read(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bulk load that nobody committed yet is long to count; a page leaves it out."""
    execute(sqlite_url, "create table orders (id integer not null primary key, updated_at text, status, total)")
    add_orders(sqlite_url, ["2026-01-05 10:00:00"], first=1)
    with closing(orders(sqlite_url)) as source:
        idle = Idle(sqlite_url, source, [])
        add_orders(sqlite_url, ["2026-01-05 10:00:01"], first=2)
        counts = never_counted(source, monkeypatch)
        assert [row["id"] for row in source.page(idle.after, 10, lag_cap=CAP).rows] == [2]
        assert len(counts) == 1


def test_an_empty_page_stands_where_its_lag_is_not_counted(idle: Idle, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lag shares a statement with the look for NULLs, whose error it must not become."""
    add_orders(idle.url, ["9000-01-01 00:00:00"], first=3)
    assert idle.look() == []
    counts = never_counted(idle.source, monkeypatch)
    for _ in range(3):
        assert list(idle.source.page(idle.after, 10, lag_cap=CAP).rows) == []
    assert len(counts) == 1, "a count that takes too long is not tried again at once"


class Empty:
    """A source of a SQLite table that has no row yet, looked at twice."""

    def __init__(self, url: str, **keys: Any) -> None:
        self.url = url
        self.ran = list[str]()
        engine = sa.create_engine(url, poolclass=sa.NullPool)
        sa.event.listen(engine, "before_cursor_execute", lambda *call: self.ran.append(call[2]))
        self.source = orders(engine, **keys)
        self.look()
        self.look()

    def look(self) -> tuple[list[int], str]:
        """What a tick asks: the rows, and the kind of the bound."""
        self.ran.clear()
        page = self.source.page(None, 10, lag_cap=CAP)
        if not page.rows:
            assert (page.lag or self.source.lag(None, cap=CAP)).pending == 0
        return [row["id"] for row in page.rows], page.bound.kind


@pytest.fixture(params=["table", "query"])
def empty(request: pytest.FixtureRequest, sqlite_url: str) -> Iterator[Empty]:
    execute(sqlite_url, "create table orders (id integer not null primary key, updated_at text, status, total)")
    keys = {"query": "select * from orders"} if request.param == "query" else {}
    found = Empty(sqlite_url, **keys)
    with closing(found.source):
        yield found


def test_a_look_at_a_table_without_rows_asks_little(empty: Empty) -> None:
    assert empty.look()[0] == []
    assert len(empty.ran) <= 2, empty.ran
    add_orders(empty.url, ["2026-01-05 10:00:00"], first=1)
    assert empty.look()[0] == [1]


def test_a_table_without_rows_is_inspected_once_it_changed(empty: Empty) -> None:
    execute(empty.url, "drop table orders", "create table orders (id integer not null primary key, at text)")
    with pytest.raises(SourceError, match=r"orders|updated_at"):
        empty.look()
    execute(empty.url, "drop table orders")
    with pytest.raises(SourceError, match="orders"):
        empty.look()


def test_a_key_that_is_no_longer_unique_is_seen_before_rows(sqlite_url: str) -> None:
    execute(sqlite_url, "create table orders (id integer not null primary key, updated_at text, status, total)")
    found = Empty(sqlite_url)
    execute(sqlite_url, "drop table orders", "create table orders (id integer not null, updated_at text)")
    with closing(found.source), pytest.raises(SourceError, match="no unique index"):
        found.look()


def test_rows_without_a_cursor_alone_stop_a_look(sqlite_url: str) -> None:
    execute(sqlite_url, "create table orders (id integer not null primary key, updated_at text, status, total)")
    found = Empty(sqlite_url)
    execute(sqlite_url, "insert into orders (id) values (7)")
    with closing(found.source), pytest.raises(SourceError, match=r"1 row has no updated_at \(NULL\)"):
        found.look()
