"""The seat of the bound: taken before the page, in the column's own form, never moving back, always saying its kind."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from poller.errors import ConfigError
from poller.ports import Bound
from poller.sources.bounds import BoundContext, MonotonicBound
from poller.sources.columns import Column, Family
from poller.sources.columns.moments import TextForm
from tests.integration.bounds.pretended import GivenBounds
from tests.integration.sources.tables import add_orders, closing, make_orders, orders

NOON = datetime(2026, 7, 1, 12, 0, 0, 700_000, tzinfo=UTC)


def _context(column: Column, zone: Any = UTC) -> BoundContext:
    second = timedelta(seconds=1)
    return BoundContext(
        family="postgresql",
        mariadb=False,
        kind="timestamp+pk",
        column=column,
        zone=zone,
        schema=None,
        table="t",
        query=None,
        settle=second,
        delay=second,
        extra_delay=second,
        ignore_users=(),
        clock="select 1",
        highest="select 1",
        highest_below="select 1",
    )


@pytest.mark.parametrize(
    ("column", "zone", "expected"),
    [
        (Column("c", Family.TIMESTAMPTZ), None, "2026-07-01T12:00:00.699999Z"),
        (Column("c", Family.TIMESTAMPTZ, digits=0), None, "2026-07-01T11:59:59.000000Z"),
        (Column("c", Family.TIMESTAMPTZ, digits=3), None, "2026-07-01T12:00:00.699000Z"),
        (Column("c", Family.TIMESTAMP, digits=9), UTC, "2026-07-01T12:00:00.699999000"),
        (Column("c", Family.TIMESTAMP), ZoneInfo("Asia/Kolkata"), "2026-07-01T17:30:00.699999"),
        (Column("c", Family.DATE), ZoneInfo("Pacific/Kiritimati"), "2026-07-02"),
        (Column("c", Family.TEXT, form=TextForm.of("2026-01-01 00:00:00")), UTC, "2026-07-01 11:59:59"),
        (Column("c", Family.TEXT, form=TextForm.of("2026-01-01T00:00:00.000Z")), None, "2026-07-01T12:00:00.699Z"),
        (Column("c", Family.TEXT, form=TextForm.of("2026-01-01T00:00:00+02:00")), None, "2026-07-01T13:59:59+02:00"),
        (Column("c", Family.TEXT, form=TextForm.of("2026-01-01")), UTC, "2026-07-01"),
        (Column("c", Family.TEXT, form=TextForm.of("2026-01-01 00:00")), UTC, "2026-07-01 12:00"),
        (Column("c", Family.TEXT, form=TextForm.of("2026-01-01T00:00Z")), None, "2026-07-01T12:00Z"),
    ],
)
def test_rounded_down_and_one_unit_less_in_the_columns_form(column: Column, zone: Any, expected: str) -> None:
    assert _context(column, zone).render(NOON) == expected


def _bound(second: int, clock: int, **facts: Any) -> Bound:
    at = NOON.replace(second=second)
    context = _context(Column("c", Family.TIMESTAMPTZ))
    return context.bound(at, NOON.replace(second=clock), kind="exact", **facts)


_NOWHERE: Any = None


def test_a_bound_never_moves_back_and_says_why_it_stays() -> None:
    keeper = MonotonicBound(GivenBounds(_bound(10, 11), _bound(5, 20, held_by="pid 7"), _bound(12, 21)))
    first, second, third = (keeper.sample(_NOWHERE) for _ in range(3))
    assert second.value == first.value
    assert second.held_by == "pid 7"
    assert second.age_seconds == pytest.approx(10)
    assert second.reason
    assert third.at is not None
    assert third.at.second == 12


def test_a_bound_that_cannot_be_computed_keeps_the_last_one() -> None:
    keeper = MonotonicBound(
        GivenBounds(Bound("exact", reason="blind"), _bound(10, 11), Bound("exact", reason="a prepared one"))
    )
    assert keeper.sample(_NOWHERE).value is None
    known = keeper.sample(_NOWHERE)
    kept = keeper.sample(_NOWHERE)
    assert kept.value == known.value
    assert kept.reason == "a prepared one"


def test_a_clock_that_went_back_is_waited_for() -> None:
    keeper = MonotonicBound(GivenBounds(_bound(3, 4), _bound(8, 9), _bound(9, 10)))
    keeper.highest_clock = "2026-07-01T12:00:08.000000Z"
    held = keeper.sample(_NOWHERE)
    assert held.value is None
    assert "went back" in str(held.reason)
    assert keeper.sample(_NOWHERE).value is not None
    assert keeper.sample(_NOWHERE).value is not None


@pytest.mark.parametrize(("new", "moves"), [("9", False), ("101", True)])
def test_numbers_are_compared_as_numbers(new: str, moves: bool) -> None:
    keeper = MonotonicBound(GivenBounds(Bound("xid8", value="100"), Bound("xid8", value=new)))
    keeper.sample(_NOWHERE)
    assert keeper.sample(_NOWHERE).value == (new if moves else "100")


def test_rows_younger_than_the_delay_wait(any_db: str) -> None:
    now = datetime.now(UTC)
    make_orders(any_db, [(now - timedelta(minutes=5)).strftime("%Y-%m-%d %H:%M:%S.%f")])
    add_orders(any_db, [now.strftime("%Y-%m-%d %H:%M:%S.%f")], first=2)
    with closing(orders(any_db, bound="delay", settle="60s")) as source:
        page = source.page(None, 10)
        assert [row["id"] for row in page.rows] == [1]
        assert page.bound.kind == "heuristic"
        assert page.bound.age_seconds == pytest.approx(60, abs=1)
        assert "settle" in str(page.bound.reason)
        assert page.bound.clock is not None
        assert source.lag(page.cursors[-1], cap=10).pending == 1
    with closing(orders(any_db, bound="delay", settle="0s", filter="id = 1")) as source:
        assert len(source.page(None, 10).rows) == 1
    with closing(orders(any_db, bound="none")) as source:
        page = source.page(None, 10)
        assert [row["id"] for row in page.rows] == [1, 2]
        assert page.bound.kind == "none"


def test_a_held_clock_reads_nothing_and_says_so(postgres_db: str) -> None:
    make_orders(postgres_db, ["2026-01-01 00:00:00"])
    with closing(orders(postgres_db, bound="delay")) as source:
        source.recall({"clock": "2099-01-01T00:00:00.000000Z"})
        page = source.page(None, 10)
        assert list(page.rows) == []
        assert "went back" in str(page.bound.reason)


def test_naive_local_columns_are_bounded_by_their_own_clock(any_db: str) -> None:
    """Rows stamped by the clocks of Kolkata, five and a half hours ahead of UTC."""
    local = datetime.now(ZoneInfo("Asia/Kolkata")).replace(tzinfo=None)
    stamps = [(local - timedelta(seconds=s)).strftime("%Y-%m-%d %H:%M:%S.%f") for s in (120, -120)]
    make_orders(any_db, stamps)
    query = "select id, cast(updated_at as timestamp) as updated_at from orders"
    query = query if any_db.startswith("postgres") else "select id, updated_at from orders"
    with closing(orders(any_db, query=query, bound="delay", cursor_time_zone="Asia/Kolkata")) as source:
        assert [row["id"] for row in source.page(None, 10).rows] == [1]
        lag = source.lag(None, cap=10).seconds
        assert lag == pytest.approx(120, abs=30)


def test_a_bound_that_is_not_offered_names_what_is() -> None:
    with pytest.raises(ConfigError, match="auto") as error:
        orders("postgresql://h/d", bound="magic")
    assert error.value.key == "bound"
