"""Many pollers with few slots: ticks that give their lease back for others, threads that are few, a file that lives."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from poller import Batch, Handler, Poller, TickResult
from poller.config import PollerOptions
from poller.observability import PollerEvent
from poller.ports import Event
from poller.stores import MemoryStore
from poller.worker import AliveFile, Ended, Mode, run
from poller.worker.crew import Crew
from tests.integration.runner.clockwork import Clockwork
from tests.integration.runner.fakes import Table, row
from tests.integration.worker.clock import Clock

TEN = timedelta(seconds=10)


class Shop:
    """Pollers on one clock, whose batches of one row take a second each. `seen`: when each came, and whose it was."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.store = MemoryStore(self.clock)
        self.seen: list[tuple[float, str]] = []
        self.events: list[PollerEvent] = []

    def poller(self, name: str, rows: int, *, page_seconds: float = 0.0, **options: Any) -> Poller:
        table = Table(self.clock, [row(number) for number in range(1, rows + 1)])
        table.page_seconds = page_seconds
        return Poller(
            name,
            app_name="shop",
            source=table,
            store=self.store,
            runtime=self.clock,
            observers=[self.events.append],
            **{"batch_size": 1, "schedule": "*/10 * * * * *", "read_ahead": 0, **options},
        )

    def take(self, batch: Batch) -> None:
        self.clock.sleep(1)
        self.seen.append((self.clock.passed, batch.poller_name))

    def run(self, *pollers: Poller, mode: Mode, slots: int, until: float = 1e9) -> list[Ended[Poller]]:
        def ring() -> None:
            self.clock.sleep(until)
            self.clock.stop.set()

        if mode == "forever":
            self.clock.start(ring)
        return run(pollers, mode, self.clock.stop, handler=self.take, max_concurrent=slots, slice=TEN)

    def rows_of(self, name: str) -> int:
        return sum(one == name for _, one in self.seen)

    def tenures_of(self, name: str) -> int:
        return sum(event.name == "lease_acquired" and event.poller == name for event in self.events)


def test_a_long_tick_gives_its_lease_back_while_another_waits() -> None:
    shop = Shop()
    ends = shop.run(shop.poller("big", 200), shop.poller("small", 3), mode="forever", slots=1, until=60)
    assert all(end.ok for end in ends)
    assert shop.rows_of("small") == 3
    assert next(at for at, name in shop.seen if name == "small") <= 25
    assert shop.rows_of("big") >= 40, "what is left of the time is its own"


def test_alone_a_tick_goes_on_beyond_its_slice() -> None:
    shop = Shop()
    shop.run(shop.poller("big", 45), mode="forever", slots=1, until=80)
    assert (shop.rows_of("big"), shop.tenures_of("big")) == (45, 1)


@pytest.mark.guarantee(
    "One worker at a time",
    "A tick that gives its lease back for others loses no row and delivers at least one batch",
)
def test_until_idle_delivers_all_in_slices() -> None:
    shop = Shop()
    ends = shop.run(*(shop.poller(name, 35) for name in ("a", "b", "c")), mode="until_idle", slots=1)
    assert [(end.outcome, end.ok) for end in ends] == [("idle", True)] * 3
    assert [shop.rows_of(name) for name in "abc"] == [35] * 3
    assert all(shop.tenures_of(name) >= 3 for name in "ab")
    first = [next(at for at, one in shop.seen if one == name) for name in "abc"]
    assert max(first) <= 35, "each had a turn before any had two"


def test_once_is_one_tick_however_long() -> None:
    shop = Shop()
    ends = shop.run(shop.poller("a", 35), shop.poller("b", 35), mode="once", slots=1)
    assert [end.outcome for end in ends] == ["delivered", "delivered"]
    assert [shop.tenures_of(name) for name in "ab"] == [1, 1]


def test_a_page_slower_than_a_slice_is_delivered_all_the_same() -> None:
    """Else two such pollers would take turns for ever and deliver nothing."""
    shop = Shop()
    slow = [shop.poller(name, 3, page_seconds=25) for name in ("a", "b")]
    ends = shop.run(*slow, mode="until_idle", slots=1)
    assert all(end.ok for end in ends)
    assert [shop.rows_of(name) for name in "ab"] == [3, 3]


