"""`wake`: after a row the source is looked at sooner than its schedule says, and a quiet table costs what it did."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from poller import Poller, TickResult
from poller.config import PollerOptions
from poller.ports import Bound
from poller.sources import SqlSource
from poller.stores import MemoryStore
from poller.worker import run
from tests.integration.worker.clock import Clock
from tests.integration.worker.scripted import IDLE, Scripted, waiting
from tests.support.postgres import PostgresServer

ROW = TickResult(outcome="delivered", rows=1)


def ticks_of(*results: TickResult, enough: int, **options: Any) -> list[float]:
    """When a poller with these results ticks."""
    poller = Scripted(results, enough)
    poller.options = PollerOptions.model_validate({"schedule": "*/5 * * * * *", **options})
    run([poller], "forever", poller.runtime.stop)
    return poller.ticks


def test_after_a_row_it_looks_soon_and_then_ever_later() -> None:
    assert ticks_of(ROW, IDLE, enough=11) == pytest.approx(
        [5, 5.02, 5.06, 5.14, 5.3, 5.62, 6.26, 7.54, 10, 15, 20]  # 10.1 would be too late
    )


def test_a_row_begins_the_pauses_again() -> None:
    assert ticks_of(ROW, IDLE, IDLE, ROW, IDLE, enough=6) == pytest.approx([5, 5.02, 5.06, 5.14, 5.16, 5.2])


def test_off_it_keeps_to_the_schedule() -> None:
    assert ticks_of(ROW, ROW, IDLE, enough=4, wake="off") == [5, 10, 15, 20]


def test_a_schedule_with_long_pauses_is_kept() -> None:
    """A nightly poller delivers at night, however busy its table is."""
    assert ticks_of(ROW, ROW, IDLE, enough=2, schedule="0 0 2 * * *") == [7200, 7200 + 86400]


def test_a_minute_after_the_last_row_the_schedule_counts_alone() -> None:
    found = ticks_of(ROW, IDLE, enough=14, schedule="0 */5 * * * *")
    assert found[0] == 300
    assert found[1:12] == pytest.approx([300 + 0.02 * (2**number - 1) for number in range(1, 12)])
    assert found[12:] == [600, 900]


def test_a_call_that_failed_waits_for_its_time() -> None:
    assert ticks_of(ROW, waiting(9, "handler_failed"), IDLE, enough=4) == pytest.approx([5, 5.02, 9, 10])


def test_a_row_that_is_too_young_is_read_when_it_is_old_enough() -> None:
    young = TickResult(outcome="idle", pending=1, lag_seconds=0.2, bound=Bound("exact", "2026-04-01", age_seconds=1.0))
    assert ticks_of(young, ROW, IDLE, enough=3) == pytest.approx([5, 5.8, 5.82])


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with PostgresServer.start() as server:
        yield server.new_database()


def test_a_quiet_minute_costs_the_same_queries(url: str) -> None:
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(
            "create table orders (id int primary key, changed xid8 not null default pg_current_xact_id())"
        )
    counts = {}
    for wake in ("auto", "off"):
        with engine.connect() as connection:
            connection.exec_driver_sql("insert into orders select coalesce(max(id), 0) + 1 from orders")
        counts[wake] = _asked(url, wake)
    engine.dispose()
    first, after = counts["auto"], counts["off"]
    assert sum(first[:60]) > sum(after[:60]), "it was awake after the row"
    assert first[60:] == after[60:]
    assert sum(after[60:]) > 0


def _asked(url: str, wake: Any) -> list[int]:
    """The statements of each of 120 seconds; the first row is read in the first of them."""
    clock, engine, asked = Clock(), sa.create_engine(url), [0] * 120
    source = SqlSource(engine, table="orders", cursor_column="changed", cursor_kind="xid8+pk", pk_columns=["id"])
    poller = Poller(
        f"wake-{wake}",
        app_name="shop",
        source=source,
        store=MemoryStore(clock),
        runtime=clock,
        observers=[],
        schedule="*/10 * * * * *",
        wake=wake,
    )
    sa.event.listen(engine, "before_cursor_execute", lambda *_: _count(asked, clock.passed - 10))

    def ring() -> None:
        clock.sleep(129)
        clock.stop.set()

    clock.start(ring)
    run([poller], "forever", clock.stop, handler=lambda batch: None)
    poller.close()
    engine.dispose()
    return asked


def _count(asked: list[int], second: float) -> None:
    asked[int(second)] += 1
