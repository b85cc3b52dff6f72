"""Whose schedule fell due, and what a dispatcher that starts knows of it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poller.dispatch.probes import Answer, Question
from poller.dispatch.schedules import Schedules
from poller.errors import StoreUnavailable
from poller.model.schedule import Schedule
from poller.ports import Found, Timeout, Written
from poller.stores import MemoryStore
from tests.support.dispatching import APP, Shop, Told

Make: TypeAlias = Callable[..., Shop]
NAME = f"dispatch/{APP}.json"
NIGHTLY, TEN_SECONDS, OFFICE = "0 0 2 * * *", "*/10 * * * * *", "*/10 * 9-16 * * *"
EVENING = datetime(2026, 4, 7, 22, 0, 0, 500_000, tzinfo=UTC)


def at(hour: int, minute: int = 0, second: int = 1, day: int = 8) -> datetime:
    return datetime(2026, 4, day, hour, minute, second, tzinfo=UTC)


def schedules(store: MemoryStore, **texts: str) -> Schedules:
    return Schedules(store, NAME, texts or {"nightly": NIGHTLY, "often": TEN_SECONDS})


def kept(store: MemoryStore) -> datetime:
    found = store.read(NAME)
    assert isinstance(found, Found)
    return datetime.fromisoformat(json.loads(found.body)["looked_at"])


def due(one: Schedules) -> list[str]:
    return sorted(one.due)


def begun(store: MemoryStore, now: datetime = EVENING, **texts: str) -> Schedules:
    one = schedules(store, **texts)
    one.look(now)
    one.keep(now)
    return one


def test_a_moment_falls_due_once() -> None:
    one = begun(MemoryStore())
    one.look(at(22, second=11, day=7))
    assert due(one) == ["often"]
    one.done("often", at(22, second=11, day=7))
    one.look(at(22, second=12, day=7))
    assert due(one) == []


def test_a_moment_that_passes_while_one_waits_is_kept() -> None:
    one = begun(MemoryStore())
    one.look(at(22, second=11, day=7))
    sent = at(22, second=11, day=7)
    one.look(at(22, second=21, day=7))
    assert one.due["often"].since == at(22, second=10, day=7)
    one.done("often", sent)
    assert one.due["often"].since == at(22, second=21, day=7)


def test_who_starts_after_two_knows_that_it_was_not_looked_at() -> None:
    store = MemoryStore()
    begun(store)
    late = schedules(store)
    late.look(at(2, 3))
    assert "nightly" in due(late)


def test_who_starts_after_two_knows_that_it_is_done_with() -> None:
    store = MemoryStore()
    one = begun(store)
    one.look(at(2))
    one.done("nightly", at(2))
    assert one.keep(at(2))
    late = schedules(store)
    late.look(at(2, 3))
    assert "nightly" not in due(late)


def test_what_is_not_done_with_is_due_again_at_the_next_start() -> None:
    store = MemoryStore()
    one = begun(store, nightly=NIGHTLY, other="0 5 2 * * *")
    one.look(at(2))
    one.look(at(2, 6))
    one.done("other", at(2, 6))
    one.keep(at(2, 6))
    assert kept(store) < at(2)
    late = schedules(store, nightly=NIGHTLY, other="0 5 2 * * *")
    late.look(at(2, 7))
    assert "nightly" in due(late)


def test_short_schedules_write_nothing() -> None:
    store = MemoryStore()
    one = begun(store, often=TEN_SECONDS)
    before = kept(store)
    now = EVENING
    for _ in range(100):
        now += timedelta(seconds=5)
        one.look(now)
        one.done("often", now)
        assert not one.keep(now)
    assert kept(store) == before


def test_a_schedule_of_office_hours_does_not_begin_at_night() -> None:
    store = MemoryStore()
    one = begun(store, at(16, 59, 0, day=7), office=OFFICE)
    one.look(at(16, 59, 51, day=7))
    one.done("office", at(16, 59, 51, day=7))
    assert one.keep(at(16, 59, 51, day=7))
    late = schedules(store, office=OFFICE)
    late.look(at(20, day=7))
    assert due(late) == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b'{"looked_at": 5}',
        b'{"looked_at": "2026-04-07"}',
        b"[]",
        b"\xff",
        b'{"looked_at": "0001-01-01T00:00:00+14:00"}',
        b'{"looked_at": "9999-12-31T23:59:59-14:00"}',
        b'{"looked_at": "2026-04-07T12:00:00Z", "until": 5}',
        b'{"looked_at": "2026-04-07T12:00:00Z", "until": "2026-04-07T12:00:00Z", "waiting": ["nightly"]}',
        b'{"looked_at": "2026-04-07T12:00:00Z", "until": "2026-04-07T12:00:00Z", "waiting": {"nightly": null}}',
        b"[" * 100_000,
        b"x" * 2_000_000,
    ],
    ids=range(13),
)
def test_what_somebody_else_wrote_there_is_written_anew(body: bytes) -> None:
    store = MemoryStore()
    store.write(NAME, body, if_tag=None)
    begun(store)
    assert kept(store) == EVENING


def test_a_clock_that_was_ahead_does_not_stop_schedules() -> None:
    store = MemoryStore()
    begun(store, EVENING + timedelta(days=300))
    one = schedules(store)
    one.look(EVENING)
    one.look(EVENING + timedelta(seconds=15))
    assert due(one) == ["often"]


def test_what_a_clock_ahead_wrote_hides_no_night() -> None:
    store = MemoryStore()
    begun(store, EVENING + timedelta(days=300))
    begun(store)
    late = schedules(store)
    late.look(at(2, 3))
    assert "nightly" in due(late)


@pytest.mark.parametrize("jump", [timedelta(minutes=1), timedelta(hours=1), timedelta(days=300)], ids=str)
def test_a_clock_that_jumped_and_came_back_stops_no_schedule(jump: timedelta) -> None:
    store = MemoryStore()
    one = begun(store)
    one.look(EVENING + jump)
    for name in ("often", "nightly"):
        one.done(name, EVENING + jump)
    one.keep(EVENING + jump)
    for seconds in (5, 15):
        now = EVENING + timedelta(seconds=seconds)
        one.look(now)
        one.keep(now)
    assert due(one) == ["often"]
    assert kept(store) < at(2), "and a restart knows of the night"
    one.look(at(2))
    assert due(one) == ["nightly", "often"]
    one.done("nightly", at(2))
    assert due(one) == ["often"]


def test_who_was_served_is_not_served_again_because_of_others() -> None:
    """One nightly poller cannot be served, for hours; dispatchers come and go."""
    store = MemoryStore()
    both = {"served": NIGHTLY, "stuck": NIGHTLY}
    one = begun(store, EVENING, **both)
    one.look(at(2))
    one.done("served", at(2))
    assert one.keep(at(2))
    for hour in (3, 4):
        late = schedules(store, **both)
        late.look(at(hour))
        assert due(late) == ["stuck"]
        assert late.due["stuck"].since == at(2, second=0)


class Refusing(MemoryStore):
    def write(self, name: str, body: bytes, *, if_tag: str | None, timeout: Timeout | None = None) -> Written:
        raise StoreUnavailable("busy", document=name)


def test_a_store_that_does_not_take_it_ends_no_round() -> None:
    one = schedules(Refusing())
    one.look(EVENING)
    assert not one.keep(EVENING)


def test_two_dispatchers_do_not_disturb_each_other() -> None:
    store = MemoryStore()
    one, other = begun(store), begun(store)
    for each in (one, other):
        each.look(at(2))
        each.done("nightly", at(2))
    assert one.keep(at(2))
    assert not other.keep(at(2))
    assert kept(store) == at(2)
    assert other.keep(at(2)), "as it is known then"


@pytest.mark.guarantee(
    "One worker at a time",
    "A dispatcher that starts knows which moments of long schedules were not served",
)
@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(st.tuples(st.integers(1, 9 * 3600), st.booleans(), st.booleans()), max_size=30),
    text=st.sampled_from([NIGHTLY, OFFICE, "0 */5 * * * *", TEN_SECONDS, "0 0 3 1 * *"]),
)
def test_no_long_moment_is_ever_forgotten(steps: list[tuple[int, bool, bool]], text: str) -> None:
    """Whatever restarts there are: once a moment passed that no other follows soon, it is due until it is done with."""
    store, now, done_until = MemoryStore(), EVENING, EVENING
    one = begun(store, now, only=text)
    for seconds, serves, restarts in steps:
        now += timedelta(seconds=seconds)
        if restarts:
            one = schedules(store, only=text)
        one.look(now)
        if Schedule(text).next_after(done_until) <= now and Schedule(text).next_after(now) - now > timedelta(minutes=1):
            assert due(one) == ["only"]
        if serves and one.due:
            one.done("only", now)
            done_until = now
        one.keep(now)


def test_a_restarted_dispatcher_serves_the_night_it_missed(shop: Make) -> None:
    many = shop(2, schedule=NIGHTLY)
    many.started()
    many.rows("p0")
    many.clock.passes(15 * 3600)  # past 02:00; no dispatcher ran meanwhile
    late = many.dispatcher()
    assert [one.poller for one in late.round().sent] == ["p0"]
    assert many.poller("p0").tick().outcome == "delivered"
    for _ in range(2):
        many.round(late)
    many.rows("p1")
    assert many.dispatcher().round().sent == [], "02:00 is done with, and p1's row waits for the next one"


def test_rows_above_a_bound_held_at_two_come_when_it_has_passed(shop: Make) -> None:
    """The last row lies above the bound while a writer holds SQLite's lock; the first one does not."""
    many = shop(1, schedule=NIGHTLY)
    dispatcher = many.started()
    many.rows("p0", at="2026-04-01 12:00:00")
    many.rows("p0", at="2026-04-01 12:00:01")
    with closing(sqlite3.connect(many.path, isolation_level=None)) as writer:
        writer.execute("begin immediate")
        assert len(many.round(dispatcher, after=14 * 3600).sent) == 1
        many.queue.take()
        assert many.poller("p0").tick().rows == 1
        for _ in range(3):
            assert many.round(dispatcher).sent == []
    (sent,) = many.round(dispatcher).sent
    assert (sent.why, sent.due.hour) == ("rows", 2)
    many.queue.take()
    assert many.poller("p0").tick().rows == 1
    for _ in range(2):
        many.round(dispatcher)
    many.rows("p0")
    assert many.round(dispatcher).sent == [], "02:00 is done with"


