"""What a nightly tick leaves, for lack of time or because it was ended, does not wait for the next night."""

from __future__ import annotations

import base64
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import TypeAlias

import pytest

from poller import TickResult
from poller.dispatch import Dispatcher
from poller.errors import SourceUnavailable
from poller.model import transitions
from poller.model.document import State, decode
from poller.ports import Found
from tests.support.dispatching import APP, Shop, Told

Make: TypeAlias = Callable[..., Shop]
NIGHT = "10 0 12 * * *"


def nightly(shop: Make, **options: object) -> tuple[Shop, Dispatcher]:
    """A nightly poller with four rows, which gets its message in this round."""
    many = shop(1, schedule=NIGHT, **{"batch_size": 1, "max_batches_per_tick": 2, **options})
    dispatcher = many.started()
    many.rows("p0", "p0", "p0", "p0")
    assert [one.why for one in many.round(dispatcher).sent] == ["rows"]
    return many, dispatcher


def tick(shop: Shop) -> TickResult:
    """What the worker of the one message does; the message is gone."""
    (message,) = shop.queue.messages
    shop.queue.take()
    done = shop.work().do(base64.b64decode(message.encode()))
    assert done is not None
    return done[1]


def state_of(shop: Shop) -> State:
    name = f"state/{APP}/p0.json"
    found = shop.store.read(name)
    assert isinstance(found, Found)
    return decode(found.body, location=name, document=name, poller_name="p0")


def served(shop: Shop, dispatcher: Dispatcher, minutes: float = 3) -> None:
    """Rounds and ticks, for some minutes."""
    for _ in range(int(minutes * 6)):
        shop.round(dispatcher)
        if shop.queue.messages:
            tick(shop)


@pytest.mark.guarantee(
    "One worker at a time",
    "Rows that a tick leaves, for lack of time, because its process was killed, or in an outage, do not wait for the"
    " schedule's next moment",
)
def test_rows_left_without_a_successor_come_within_minutes(shop: Make) -> None:
    """Its worker was killed between the commit that gave the lease back and the message."""
    many, dispatcher = nightly(shop)
    assert tick(many).left
    many.queue.take()
    served(many, dispatcher)
    assert sorted(many.seen) == sorted(many.written)
    assert not state_of(many).unfinished


def test_rows_left_come_though_each_round_is_another_process(shop: Make) -> None:
    many, _ = nightly(shop)
    tick(many)
    many.queue.take()
    for _ in range(18):
        many.round(many.dispatcher())
        if many.queue.messages:
            tick(many)
    assert sorted(many.seen) == sorted(many.written)


def test_a_successor_that_waits_is_not_doubled(shop: Make) -> None:
    """The queue is long: the message is there, and comes."""
    many, dispatcher = nightly(shop)
    assert tick(many).left
    assert len(many.queue.messages) == 1
    for _ in range(25):
        assert many.round(dispatcher).sent == []
    assert len(many.queue.messages) == 1


def test_a_killed_successor_is_followed_when_its_lease_ends(shop: Make) -> None:
    many, dispatcher = nightly(shop)
    tick(many)
    many.queue.take()
    many.round(dispatcher)
    held = many.poller("p0")._runner.context.file
    copy = held.read()
    assert copy is not None
    held.write(
        copy,
        lambda state, now: transitions.acquire(state, owner_id="killed", ttl=10.0, now=now),
        deadline=many.clock.monotonic() + 5,
    )
    served(many, dispatcher)
    assert sorted(many.seen) == sorted(many.written)


def test_an_outage_in_the_night_leaves_no_row_for_the_next(shop: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database goes away between two pages; the lease is given back."""
    many, dispatcher = nightly(shop, max_batches_per_tick=0, read_ahead=0)
    many.rows(*["p0"] * 50)

    def away(*_: object, **__: object) -> None:
        raise SourceUnavailable("The database is away.")

    with monkeypatch.context() as outage:
        outage.setattr(many.poller("p0").source, "next_page", away)
        with pytest.raises(SourceUnavailable):
            tick(many)
    assert 0 < len(many.seen) < len(many.written)
    served(many, dispatcher)
    assert sorted(many.seen) == sorted(many.written)


def test_rows_after_a_drained_night_wait_for_the_next(shop: Make) -> None:
    many, dispatcher = nightly(shop, max_batches_per_tick=0)
    assert not tick(many).left
    many.rows("p0", at="2026-04-01 12:00:01")
    for _ in range(60):
        assert many.round(dispatcher).sent == []


def test_what_was_left_and_removed_is_asked_about_once(shop: Make) -> None:
    many, dispatcher = nightly(shop)
    tick(many)
    many.queue.take()
    with closing(sqlite3.connect(many.path)) as database, database:
        database.execute("delete from orders")
    asked = sum(many.round(dispatcher).asked for _ in range(30))
    assert asked == 1
    assert many.queue.messages == []


@pytest.mark.parametrize("paused", [False, True])
def test_a_document_that_rested_a_week_is_written_once_more(shop: Make, paused: bool) -> None:
    """No rows wait, so no other message comes."""
    many, dispatcher = nightly(shop, max_batches_per_tick=0)
    tick(many)
    if paused:
        many.poller("p0").pause()
    served(many, dispatcher)
    many.clock.passes(6.9 * 86_400)
    served(many, dispatcher, 1)
    before = state_of(many)
    many.clock.passes(0.1 * 86_400)
    whys = [one.why for _ in range(30) for one in many.round(dispatcher).sent]
    assert whys.count("unchanged") == 1  # the message waits, and another comes after an hour only
    many.clock.passes(3600)
    assert "unchanged" in [one.why for one in many.round(dispatcher).sent]
    many.queue.messages = many.queue.messages[:1]
    assert tick(many).outcome == ("paused" if paused else "idle")
    assert state_of(many).lease.released_at != before.lease.released_at
    many.clock.passes(3600)
    whys = [one.why for _ in range(12) for one in many.round(dispatcher).sent]
    assert "unchanged" not in whys


def test_a_live_lease_gets_no_message_for_its_documents_age(shop: Make) -> None:
    many, dispatcher = nightly(shop, max_batches_per_tick=0)
    tick(many)
    served(many, dispatcher, 1)
    file = many.poller("p0")._runner.context.file
    copy = file.read()
    assert copy is not None
    file.write(
        copy,
        lambda state, now: transitions.acquire(state, owner_id="slow", ttl=30.0 * 86_400, now=now),
        deadline=many.clock.monotonic() + 5,
    )
    served(many, dispatcher, 1)
    many.clock.passes(8 * 86_400)
    assert [one.why for _ in range(12) for one in many.round(dispatcher).sent] == []


def test_a_poller_that_was_just_created_is_no_operators_change(shop: Make) -> None:
    """Its first tick did what its message asked for: the moment of its schedule is done with."""
    many = shop(1, schedule="0 * * * * *", prober=Told("rows"))
    dispatcher = many.dispatcher()
    many.round(dispatcher, after=0)
    many.queue.take()  # lost; the next is sent after the schedule's moment
    assert [one.why for one in many.round(dispatcher, after=70).sent] == ["no document"]
    tick(many)
    assert [one.why for _ in range(4) for one in many.round(dispatcher).sent] == []
