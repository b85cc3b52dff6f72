"""A filter that few rows pass: an idle tick looks at the others once, and `check` says what spares it that."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from poller.model.finding import Finding
from poller.sources import SqlSource
from poller.sources.user_sql import indexable
from tests.integration.sources.tables import TIMESTAMP, closing, execute, family, orders

ROWS = 3_000
FAILED = {"filter": "status = 'failed'", "bound": "delay", "settle": "0s"}


@pytest.fixture
def filled(any_db: str) -> str:
    """Rows of which the fifth alone has failed, indexed by cursor and key."""
    start = datetime(2026, 1, 1)
    rows = [
        {"id": n, "at": f"{start + timedelta(seconds=n):%Y-%m-%d %H:%M:%S.%f}", "s": "failed" if n == 5 else "done"}
        for n in range(1, ROWS + 1)
    ]
    execute(
        any_db,
        f"create table orders (id integer primary key, updated_at {TIMESTAMP[family(any_db)]} not null,"
        " status varchar(20) not null)",
        "create index orders_cursor on orders (updated_at, id)",
        "insert into orders values (:id, :at, :s)",
        rows=rows,
    )
    execute(any_db, "analyze table orders" if family(any_db) == "mysql" else "analyze")
    return any_db


def finding(source: SqlSource, check: str) -> Finding:
    (found,) = [f for f in source.checkup(None, lambda: datetime.now(UTC)).findings if f.check == check]
    return found


@pytest.mark.guarantee(
    "Rows that commit late",
    "If every page reads rows that a filter leaves out, `check` says so, with the index that avoids it, and the lag "
    "does not read them again",
)
def test_check_proposes_what_spares_the_rows_of_a_filter(filled: str) -> None:
    """None for a filter that most rows pass; for one that few or no rows pass an index that then serves it."""
    with closing(orders(filled, **FAILED | {"filter": "status <> 'failed'"})) as source:
        assert finding(source, "filter").severity == "ok"
    with closing(orders(filled, bound="delay")) as source:
        assert "filter" not in [f.check for f in source.checkup(None, lambda: datetime.now(UTC)).findings]
    with closing(orders(filled, **FAILED | {"filter": "status in ('lost', 'gone')"})) as source:
        found = finding(source, "filter")
    assert found.severity == "warn"
    if family(filled) == "mysql":
        assert "GENERATED" in found.fix
        with closing(orders(filled, **FAILED | {"filter": "status = 'lost' and rand() < 2"})) as source:
            assert "GENERATED" not in finding(source, "filter").fix, "it may not be made of chance"
    else:
        assert found.fix.endswith("WHERE status in ('lost', 'gone');")
    with closing(orders(filled, **FAILED)) as source:
        plan = finding(source, "plan")
        assert "any plan will do" not in plan.message
        found = finding(source, "filter")
        assert plan.severity == "ok" or plan.fix == found.fix
        assert found.severity == "warn"
        assert re.search(r"every page reads (1,000 or more|2,99\d) rows after the last one", found.message)
    execute(filled, found.fix.rstrip(";"))
    with closing(orders(filled, **FAILED)) as source:
        assert finding(source, "filter").severity == "ok"
        assert [row["id"] for row in source.page(None, 5).rows] == [5]
    execute(filled, "drop index orders_cursor" + (" on orders" if family(filled) == "mysql" else ""))
    for status in ("failed", "done"):
        with closing(orders(filled, **FAILED | {"filter": f"(status = '{status}')"})) as source:
            found = finding(source, "index")
        serves = status == "failed" or family(filled) == "mysql"
        assert found.severity == ("ok" if serves else "warn"), found


@pytest.mark.parametrize("text", ["updated_at < now()", "id in (select 5)", "lower(status) = 'failed'"])
def test_no_partial_index_is_proposed_that_could_not_be_made(text: str) -> None:
    assert indexable("status = 'a' and (total > 5 or not note is null)", "postgresql")
    assert not indexable(text, "postgresql")


def _reads(source: SqlSource) -> int:
    rows: Any = source._session.database.connection().execute(sa.text("show status like 'Handler_read%'"))
    return sum(int(row[1]) for row in rows)


def test_an_idle_ticks_lag_repeats_no_scan_of_its_page(mariadb_db: str) -> None:
    execute(
        mariadb_db,
        "create table orders (id integer primary key, updated_at datetime(6) not null, status varchar(20) not null)",
        "create index orders_cursor on orders (updated_at, id)",
        "insert into orders select seq, timestamp '2026-01-01 00:00:00' + interval seq second,"
        " if(seq = 5, 'failed', 'done') from seq_1_to_3000",
    )
    with closing(orders(mariadb_db, **FAILED)) as source:
        after = source.page(None, 10).cursors[-1]
        before = _reads(source)
        assert source.page(after, 10).rows == []
        scanned = _reads(source)
        assert scanned - before > ROWS - 10
        assert source.lag(after, cap=100).pending == 0
        assert _reads(source) - scanned < 100


def test_the_lag_after_a_page_counts_what_the_bound_holds_back(filled: str) -> None:
    ahead = f"{datetime.now(UTC) + timedelta(days=1):%Y-%m-%d %H:%M:%S.%f}"
    with closing(orders(filled, **FAILED)) as source:
        after = source.page(None, 10).cursors[-1]
        assert list(source.page(after, 10).rows) == []
        execute(filled, f"insert into orders values (9001, '{ahead}', 'failed')".replace(":", "\\:"))
        assert source.lag(after, cap=10).pending == 1
        execute(filled, "update orders set status = 'failed' where id = 7")
        assert source.lag(after, cap=10).pending == 2  # no page before it: all is looked at
        assert [row["id"] for row in source.page(after, 10).rows] == [7]
        assert source.lag(after, cap=10).pending == 2, "the rows of a page that nobody handled are still to come"
