"""A moment of a schedule with long pauses that was missed is made up for: not in the next night. Time is passed in."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poller import Batch, Poller, SourceUnavailable, StoreUnavailable
from poller.model.cursor import Cursor
from poller.ports import Bound, Found, Missing, Page, Timeout, Unchanged, Written
from poller.stores import MemoryStore
from poller.worker import run
from tests.integration.runner.fakes import Table, cursor_of, row
from tests.integration.worker.clock import Clock

NIGHTLY = "0 0 2 * * *"
AT_TWO = 2 * 3600.0
DAY = 24 * 3600.0
AWAY = SourceUnavailable("The database is away.")


class Store(MemoryStore):
    """A store that is away between two moments, and counts its writes."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.clock = clock
        self.away = (0.0, 0.0)
        self.writes = 0

    def _answers(self, name: str) -> None:
        if self.away[0] <= self.clock.passed < self.away[1]:
            raise StoreUnavailable("The store is away.", document=name)

    def read(
        self, name: str, *, unless: str | None = None, timeout: Timeout | None = None
    ) -> Found | Unchanged | Missing:
        self._answers(name)
        return super().read(name, unless=unless, timeout=timeout)

    def write(self, name: str, body: bytes, *, if_tag: str | None, timeout: Timeout | None = None) -> Written:
        self._answers(name)
        self.writes += 1
        return super().write(name, body, if_tag=if_tag, timeout=timeout)


HELD = Bound("exact", value="2026-04-30T00:00:00.000000Z", held_by="pid 7, open since 00:30", age_seconds=5400.0)


class HeldTable(Table):
    """A table of which the last `above` rows lie above the bound."""

    above = 0

    def page(self, after: Cursor | None, limit: int, *, lag_cap: int | None = None) -> Page:
        page = super().page(after, len(self.rows) + 1)
        below = page.rows[: max(0, len(page.rows) - self.above)][:limit]
        return Page(below, page.cursors[: len(below)], self.below)


class Shop:
    """Processes of a nightly poller. `seen`: when each row came."""

    def __init__(self, **options: Any) -> None:
        self.clock = Clock()
        self.store = Store(self.clock)
        self.rows: list[Any] = []
        self.seen: list[tuple[float, int]] = []
        self.failures: list[Exception] = []
        self.options = {"schedule": NIGHTLY, "read_ahead": 0, **options}

    def poller(self, source: Table | None = None) -> Poller:
        return Poller(
            "nightly",
            app_name="shop",
            source=source or Table(self.clock, self.rows),
            store=self.store,
            runtime=self.clock,
            observers=[],
            **self.options,
        )

    def take(self, batch: Batch) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.seen += [(self.clock.passed, one["id"]) for one in batch]

    def run(self, *pollers: Poller, until: float) -> None:
        """Processes, one poller each, from now to this moment."""
        stop = self.clock.event()

        def ring() -> None:
            self.clock.sleep(until - self.clock.passed)
            stop.set()

        self.clock.start(ring)
        tasks = [self.clock.start(partial(self._run, one, stop)) for one in pollers[1:]]
        self._run(pollers[0], stop)
        for task in tasks:
            task.join()

    def _run(self, poller: Poller, stop: Any) -> None:
        run([poller], "forever", stop, handler=self.take)

    def had_a_night(self) -> Shop:
        """One night without rows has passed, and it is 03:00."""
        self.run(self.poller(), until=AT_TWO + 3600)
        assert self.seen == []
        return self

    def comes(self, number: int = 1) -> None:
        """A row."""
        self.rows.append(row(number))


def table(poller: Poller) -> Table:
    assert isinstance(poller.source, Table)
    return poller.source


def test_a_database_away_at_two_is_asked_again_in_seconds() -> None:
    shop = Shop()
    shop.comes()
    poller = shop.poller()
    table(poller).faults += [AWAY] * 3
    shop.run(poller, until=AT_TWO + 60)
    assert shop.seen == [(AT_TWO + 2 + 4 + 8, 1)]


def test_a_store_away_at_two_is_asked_again_in_seconds() -> None:
    shop = Shop()
    shop.comes()
    shop.store.away = (AT_TWO - 5, AT_TWO + 20)
    shop.run(shop.poller(), until=AT_TWO + 60)
    assert [number for _, number in shop.seen] == [1]