def test_a_stop_ends_those_that_had_no_turn() -> None:
    shop = Shop()
    pollers = [shop.poller(name, 5) for name in ("a", "b", "c")]

    def take(batch: Batch) -> None:
        shop.take(batch)
        shop.clock.stop.set()

    ends = run(pollers, "until_idle", shop.clock.stop, handler=take, max_concurrent=1)
    assert [end.error for end in ends] == ["stopped before nothing was left"] * 3
    assert len(shop.seen) == 1


def test_a_stop_keeps_nobody_waiting_for_the_next_moment() -> None:
    shop = Shop()
    (end,) = shop.run(shop.poller("nightly", 5, schedule="0 0 2 * * *"), mode="forever", slots=1, until=33)
    assert (end.ok, shop.clock.passed) == (True, 33)


def test_three_hung_handlers_delay_no_other_poller() -> None:
    """Two processors, and 20 pollers of one server, which look every 10 s: rows come within seconds of a look."""
    shop, late, rounds = Shop(), dict[str, list[float]](), 60
    pollers = [shop.poller(f"p{number}", 1) for number in range(20)]
    hung = {"p0", "p1", "p2"}

    def take(batch: Batch) -> None:
        if batch.poller_name in hung:
            shop.clock.sleep(100_000)
        shop.clock.sleep(0.1)
        late.setdefault(batch.poller_name, []).append(shop.clock.passed - batch.rows[0]["id"] * 10)

    def ring() -> None:
        for number in range(2, rounds + 1):
            shop.clock.sleep(10 * number - 0.5 - shop.clock.passed)
            for poller in pollers:
                assert isinstance(poller.source, Table)
                poller.source.rows.append(row(number))
        shop.clock.sleep(20)
        shop.clock.stop.set()

    shop.clock.start(ring)
    run(pollers, "forever", shop.clock.stop, handler=take, max_concurrent=6)
    assert {name: len(seen) for name, seen in late.items()} == {f"p{number}": rounds for number in range(3, 20)}
    assert max(max(seen) for seen in late.values()) < 5


# --- threads


class Resting:
    """A poller without rows, whose ticks take so many `seconds`."""

    options = PollerOptions(schedule="*/10 * * * * *")

    def __init__(self, name: str, clock: Clock, seconds: float = 0.01) -> None:
        self.name, self.runtime, self.seconds = name, clock, seconds
        self.ticks: list[float] = []

    @property
    def handler(self) -> Handler:
        return lambda batch: None

    def tick(self, handler: Handler | None = None, *, stop: Event | None = None) -> TickResult:
        self.ticks.append(self.runtime.passed)
        self.runtime.sleep(self.seconds)
        return TickResult(outcome="idle")

    def emit(self, event: PollerEvent) -> None:
        raise AssertionError(event)


def test_a_thousand_resting_pollers_need_few_threads() -> None:
    clock, most, others = Clock(), 0, set(threading.enumerate())

    def ring() -> None:
        nonlocal most
        for _ in range(65):
            clock.sleep(1)
            most = max(most, len(set(threading.enumerate()) - others))
        clock.stop.set()

    pollers = [Resting(f"p{number}", clock) for number in range(1000)]
    clock.start(ring, "ring")
    run(pollers, "forever", clock.stop, max_concurrent=8)
    assert most <= 10, "8 for ticks, one that waits for the stop, and the one that counts"
    assert all(len(poller.ticks) == 6 for poller in pollers)


def test_threads_without_work_end() -> None:
    clock = Clockwork()
    crew = Crew(clock)
    for number in range(5):
        crew.do(lambda: clock.sleep(1), f"poller-{number}")
    clock.sleep(0.5)
    assert crew.threads == 5
    clock.sleep(62)
    assert crew.threads == 0


def test_work_after_work_is_done_by_one_thread() -> None:
    clock, names = Clockwork(), list[str]()
    crew = Crew(clock)
    for number in range(5):
        crew.do(lambda: names.append(threading.current_thread().name), f"poller-{number}")
        clock.sleep(0.1)
    assert (crew.threads, names) == (1, [f"poller-{number}" for number in range(5)])
    crew.close()
    clock.sleep(0.1)
    assert crew.threads == 0


# --- clocks, machines without room


@pytest.mark.parametrize("hours", [-3, 3])
def test_a_clock_that_is_set_stops_no_schedule(hours: int) -> None:
    clock = Clock()
    poller = Resting("orders", clock)

    def ring() -> None:
        clock.sleep(35)
        clock.wall_error = hours * 3600
        clock.sleep(100)
        clock.stop.set()

    clock.start(ring)
    run([poller], "forever", clock.stop)
    assert len(poller.ticks) >= 12


