"""NCRONTAB as timers in Azure Functions read it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poller.model.schedule import Schedule
from tests.support.cases import each


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@each(
    ("schedule", "now", "then"),
    [
        ("*/10 * * * * *", "2026-01-01T00:00:00", "2026-01-01T00:00:10"),
        ("*/10 * * * * *", "2026-01-01T00:00:09.999999", "2026-01-01T00:00:10"),
        ("0 */5 * * * *", "2026-01-01T00:04:59", "2026-01-01T00:05:00"),
        ("0 0 * * * *", "2026-01-01T23:00:00", "2026-01-02T00:00:00"),
        ("30 15 2 * * *", "2026-12-31T02:15:30", "2027-01-01T02:15:30"),
        ("0 30 9 * * 1-5", "2026-01-02T09:30:00", "2026-01-05T09:30:00"),
        ("0 0 9 * Jan Mon", "2026-01-26T09:00:00", "2027-01-04T09:00:00"),
        ("0 0 0 1 january,JULY *", "2026-01-01T00:00:00", "2026-07-01T00:00:00"),
        ("5/20 * * * * *", "2026-01-01T00:00:45", "2026-01-01T00:01:05"),
        ("10-30/10,59 * * * * *", "2026-01-01T00:00:30", "2026-01-01T00:00:59"),
        ("*/15 * * * *", "2026-01-01T00:01:00", "2026-01-01T00:15:00"),
        ("0 0 0 29 2 *", "2026-01-01T00:00:00", "2028-02-29T00:00:00"),
    ],
)
def test_the_next_moment(schedule: str, now: str, then: str) -> None:
    assert Schedule(schedule).next_after(at(now)) == at(then)


def test_a_day_must_match_both_day_and_day_of_week() -> None:
    friday_the_13th = Schedule("0 0 0 13 * Fri")
    assert friday_the_13th.next_after(at("2026-03-14T00:00:00")) == at("2026-11-13T00:00:00")


def test_schedules_are_utc_whatever_zone_now_is_in() -> None:
    now = datetime(2026, 1, 1, 0, 30, tzinfo=timezone(timedelta(hours=2)))
    assert Schedule("0 0 0 * * *").next_after(now) == at("2026-01-01T00:00:00")


def test_a_rare_day_across_a_year_without_leap_day_is_found() -> None:
    assert Schedule("0 0 0 29 2 Thu").next_after(at("2080-03-01T00:00:00")) == at("2120-02-29T00:00:00")


@each(
    ("schedule", "expected"),
    [
        ("* * * *", "4 fields"),
        ("* * * * * * *", "7 fields"),
        ("", "0 fields"),
        ("00:00:30", "interval"),
        ("60 * * * * *", "second"),
        ("* 61 * * * *", "minute"),
        ("* * 24 * * *", "hour"),
        ("* * * 0 * *", "day"),
        ("* * * * 13 *", "month"),
        ("* * * * * 7", "day-of-week"),
        ("* * * * Janvier *", "month"),
        ("*/0 * * * * *", "step of 0"),
        ("30-10 * * * * *", "backwards"),
        ("1,,2 * * * * *", "second"),
        ("-1 * * * * *", "second"),
        ("* * * L * *", "day"),
        ("0 0 0 31 2 *", "never comes"),
        ("0 0 0 30 Feb Mon", "never comes"),
    ],
)
def test_what_is_no_schedule_is_refused_with_the_field(schedule: str, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        Schedule(schedule)


_FIELD = [
    st.sampled_from(["*", "0", "59", "*/7", "5-40/5", "1,30,45"]),
    st.sampled_from(["*", "0", "59", "*/7", "5-40/5", "1,30,45"]),
    st.sampled_from(["*", "0", "23", "*/6", "9-17"]),
    st.sampled_from(["*", "1", "15,28", "1-7"]),
    st.sampled_from(["*", "2", "Jan-Mar", "*/3"]),
    st.sampled_from(["*", "0", "Mon-Fri", "6"]),
]


@settings(deadline=None)
@given(fields=st.tuples(*_FIELD), seconds=st.floats(0, 40 * 365 * 86_400))
def test_the_next_moment_lies_ahead_and_none_lies_between(fields: tuple[str, ...], seconds: float) -> None:
    schedule, here = Schedule(" ".join(fields)), at("2020-01-01") + timedelta(seconds=seconds)
    then = schedule.next_after(here)
    assert then > here
    assert then.microsecond == 0
    between = here + (then - here) / 2
    assert schedule.next_after(between) == then
    assert schedule.next_after(then - timedelta(microseconds=1)) == then


@each(
    ("schedule", "may"),
    [
        ("*/30 * * * * *", False),
        ("0 */5 * * * *", False),
        ("0 */6 * * * *", True),
        ("0 0,5,10,15,20,25,30,35,40,45,50 * * * *", True),
        ("*/10 * 9-16 * * *", True),
        ("* * * * * 1-5", True),
        ("0 0 2 * * *", True),
    ],
)
def test_whether_two_moments_are_more_than_five_minutes_apart(schedule: str, may: bool) -> None:
    assert Schedule(schedule).may_rest is may


@each(
    ("schedule", "since", "now", "owed"),
    [
        ("0 0 2 * * *", "2026-01-01T02:00:00.1", "2026-01-02T01:59:59", False),
        ("0 0 2 * * *", "2026-01-01T02:00:00.1", "2026-01-02T02:00:00", True),
        ("0 0 2 * * *", "2026-01-01T02:00:00.1", "2026-01-09T12:00:00", True),
        ("0 0 2 * * *", "2026-01-01T02:00:00.1", "2026-01-02T01:57:00", False),
        ("0 0 2 * * *", "2025-12-01T02:00:00", "2026-01-02T01:57:00", False),  # it comes in a moment
        ("0 0 2 * * *", "2026-01-01T02:00:30", "2026-01-01T02:00:00", False),  # another machine's clock
        ("0 0 2 * * *", "2026-03-01T00:00:00", "2026-01-01T12:00:00", True),  # a clock that was ahead
        ("*/10 * 9-16 * * *", "2026-01-01T16:59:40", "2026-01-01T20:00:00", True),
        ("*/10 * 9-16 * * *", "2026-01-01T16:59:50", "2026-01-01T20:00:00", False),
        ("*/10 * 9-16 * * *", "2026-01-01T16:59:50", "2026-01-02T12:00:00", False),
        ("*/10 * * * * *", "2026-01-01T00:00:00", "2026-06-01T12:00:00", False),
    ],
)
def test_whether_a_moment_is_owed(schedule: str, since: str, now: str, owed: bool) -> None:
    assert Schedule(schedule).owed(at(since), at(now)) is owed


def test_where_nothing_is_known_nothing_is_owed() -> None:
    assert not Schedule("0 0 2 * * *").owed(None, at("2026-01-01T12:00:00"))