def test_a_call_that_failed_at_two_is_made_again_in_seconds() -> None:
    shop = Shop(retry_backoff="1s")
    shop.comes()
    shop.failures += [ValueError("no")]
    shop.run(shop.poller(), until=AT_TWO + 60)
    ((at, _),) = shop.seen
    assert at <= AT_TWO + 2


@pytest.mark.guarantee(
    "One worker at a time",
    "A moment of a schedule with long pauses that was missed, because a process was down, the database or the store "
    "was away, or a call failed, is made up for within minutes, in every mode, a poller's very first moment too; one"
    " that was served, or passed while a person had paused the poller, is not",
)
def test_a_process_that_was_down_at_two_makes_up_for_it() -> None:
    shop = Shop().had_a_night()
    shop.comes()
    shop.run(shop.poller(), until=DAY + AT_TWO - 3)
    shop.clock.sleep(8)
    shop.run(shop.poller(), until=DAY + AT_TWO + 60)
    assert shop.seen == [(DAY + AT_TWO + 5, 1)]


def test_who_starts_at_noon_knows_that_two_was_served() -> None:
    shop = Shop().had_a_night()
    shop.comes()
    late = shop.poller()
    shop.run(late, until=DAY)
    assert table(late).pages == []
    shop.run(late, until=DAY + AT_TWO + 60)
    assert shop.seen == [(DAY + AT_TWO, 1)]


def test_who_starts_at_noon_knows_of_a_night_with_rows() -> None:
    shop = Shop()
    shop.comes()
    shop.run(shop.poller(), until=AT_TWO + 60)
    late = shop.poller()
    shop.run(late, until=DAY)
    assert ([number for _, number in shop.seen], table(late).pages) == ([1], [])


def test_an_outage_through_the_night_and_a_restart_are_made_up_for() -> None:
    shop = Shop().had_a_night()
    shop.comes()
    poller = shop.poller()
    table(poller).faults += [AWAY] * 100
    shop.run(poller, until=DAY + AT_TWO + 600)
    assert shop.seen == []
    shop.run(shop.poller(), until=DAY + AT_TWO + 700)
    assert [number for _, number in shop.seen] == [1]


def test_two_replicas_that_were_down_deliver_each_row_once() -> None:
    shop = Shop().had_a_night()
    for number in range(1, 6):
        shop.comes(number)
    shop.clock.sleep(DAY)
    shop.run(shop.poller(), shop.poller(), until=DAY + AT_TWO + 2 * 3600)
    assert [number for _, number in shop.seen] == [1, 2, 3, 4, 5]


def test_a_pause_over_two_misses_nothing() -> None:
    """An operator wanted that night without it: it goes on with the next."""
    shop = Shop().had_a_night()
    shop.comes()
    shop.poller().pause()
    shop.run(shop.poller(), until=DAY + AT_TWO + 3600)
    shop.poller().resume()
    shop.run(shop.poller(), until=DAY + DAY)
    assert shop.seen == []
    shop.run(shop.poller(), until=DAY + DAY + AT_TWO + 60)
    assert [number for _, number in shop.seen] == [1]


def test_a_new_poller_has_missed_nothing() -> None:
    shop = Shop()
    shop.comes()
    shop.clock.sleep(AT_TWO + 3600)
    new = shop.poller()
    shop.run(new, until=DAY)
    assert (table(new).pages, shop.store.writes) == ([], 1), "its document"
    shop.run(new, until=DAY + AT_TWO + 60)
    assert [number for _, number in shop.seen] == [1]


@pytest.mark.parametrize("was_up", [True, False], ids=["killed at two", "down at two"])
def test_the_very_first_moment_is_made_up_for_too(was_up: bool) -> None:
    shop = Shop()
    shop.comes()
    shop.run(shop.poller(), until=AT_TWO - 1 if was_up else 600)
    shop.clock.sleep(AT_TWO)
    shop.run(shop.poller(), until=DAY)
    assert [number for _, number in shop.seen] == [1]


