"""What `poller.worker.run` does beside the ticks, when it is due. Time passes only while it waits."""

from __future__ import annotations

from poller.ports import Event
from poller.worker import Mode, run
from tests.integration.worker.clock import Clock
from tests.integration.worker.shop import Shop

HOUR = 3600.0


class Hourly:
    """Takes so many seconds each time, and is done again an hour later.

    Attributes:
        began: the moments at which it was begun.
    """

    def __init__(self, clock: Clock, takes: float = 0.0) -> None:
        self.began: list[float] = []
        self.saw_stop = False
        self._clock = clock
        self._takes = takes
        self._due = 300.0

    def left(self) -> float:
        return max(0.0, self._due - self._clock.passed)

    def run(self, stop: Event) -> None:
        self.began.append(self._clock.passed)
        self.saw_stop = stop.wait(self._takes) if self._takes else False
        self._due = self._clock.passed + HOUR


def worked(mode: Mode, hours: float, takes: float = 0.0, schedule: str = "0 * * * * *") -> tuple[Shop, Hourly]:
    shop = Shop()
    hourly = Hourly(shop.clock, takes)
    poller = shop.poller(schedule=schedule)
    task = shop.clock.start(lambda: run([poller], mode, shop.clock.stop, handler=shop.take, hourly=hourly))
    shop.clock.sleep(hours * HOUR)
    shop.clock.stop.set()
    task.join()
    return shop, hourly


def test_it_is_done_when_it_is_due_also_while_no_poller_ticks() -> None:
    _, hourly = worked("forever", 3, schedule="0 0 2 29 2 *")
    assert len(hourly.began) == 3
    for at, moment in enumerate(hourly.began):
        assert 0 <= moment - 300 - at * HOUR <= 100, "the loop looks at the clock every 30 seconds"


def test_one_that_takes_hours_delays_no_poller_and_hears_of_a_stop() -> None:
    shop, hourly = worked("forever", 2, takes=10 * HOUR)
    assert (len(hourly.began), hourly.saw_stop) == (1, True)
    assert len(shop.emitted("tick")) >= 119


def test_a_process_that_ends_when_no_row_is_left_does_not_do_it() -> None:
    modes: tuple[Mode, ...] = ("once", "until_idle")
    for mode in modes:
        _, hourly = worked(mode, 1)
        assert hourly.began == []
