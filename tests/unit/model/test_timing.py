"""The lease's numbers (protocol 3 and 13), and durations as people write them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poller.model.durations import format_duration, parse_duration
from poller.model.timing import Timeout, Timing


def test_the_defaults_numbers() -> None:
    timing = Timing(ttl=60, heartbeat=15)
    assert (timing.margin, timing.grace, timing.tenure) == (5.0, 1.0, 59.0)
    assert (timing.attempt.connect, timing.attempt.read) == (2.0, 5.0)
    assert timing.resend == (0.2, 2.0)


def test_three_seconds_with_750_ms_is_legal() -> None:
    timing = Timing(ttl=3, heartbeat=0.75)
    assert timing.margin == 2.0
    assert timing.grace == pytest.approx(0.15)
    assert timing.tenure == pytest.approx(2.85)
    assert (timing.attempt.connect, timing.attempt.read) == (0.5, 0.5)


@pytest.mark.parametrize(
    ("ttl", "heartbeat", "key"),
    [
        (60, 20.001, "heartbeat_interval"),
        (60, 60, "heartbeat_interval"),
        (60, 600, "heartbeat_interval"),
        (3, 1.01, "heartbeat_interval"),
        (60, 0, "heartbeat_interval"),
        (60, -1, "heartbeat_interval"),
        (0, 1, "lease_ttl"),
        (-60, 15, "lease_ttl"),
    ],
)
def test_nonsense_is_refused_by_its_key(ttl: float, heartbeat: float, key: str) -> None:
    with pytest.raises(ValueError, match=rf"^{key}: "):
        Timing(ttl=ttl, heartbeat=heartbeat)


@pytest.mark.parametrize("ttl", [1.0, 3.0, 15.0, 60.0, 3600.0])
def test_exactly_a_third_is_legal(ttl: float) -> None:
    Timing(ttl=ttl, heartbeat=ttl / 3)


def test_a_lease_without_time_for_one_slow_answer_is_refused() -> None:
    """No numbers are, as the length of an attempt follows the ttl; where it did not, this would (protocol 13)."""

    class Slow(Timing):
        @property
        def attempt(self) -> Timeout:
            return Timeout(connect=2.0, read=5.0)

    assert Slow(ttl=12, heartbeat=4).ttl == 12
    with pytest.raises(ValueError, match="lease_ttl: 9s leaves no time for one attempt of 7s"):
        Slow(ttl=9, heartbeat=3)


@given(st.floats(0.01, 1e6), st.floats(0.0001, 1 / 3))
def test_what_is_accepted_leaves_time_to_renew_by_one_attempt(ttl: float, part: float) -> None:
    timing = Timing(ttl=ttl, heartbeat=ttl * part)
    attempt = timing.attempt.connect + timing.attempt.read
    assert attempt + timing.grace < ttl - timing.heartbeat
    assert timing.attempt.connect <= ttl / 6
    assert timing.attempt.read <= ttl / 6
    assert 2.0 <= timing.margin <= 5.0
    assert 0 < timing.grace <= 1.0
    low, high = timing.resend
    assert 0.2 <= low <= high <= 2.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("750ms", 0.75),
        ("15s", 15),
        ("4m30s", 270),
        ("2h", 7200),
        ("1d", 86_400),
        ("1h1m1s1ms", 3661.001),
        ("0.5s", 0.5),
        ("0s", 0),
        (" 5S ", 5),
    ],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "15", "s", "-5s", "5 s", "5s3", "1y", "4m 30s", "1e3s", "٣s", "five seconds"])
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="15s"):
        parse_duration(text)


def test_a_negative_timedelta_is_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        parse_duration(timedelta(seconds=-1))


@given(st.integers(0, 10**9))
def test_what_is_formatted_is_read_back(milliseconds: int) -> None:
    value = timedelta(milliseconds=milliseconds)
    assert parse_duration(format_duration(value)) == value


@pytest.mark.parametrize(("seconds", "text"), [(270, "4m30s"), (0.75, "750ms"), (7200, "2h"), (0, "0s")])
def test_durations_are_written_as_people_do(seconds: float, text: str) -> None:
    assert format_duration(timedelta(seconds=seconds)) == text
