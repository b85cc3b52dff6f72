"""`check --latency`: how late rows became visible on this server, and which `settle` covers that. Time is passed in."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from poller import Poller
from poller.admin.latency import CHECK, MOST_ROWS, LateWatch, enough, measure
from poller.model.finding import Finding
from poller.sources import SqlSource
from poller.stores import MemoryStore
from poller_cli.main import execute
from tests.integration.runner.clockwork import Clockwork
from tests.support.postgres import PostgresServer
from tests.support.shop_folder import write_shop

MINUTE = timedelta(seconds=60)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer.start() as started:
        yield started


class Shop:
    """A table of orders, its poller, and a clock that passes only while nothing is asked."""

    def __init__(self, url: str, kind: str = "timestamptz", **source: object) -> None:
        self.clock = Clockwork()
        self.engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
        self.execute(f"create table orders (id int primary key, at {kind} not null)")
        self.execute(f"insert into orders values (1, now()::{kind})")
        options = {"cursor_column": "at", "pk_columns": ["id"], **source}
        made = SqlSource(self.engine, table="orders", **options)  # type: ignore[arg-type]
        self.poller = Poller("orders", app_name="shop", source=made, store=MemoryStore(), runtime=self.clock)

    def execute(self, statement: str) -> None:
        with self.engine.connect() as connection:
            connection.exec_driver_sql(statement)

    def insert(self, number: int, *, late: float) -> None:
        """A row that becomes visible so many seconds after its timestamp."""
        self.execute(f"insert into orders values ({number}, clock_timestamp() - interval '{late} s')")

    def measured(self, writes: Callable[[], None]) -> Finding:
        """What is found while `writes` runs, beside a minute of looks."""
        self.clock.start(writes)
        (finding,) = measure([self.poller], self.clock, MINUTE)
        self.poller.close()
        self.engine.dispose()
        return finding


def test_the_latest_row_says_which_settle_would_do(server: PostgresServer) -> None:
    shop = Shop(server.new_database())

    def writes() -> None:
        for number in range(2, 12):
            shop.clock.sleep(2)
            shop.insert(number, late=3 if number == 7 else 0)

    found = shop.measured(writes)

    assert (found.check, found.severity, found.fix) == (CHECK, "ok", 'settle = "10s"')
    assert found.message.startswith("Of 10 rows that came within 1m the latest became visible 3")
    assert 'settle = "10s" would do, if no transaction is longer than those of this time.' in found.message
    assert found.message.endswith("Rows that came more than 60 s late were not seen.")


def test_rows_that_were_there_and_rows_that_go_do_not_count(server: PostgresServer) -> None:
    shop = Shop(server.new_database())

    found = shop.measured(lambda: shop.execute("delete from orders"))

    assert (found.severity, found.fix) == ("warn", "Run it while the application writes.")
    assert found.message == "No row came within 1m, so how late rows become visible is not known."


def test_a_delay_that_is_shorter_than_what_was_seen_is_a_warning(server: PostgresServer) -> None:
    shop = Shop(server.new_database(), bound="delay", settle="1s")

    found = shop.measured(lambda: shop.insert(2, late=4))

    assert (found.severity, found.fix) == ("warn", 'settle = "10s"')
    assert found.message.endswith("The bound is a delay of 1 s: rows can be missed.")


def test_times_without_a_zone_are_watched_too(server: PostgresServer) -> None:
    url = server.new_database()
    shop = Shop(url, "timestamp", cursor_time_zone="Asia/Tokyo", bound="delay")
    shop.execute("update orders set at = now() at time zone 'Asia/Tokyo'")

    found = shop.measured(
        lambda: shop.execute("insert into orders values (2, (now() - interval '0.3 s') at time zone 'Asia/Tokyo')")
    )

    assert (found.severity, found.fix) == ("ok", 'settle = "1s"')


def test_a_cursor_that_is_no_time_is_not_measured(server: PostgresServer) -> None:
    shop = Shop(server.new_database(), cursor_column="id", cursor_kind="integer+pk")

    found = shop.measured(lambda: shop.insert(2, late=0))

    assert found.message == "not measured: a cursor of kind integer+pk does not say when a row was written"
    assert shop.clock.monotonic() == 0, "nothing is waited for"


def test_a_busy_table_is_watched_less_far_back(server: PostgresServer) -> None:
    shop = Shop(server.new_database())
    shop.execute(
        f"insert into orders select n, now() - n * interval '10 ms' from generate_series(2, {2 * MOST_ROWS}) n"
    )
    watch = LateWatch(shop.poller.source)  # type: ignore[arg-type]

    assert watch.begin()
    shop.insert(9_001, late=0.5)
    watch.look()
    shop.poller.close()
    shop.engine.dispose()

    assert len(watch.late) == 1
    assert 10 <= watch.reach < 60


def test_what_the_database_refuses_is_a_finding(server: PostgresServer) -> None:
    shop = Shop(server.new_database())

    found = shop.measured(lambda: shop.execute("drop table orders"))

    assert (found.check, found.severity) == (CHECK, "error")
    assert "orders" in found.message


def test_the_command_watches_for_a_minute_and_shows_what_it_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_shop(tmp_path, "def on_orders(batch): ...\n")
    monkeypatch.chdir(tmp_path)
    clock = Clockwork()

    def writes() -> None:
        clock.sleep(59)
        with closing(sqlite3.connect("shop.db")) as shop, shop:
            shop.execute("INSERT INTO orders VALUES (2, strftime('%Y-%m-%d %H:%M:%f', 'now', '-0.3 seconds'))")

    clock.start(writes)
    execute(["check", "--latency", "orders"], runtime=clock)
    shown = " ".join(capsys.readouterr().out.split())

    assert "ok latency Of 1 row that came within 1m the latest became visible 3" in shown
    assert '-> settle = "1s"' in shown
    assert clock.monotonic() >= 60


@pytest.mark.parametrize(("latest", "seconds"), [(0.0, 0.1), (0.04, 0.1), (0.06, 0.2), (3.0, 10.0), (500.0, 120.0)])
def test_twice_what_was_seen_is_suggested(latest: float, seconds: float) -> None:
    assert enough(latest).total_seconds() == seconds