def test_a_row_above_a_held_bound_makes_no_dispatch_late(shop: Make) -> None:
    """No worker could do more."""
    many = shop(1, schedule=NIGHTLY)
    dispatcher = many.started()
    many.rows("p0")
    with closing(sqlite3.connect(many.path, isolation_level=None)) as writer:
        writer.execute("begin immediate")
        many.clock.passes(14 * 3600)
        for _ in range(3):
            found = many.round(dispatcher)
            assert (found.asked, found.sent, found.late_seconds) == (1, [], 0.0)
        late = many.dispatcher()
        assert many.round(late).asked == 1, "a dispatcher that starts knows of it"
    assert len(many.round(dispatcher).sent) == 1


class Waited(Told):
    """Told about the bound's holder; notes for how long each poller has waited."""

    def __init__(self) -> None:
        super().__init__("held")
        self.seconds: list[float] = []

    def ask(self, questions: Sequence[Question]) -> Mapping[str, Answer]:
        self.seconds += [one.waited for one in questions]
        return super().ask(questions)


def test_a_poller_due_for_days_is_asked_about_its_last_moment(shop: Make) -> None:
    told = Waited()
    many = shop(1, schedule=NIGHTLY, prober=told)
    dispatcher = many.started()
    for hours in (14, 20, 4):
        many.round(dispatcher, after=hours * 3600)
    assert told.seconds == [0.0, 20 * 3600.0, 0.0]


@pytest.mark.parametrize(("schedule", "asked"), [(NIGHTLY, 3), ("*/30 * * * * *", 1)], ids=["nightly", "often"])
def test_a_short_schedule_waits_for_its_next_moment(shop: Make, schedule: str, asked: int) -> None:
    told = Told("held")
    many = shop(1, schedule=schedule, prober=told)
    dispatcher = many.started()
    many.clock.passes(14 * 3600)
    for _ in range(3):
        many.round(dispatcher, after=5)
    assert len(told.asked) == asked
