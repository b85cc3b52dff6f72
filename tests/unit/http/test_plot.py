"""Where things stand in a chart of the status page, and how numbers are said beside it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from poller.http.page import plot
from poller.http.page.plot import PlotWindow
from poller.http.page.words import rate, seconds, when
from tests.support.cases import each

NOW = datetime(2026, 11, 23, 13, 42, 17, tzinfo=UTC)


@each(
    ("most", "end"),
    [(0.0, 2.0), (0.03, 0.04), (1.0, 2.0), (2.0, 2.0), (48.0, 60.0), (81.0, 100.0), (101.0, 200.0), (2e9, 2e9)],
)
def test_an_axis_ends_and_halves_at_round_numbers(most: float, end: float) -> None:
    assert plot.end_of_axis(most) == pytest.approx(end)


@each(
    ("most", "words"),
    [
        (0.4, "400 ms"),
        (33.0, "40 s"),
        (59.0, "60 s"),
        (61.0, "2 min"),
        (2880.0, "1 h"),
        (5000.0, "2 h"),
        (90_000.0, "2 d"),
    ],
)
def test_an_axis_of_times_ends_in_one_unit(most: float, words: str) -> None:
    assert seconds(plot.end_of_times(most)) == words


def test_an_axis_holds_any_number() -> None:
    for most in (5e-324, 1e-9, 1e9, 1e308, float("inf"), float("nan")):
        assert plot.end_of_axis(most) > 0
        assert plot.end_of_times(most) > 0


def test_the_running_slot_is_the_last_and_others_are_outside() -> None:
    window = PlotWindow.until(NOW)

    assert (window.begin, window.ticks[-1]) == (
        NOW.replace(hour=8, minute=45, second=0),
        NOW.replace(minute=45, second=0),
    )
    assert window.place(NOW) == 59
    assert window.place(window.begin) == 0
    assert window.place(window.begin - timedelta(seconds=1)) is None
    assert window.place(NOW + timedelta(minutes=5)) is None
    assert window.place(datetime.max.replace(tzinfo=UTC)) is None


def test_a_bar_of_little_is_seen_and_one_of_nothing_is_not() -> None:
    bars = plot.bars([0.0, None, 0.001, 2.0], 2.0)

    assert [(bar.x, bar.height) for bar in bars] == [(20.75, 1.5), (30.75, 100.0)]


@each(
    ("said", "words"),
    [
        (rate(0.051), "0.051"), (rate(4.26), "4.3"), (rate(48.4), "48"), (rate(1234.0), "1,234"),
        (rate(12_500.0), "12.5k"), (rate(2_000_000.0), "2M"), (seconds(0.0123), "12.3 ms"), (seconds(7200.0), "2 h"),
        (seconds(7260.0), "2 h 1 min"), (seconds(600.0), "10 min"), (seconds(-3.0), "0 s"), (seconds(None), "–"),
    ],
)  # fmt: skip
def test_numbers_are_short(said: str, words: str) -> None:
    assert said == words


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01", "\x1b[2J"])
def test_a_moment_that_is_none_is_none(text: str) -> None:
    assert when(text, NOW) is None