def test_now_is_when_a_process_starts_and_not_its_first_moment() -> None:
    shop = Shop()
    shop.comes(1)
    new = shop.poller()
    table(new).begin = cursor_of(row(1))
    shop.run(new, until=600)
    table(new).rows.append(row(2))
    table(new).begin = cursor_of(row(2))
    shop.run(new, until=AT_TWO + 60)
    assert [number for _, number in shop.seen] == [2]


def test_a_first_look_at_a_database_that_is_away_is_made_again() -> None:
    shop = Shop()
    shop.comes()
    new = shop.poller()
    looks = [AWAY] * 3

    def start() -> Cursor | None:
        if looks:
            raise looks.pop()
        return None

    table(new).start = start  # type: ignore[method-assign]
    shop.run(new, until=600)
    assert shop.store.writes == 0
    shop.run(new, until=AT_TWO - 1)
    assert shop.store.writes == 1


def test_two_processes_that_start_together_begin_once() -> None:
    shop = Shop()
    shop.comes()
    shop.run(shop.poller(), shop.poller(), until=AT_TWO - 1)
    assert shop.store.writes == 1


def test_a_document_that_was_deleted_is_not_begun_anew() -> None:
    shop = Shop().had_a_night()
    del shop.store._documents["state/shop/nightly.json"]
    shop.run(shop.poller(), until=DAY)
    assert [name for name in shop.store._documents if name.startswith("state/")] == []


@pytest.mark.parametrize("ahead", [3600.0, 30 * DAY], ids=["an hour", "a month"])
def test_a_clock_that_was_ahead_hides_no_night(ahead: float) -> None:
    shop = Shop()
    shop.clock.wall_error = ahead
    shop.run(shop.poller(), until=AT_TWO + 60)
    shop.clock.wall_error = 0.0
    shop.run(shop.poller(), until=AT_TWO + 7200)
    shop.comes()
    shop.clock.sleep(DAY - 3600)
    shop.run(shop.poller(), until=DAY + AT_TWO + 7200)
    assert [number for _, number in shop.seen] == [1]


def held(shop: Shop, *, above: int, bound: Bound = HELD) -> HeldTable:
    """Its table, with rows above a bound."""
    found = HeldTable(shop.clock, [])
    found.rows, found.below, found.above = shop.rows, bound, above
    return found


@pytest.mark.parametrize("below", [0, 1], ids=["all rows", "the last row"])
@pytest.mark.parametrize("value", [HELD.value, None], ids=["an old bound", "no bound"])
def test_rows_above_a_held_bound_do_not_wait_for_the_next_night(below: int, value: str | None) -> None:
    """An open transaction holds the bound at 02:00, and ends at 02:12."""
    shop = Shop().had_a_night()
    for number in range(1, 3 + below):
        shop.comes(number)
    table = held(shop, above=2, bound=HELD if value or below else replace(HELD, value=None, age_seconds=None))
    shop.run(shop.poller(table), until=DAY + AT_TWO + 720)
    assert [number for _, number in shop.seen] == [1][:below]
    table.above, table.below = 0, Bound("exact", value="2026-05-02T02:00:00.000000Z", age_seconds=1.0)
    shop.run(shop.poller(table), until=DAY + AT_TWO + 1080)
    assert [number for _, number in shop.seen] == [1, 2, 3][: 2 + below]
    looks = len(table.pages)
    shop.run(shop.poller(table), until=2 * DAY)
    assert len(table.pages) == looks, "02:00 is done with"


@pytest.mark.parametrize(
    "bound",
    [
        replace(HELD, age_seconds=59.0),
        replace(HELD, held_by=None),
        Bound("heuristic", value=HELD.value, age_seconds=600.0),
    ],
    ids=["held for less than a minute", "held by no transaction", "a delay"],
)
def test_rows_above_a_usual_bound_wait_for_their_moment(bound: Bound) -> None:
    shop = Shop().had_a_night()
    shop.comes()
    table = held(shop, above=1, bound=bound)
    shop.run(shop.poller(table), until=2 * DAY)
    assert len(table.pages) == 1


def test_a_transaction_that_began_after_two_changes_nothing() -> None:
    """Of a table with one long transaction after the other: what it holds back came after 02:00."""
    shop = Shop().had_a_night()
    shop.comes()
    table = held(shop, above=1)
    shop.run(shop.poller(table), until=DAY + AT_TWO + 240)
    table.below = replace(HELD, age_seconds=150.0)
    shop.run(shop.poller(table), until=2 * DAY)
    assert len(table.pages) == 2, "at 02:00, and at 02:04, when a process starts"


