"""The seat of the bound: taken before the page, in the column's own form, never moving back, always saying its kind."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from poller.databases.samplers import Sample
from poller.errors import ConfigError
from poller.ports import Bound
from poller.sources.bound import Memory, Rule, render
from poller.sources.columns import CursorColumn, Family, TextForm
from tests.integration.bounds.pretended import STAMP, Process, asked
from tests.integration.sources.tables import add_orders, closing, make_orders, orders
from tests.support.cases import each

NOON = datetime(2026, 7, 1, 12, 0, 0, 700_000, tzinfo=UTC)


@each(
    ("column", "zone", "expected"),
    [
        (CursorColumn("c", Family.TIMESTAMPTZ), None, "2026-07-01T12:00:00.699999Z"),
        (CursorColumn("c", Family.TIMESTAMPTZ, digits=0), None, "2026-07-01T11:59:59.000000Z"),
        (CursorColumn("c", Family.TIMESTAMPTZ, digits=3), None, "2026-07-01T12:00:00.699000Z"),
        (CursorColumn("c", Family.TIMESTAMP, digits=9), UTC, "2026-07-01T12:00:00.699999000"),
        (CursorColumn("c", Family.TIMESTAMP), ZoneInfo("Asia/Kolkata"), "2026-07-01T17:30:00.699999"),
        (CursorColumn("c", Family.DATE), ZoneInfo("Pacific/Kiritimati"), "2026-07-02"),
        (CursorColumn("c", Family.TEXT, form=TextForm.of("2026-01-01 00:00:00")), UTC, "2026-07-01 11:59:59"),
        (
            CursorColumn("c", Family.TEXT, form=TextForm.of("2026-01-01T00:00:00.000Z")),
            None,
            "2026-07-01T12:00:00.699Z",
        ),
        (
            CursorColumn("c", Family.TEXT, form=TextForm.of("2026-01-01T00:00:00+02:00")),
            None,
            "2026-07-01T13:59:59+02:00",
        ),
        (CursorColumn("c", Family.TEXT, form=TextForm.of("2026-01-01")), UTC, "2026-07-01"),
        (CursorColumn("c", Family.TEXT, form=TextForm.of("2026-01-01 00:00")), UTC, "2026-07-01 12:00"),
        (CursorColumn("c", Family.TEXT, form=TextForm.of("2026-01-01T00:00Z")), None, "2026-07-01T12:00Z"),
    ],
)
def test_rounded_down_and_one_unit_less_in_the_columns_form(column: CursorColumn, zone: Any, expected: str) -> None:
    assert render(NOON, column, zone) == expected


BERLIN, NEW_YORK = ZoneInfo("Europe/Berlin"), ZoneInfo("America/New_York")


@pytest.mark.parametrize(
    ("zone", "at", "expected"),
    [
        (BERLIN, "2026-10-24T23:59:59", "2026-10-25 01:59:58"),
        (BERLIN, "2026-10-25T00:00:00", "2026-10-25 01:59:59"),
        (BERLIN, "2026-10-25T00:40:07", "2026-10-25 01:59:59"),
        (BERLIN, "2026-10-25T00:59:59", "2026-10-25 01:59:59"),
        (BERLIN, "2026-10-25T01:00:00", "2026-10-25 01:59:59"),
        (BERLIN, "2026-10-25T01:40:07", "2026-10-25 02:40:06"),
        (BERLIN, "2026-03-29T00:59:59", "2026-03-29 01:59:58"),
        (BERLIN, "2026-03-29T01:00:01", "2026-03-29 03:00:00"),
        (NEW_YORK, "2026-11-01T05:30:00", "2026-11-01 00:59:59"),
        (NEW_YORK, "2026-11-01T06:30:00", "2026-11-01 01:29:59"),
        (NEW_YORK, "2026-03-08T07:00:01", "2026-03-08 03:00:00"),
        (ZoneInfo("Australia/Lord_Howe"), "2026-04-04T14:45:00", "2026-04-05 01:29:59"),
    ],
)
def test_an_hour_that_comes_twice_is_read_when_it_repeats(zone: ZoneInfo, at: str, expected: str) -> None:
    column = CursorColumn("c", Family.TEXT, form=TextForm.of("2026-01-01 00:00:00"))
    assert render(datetime.fromisoformat(f"{at}+00:00"), column, zone) == expected


@pytest.mark.parametrize("zone", [BERLIN, NEW_YORK])
def test_no_row_is_stamped_below_what_was_read_in_a_year(zone: ZoneInfo) -> None:
    """At each quarter of an hour: the bound does not go back, and what is stamped from then on lies above it."""
    column = CursorColumn("c", Family.TEXT, form=TextForm.of("2026-01-01 00:00:00"))
    instants = [datetime(2026, 1, 1, tzinfo=UTC) + n * timedelta(minutes=15) for n in range(366 * 96)]
    bounds = [render(at, column, zone) for at in instants]
    assert bounds == sorted(bounds)
    stamped = [f"{at.astimezone(zone):%Y-%m-%d %H:%M:%S}" for at in instants]
    lowest = stamped[-1]
    for bound, stamp in zip(reversed(bounds), reversed(stamped), strict=True):
        lowest = min(lowest, stamp)
        assert bound < lowest


def _sample(oldest: int | None, clock: int, held_by: str | None = None, reason: str | None = None) -> Sample:
    now = NOON.replace(second=clock)
    return Sample(now, now, None if oldest is None else NOON.replace(second=oldest), held_by, reason)


def _process() -> Process:
    return Process(Rule("exact", "asked for", STAMP), asked().options)


def test_a_bound_never_moves_back_and_says_why_it_stays() -> None:
    process = _process()
    first = process.see(_sample(10, 11))
    second = process.see(_sample(5, 20, "pid 7"))
    third = process.see(_sample(12, 21))
    assert second.value == first.value
    assert second.held_by == "pid 7"
    assert second.age_seconds == pytest.approx(10)
    assert second.reason
    assert third.at is not None
    assert third.at.second == 12


def test_a_bound_that_cannot_be_computed_keeps_the_last_one() -> None:
    process = _process()
    assert process.see(_sample(None, 10, reason="blind")).value is None
    known = process.see(_sample(10, 11))
    kept = process.see(_sample(None, 12, reason="a prepared one"))
    assert kept.value == known.value
    assert kept.reason == "a prepared one"


def test_a_clock_that_went_back_is_waited_for() -> None:
    process = _process()
    process.memory = Memory(clock="2026-07-01T12:00:08.000000Z")
    held = process.see(_sample(3, 4))
    assert held.value is None
    assert "went back" in str(held.reason)
    assert process.see(_sample(8, 9)).value is not None
    assert process.see(_sample(9, 10)).value is not None


@pytest.mark.parametrize(("new", "moves"), [("9", False), ("101", True)])
def test_numbers_are_compared_as_numbers(new: str, moves: bool) -> None:
    process = Process(Rule("exact", "", STAMP), asked(cursor_kind="integer+pk", cursor_time_zone=None).options)
    process.see(Bound("exact", value="100"))
    assert process.see(Bound("exact", value=new)).value == (new if moves else "100")


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