def test_a_moment_that_a_clock_set_ahead_jumps_over_is_made_up_for() -> None:
    clock = Clock()
    nightly = Resting("nightly", clock)
    nightly.options = PollerOptions(schedule="0 0 2 * * *")

    def ring() -> None:
        clock.sleep(35)
        clock.wall_error = 3 * 3600
        clock.sleep(60)
        clock.stop.set()

    clock.start(ring)
    run([nightly], "forever", clock.stop)
    assert len(nightly.ticks) == 1


def test_without_room_for_a_thread_it_goes_on_later(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop()
    spawn, refused = shop.clock.spawn, list[str]()

    def no_room(target: Callable[[], None], name: str) -> Any:
        if name == "poller-orders" and len(refused) < 2:
            refused.append(name)
            raise RuntimeError("can't start new thread")
        return spawn(target, name)

    monkeypatch.setattr(shop.clock, "spawn", no_room)
    (end,) = shop.run(shop.poller("orders", 2), mode="forever", slots=1, until=60)
    assert end.ok
    assert (shop.rows_of("orders"), len(refused)) == (2, 2)


def test_a_handler_that_hangs_gives_its_slot_to_others() -> None:
    """Its call cannot be cut; once it has lasted for longer than it may, it no longer counts."""
    shop, during = Shop(), list[float]()

    def take(batch: Batch) -> None:
        if batch.poller_name == "hangs":
            shop.clock.sleep(3600)
        else:
            during.append(shop.clock.passed)

    def ring() -> None:
        shop.clock.sleep(3000)
        shop.clock.stop.set()

    shop.clock.start(ring)
    works = shop.poller("works", 1)
    hangs = shop.poller("hangs", 1, tick_timeout="30s", schedule="* * * * * *")
    run([hangs, works], "forever", shop.clock.stop, handler=take, max_concurrent=1)
    assert 30 < during[0] < 240


def test_a_handler_that_hangs_keeps_no_process_from_its_end() -> None:
    """Its lease has expired, so there is nothing to wait for: the next deployment would wait until it is killed."""
    shop, over = Shop(), threading.Event()

    def take(batch: Batch) -> None:
        if batch.poller_name == "hangs":
            while not over.is_set() and shop.clock.passed < 3600:
                shop.clock.sleep(10)

    def ring() -> None:
        shop.clock.sleep(50)
        shop.clock.stop.set()

    shop.clock.start(ring)
    works, hangs = shop.poller("works", 1), shop.poller("hangs", 1, tick_timeout="30s")
    try:
        hung, worked = run([hangs, works], "forever", shop.clock.stop, handler=take)
    finally:
        over.set()
    assert worked.ok
    assert not hung.ok
    assert hung.error is not None
    assert "did not end" in hung.error
    assert 50 < shop.clock.passed < 300


def test_a_batch_in_hand_is_finished_before_the_end() -> None:
    shop = Shop()

    def take(batch: Batch) -> None:
        shop.clock.stop.set()
        shop.clock.sleep(100)
        shop.seen.append((shop.clock.passed, batch.poller_name))

    (end,) = run([shop.poller("slow", 2)], "forever", shop.clock.stop, handler=take)
    assert end.ok
    assert shop.rows_of("slow") == 1


@pytest.mark.guarantee(
    "One worker at a time",
    "The alive file is young while the loop goes round and old when it does not, whatever handlers do",
)
def test_the_alive_file_is_young_while_the_loop_goes_round(tmp_path: Path) -> None:
    shop = Shop()
    alive = AliveFile(tmp_path / "alive", shop.clock)
    ages: dict[str, float] = {}

    def age() -> float:
        text = (tmp_path / "alive").read_text().split()[0]
        return (shop.clock.utcnow() - datetime.fromisoformat(text)).total_seconds()

    def take(batch: Batch) -> None:
        shop.clock.sleep(1000)
        ages["while the handler hangs"] = age()
        shop.clock.stop.set()

    def ended(_: Ended[Poller]) -> None:
        shop.clock.sleep(1000)  # on the loop's own thread
        ages["while the loop hangs"] = age()

    orders = shop.poller("orders", 1)
    run([orders], "forever", shop.clock.stop, handler=take, alive=alive, ended=ended)
    assert ages["while the handler hangs"] <= 5
    assert ages["while the loop hangs"] >= 1000
    assert not (tmp_path / "alive").exists(), "the process ended by itself"