@pytest.mark.parametrize("age", [120.0, None], ids=["for two minutes", "for an unknown time"])
def test_rows_above_a_held_bound_come_though_no_night_was_noted(age: float | None) -> None:
    """A document of a version that did not write until when moments are done with."""
    shop = Shop().had_a_night()
    name = "state/shop/nightly.json"
    found = shop.store.read(name)
    assert isinstance(found, Found)
    said = {key: value for key, value in json.loads(found.body).items() if key != "looked_at"}
    shop.store.write(name, json.dumps(said).encode(), if_tag=found.tag)
    shop.comes()
    table = held(shop, above=1, bound=replace(HELD, age_seconds=age))
    shop.run(shop.poller(table), until=DAY + AT_TWO + 240)
    table.above, table.below = 0, Bound("exact", value="2026-05-02T02:00:00.000000Z", age_seconds=1.0)
    shop.run(shop.poller(table), until=DAY + AT_TWO + 600)
    assert [number for _, number in shop.seen] == [1]


def test_a_bound_that_holds_no_row_back_is_done_with() -> None:
    shop = Shop().had_a_night()
    table = held(shop, above=0)
    shop.run(shop.poller(table), until=2 * DAY)
    assert len(table.pages) == 1


def test_a_clock_set_back_in_an_outage_loses_no_night() -> None:
    shop = Shop()
    shop.comes()
    poller = shop.poller()
    table(poller).faults += [AWAY] * 5

    def set_back() -> None:
        shop.clock.sleep(AT_TWO + 3)
        shop.clock.wall_error = -2.5

    shop.clock.start(set_back)
    shop.run(poller, until=AT_TWO + 240)
    assert [number for _, number in shop.seen] == [1]


def test_each_moment_that_was_missed_is_one_to_make_up_for() -> None:
    """Though the document is as it was: a look after the first one may have failed to write."""
    shop = Shop().had_a_night()
    poller = shop.poller()
    assert poller.unfinished() is None
    shop.clock.sleep(DAY)
    first = poller.unfinished()
    shop.clock.sleep(3600)
    assert first is not None
    assert poller.unfinished() == first
    shop.clock.sleep(DAY)
    assert poller.unfinished() not in (None, first)


def test_a_night_is_written_down_once() -> None:
    shop = Shop().had_a_night()
    before = shop.store.writes
    shop.run(shop.poller(), until=3 * DAY)
    assert shop.store.writes == before + 2


@pytest.mark.parametrize("schedule", ["*/10 * * * * *", "0 * * * * *", "0 */5 * * * *"])
def test_a_schedule_without_long_pauses_writes_nothing(schedule: str) -> None:
    shop = Shop(schedule=schedule)
    poller = shop.poller()
    shop.run(poller, until=900)
    before = shop.store.writes
    shop.run(poller, until=3600)
    assert shop.store.writes == before == 1, "its document"


@settings(max_examples=8, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.01, 26), st.sampled_from(["runs", "down", "no database", "no store"])), max_size=6)
)
def test_whatever_is_away_no_night_is_forgotten(steps: list[tuple[float, str]]) -> None:
    """Each step begins with a row. Once a worker runs again for ten minutes, all rows are there that came before the
    last 02:00, in order, and none twice."""
    shop = Shop().had_a_night()
    came: dict[int, float] = {}
    for number, (hours, how) in enumerate(steps, 1):
        shop.comes(number)
        came[number] = shop.clock.passed
        until = shop.clock.passed + hours * 3600
        if how == "down":
            shop.clock.sleep(hours * 3600)
            continue
        poller = shop.poller()
        if how == "no database":
            table(poller).faults += [AWAY] * 1000
        if how == "no store":
            shop.store.away = (shop.clock.passed, until)
        shop.run(poller, until=until)
    shop.run(shop.poller(), until=shop.clock.passed + 600)

    last_two = (shop.clock.passed - AT_TWO) // DAY * DAY + AT_TWO
    seen = [number for _, number in shop.seen]
    assert seen == list(range(1, len(seen) + 1))
    assert len(seen) >= sum(at < last_two for at in came.values())
