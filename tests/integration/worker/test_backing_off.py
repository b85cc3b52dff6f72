"""What `poller.worker.run` makes of a poller whose next call waits for its time. Ticks are given, time is passed in."""

from __future__ import annotations

import pytest

from poller import TickResult
from poller.config import PollerOptions
from poller.tick import Outcome
from poller.worker import Ended, Mode, run
from tests.integration.worker.scripted import IDLE, Scripted, waiting


def ran(mode: Mode, *results: TickResult, enough: int = 100) -> tuple[Scripted, Ended[Scripted]]:
    poller = Scripted(results, enough)
    (end,) = run([poller], mode, poller.runtime.stop)
    return poller, end


def test_until_idle_waits_for_the_next_call() -> None:
    poller, end = ran("until_idle", waiting(7), IDLE)
    assert (end.outcome, end.ok) == ("idle", True)
    assert poller.ticks == [0, 7]


def test_until_idle_waits_after_the_call_that_failed() -> None:
    poller, end = ran("until_idle", waiting(4, "handler_failed"), IDLE)
    assert (end.ok, poller.ticks) == (True, [0, 4])


def test_a_long_wait_is_looked_at_again_meanwhile() -> None:
    """`poller resume` ends it early, and the server's clock may differ."""
    poller, end = ran("until_idle", *[waiting(25)] * 3, IDLE)
    assert (end.ok, poller.ticks) == (True, [0, 10, 20, 25])


def test_a_server_whose_clock_is_behind_is_not_asked_at_once() -> None:
    poller, end = ran("until_idle", *[waiting(-3600)] * 3, IDLE)
    assert (end.ok, poller.ticks) == (True, [0, 1, 2, 3])


def test_until_idle_that_waits_can_be_stopped() -> None:
    _, end = ran("until_idle", waiting(7), enough=3)
    assert (end.outcome, end.error) == (None, "stopped before nothing was left")


@pytest.mark.parametrize("outcome", ["halted", "paused", "blocked"])
def test_until_idle_ends_where_only_a_person_can_help(outcome: Outcome) -> None:
    poller, end = ran("until_idle", waiting(5), TickResult(outcome=outcome, error="100 rows wait"))
    assert (end.outcome, end.error) == (outcome, f"{outcome}: 100 rows wait")
    assert len(poller.ticks) == 2


def test_once_says_what_it_waits_for_and_ends() -> None:
    poller, end = ran("once", waiting(5))
    assert (end.outcome, end.error) == ("backing_off", "backing off: row orders/17 failed: ValueError: no")
    assert poller.ticks == [0]


def test_for_ever_makes_the_next_call_when_its_time_has_come() -> None:
    poller, _ = ran("forever", waiting(7, "handler_failed"), IDLE, enough=3)
    assert poller.ticks == [5, 7, 10], "beside the schedule, which goes on as it was"


def test_for_ever_keeps_to_the_schedule() -> None:
    poller, end = ran("forever", waiting(1), enough=4)
    assert (end.ok, poller.ticks) == (True, [5, 10, 15, 20])


class Left(Scripted):
    """One whose document says that rows are left, and stays as it is."""

    options = PollerOptions(schedule="0 0 2 * * *")

    def unfinished(self) -> str | None:
        return "this version"


@pytest.mark.parametrize(
    ("result", "ticks"),
    [(IDLE, 1), (TickResult(outcome="blocked", error="100 rows wait"), 1), (TickResult(outcome="held_elsewhere"), 12)],
    ids=["none is left", "a person must settle some", "another is at work"],
)
def test_what_another_tick_cannot_change_is_asked_once(result: TickResult, ticks: int) -> None:
    poller = Left([result], enough=100)

    def ring() -> None:
        poller.runtime.sleep(3599)
        poller.runtime.stop.set()

    poller.runtime.start(ring)
    run([poller], "forever", poller.runtime.stop)
    assert len(poller.ticks) == ticks
