"""How fast, how far behind, how long yet: with time as an argument."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from poller_cli.terminal.pace import Pace

START = datetime(2026, 4, 7, 12, tzinfo=UTC)


def catch_up(pace: Pace, *, seconds: int, rows: int, speed: float, behind: timedelta) -> None:
    """A batch of `rows` a second; rows' times pass `speed` times as fast as time itself."""
    pace.begin(0.0)
    for second in range(1, seconds + 1):
        at = START + timedelta(seconds=second)
        moment = START - behind + timedelta(seconds=second * speed)
        pace.committed(rows, moment, now=float(second), at=at)


def test_rows_per_second_are_those_of_the_last_moments() -> None:
    pace = Pace()
    catch_up(pace, seconds=10, rows=500, speed=1, behind=timedelta(hours=1))
    assert pace.rate() == 500
    for second in range(11, 72):
        pace.committed(100, None, now=float(second), at=START)
    assert pace.rate() == 100, "what was fast a minute ago does not count any more"


def test_before_the_first_batch_nothing_is_known() -> None:
    pace = Pace(total=100)
    assert (pace.rate(), pace.left(), pace.lag) == (None, None, None)
    pace.begin(0.0)
    assert (pace.rate(), pace.left()) == (None, None)


def test_the_lag_is_the_age_of_the_last_row() -> None:
    pace = Pace()
    catch_up(pace, seconds=10, rows=1, speed=11, behind=timedelta(seconds=1000))
    assert pace.lag == 1000 - 10 * 11 + 10


def test_time_left_by_counted_rows() -> None:
    pace = Pace(total=2_000)
    catch_up(pace, seconds=5, rows=100, speed=1, behind=timedelta(hours=1))
    assert pace.left() == 15


def test_time_left_is_by_how_much_rows_outrun_the_clock() -> None:
    pace = Pace()
    catch_up(pace, seconds=10, rows=7, speed=11, behind=timedelta(seconds=1000))
    left = pace.left()
    assert left is not None
    assert left == pytest.approx(900 / 10)


def test_a_few_rows_times_give_no_time_left() -> None:
    pace = Pace(by_times=False)
    catch_up(pace, seconds=2, rows=7, speed=11, behind=timedelta(days=1000))
    assert pace.left() is None


@pytest.mark.parametrize("speed", [0.0, 0.5, 1.0])
def test_one_that_does_not_catch_up_has_no_time_left_to_show(speed: float) -> None:
    pace = Pace()
    catch_up(pace, seconds=10, rows=7, speed=speed, behind=timedelta(hours=1))
    assert pace.left() is None


def test_towards_an_end_in_the_past_the_present_does_not_run_away() -> None:
    pace = Pace(end=START)
    catch_up(pace, seconds=10, rows=7, speed=10, behind=timedelta(seconds=300))
    assert pace.left() == pytest.approx(200 / 10)
