"""What does not work gets few messages: they occupy workers that others need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from poller.dispatch import WorkMessage
from poller.dispatch.probes import TOLD, Answer
from poller.errors import StoreUnavailable
from poller.ports import Found
from tests.support.dispatching import APP, Shop, Told

Make: TypeAlias = Callable[..., Shop]


class OneDatabase(Told):
    """A database that is asked as the real one is: `away`, or with so many statements in time that do not answer."""

    def __init__(self) -> None:
        super().__init__("rows")
        self.away = False
        self.locked: set[str] = set()

    def ask(self, questions: Any) -> dict[str, Answer]:
        answers: dict[str, Answer] = {}
        for one in questions:
            failed = list(answers.values()).count("failed")
            if self.away:
                answers[one.poller] = "failed" if failed < TOLD else "away"
            elif failed >= 4:
                answers[one.poller] = "later"
            else:
                answers[one.poller] = "failed" if one.poller in self.locked else self.default
        return answers


@pytest.mark.guarantee(
    "One worker at a time",
    "An outage of one database, and tables that are locked, leave workers and looks for other pollers (`[functions] "
    'mode = "queue"`)',
)
def test_an_outage_sends_few_messages_and_each_poller_in_turn(shop: Make) -> None:
    """Every message of these occupies a worker for as long as a connection takes to fail."""
    database = OneDatabase()
    many = shop(40, prober=database)
    database.default = "none"
    dispatcher = many.started()
    database.away = True
    told: list[str] = []
    for _ in range(60):  # ten minutes
        told += [one.poller for one in many.round(dispatcher).sent]
        many.queue.take()
    assert len(told) <= 20 * TOLD
    assert set(told) == set(many.names)
    database.away, database.default = False, "rows"
    found = {one.poller for _ in range(4) for one in many.round(dispatcher).sent if one.why == "rows"}
    assert len(found) >= 40 - 4 * TOLD, "and all of them soon, once it is back"
    for _ in range(3):
        found |= {one.poller for one in many.round(dispatcher).sent}
    assert found == set(many.names)


def test_however_many_tables_are_locked_others_are_served(shop: Make) -> None:
    database = OneDatabase()
    many = shop(60, prober=database)
    database.default = "none"
    dispatcher = many.started()
    database.locked = set(many.names[:50])
    many.clock.passes(10)
    many.round(dispatcher, after=5)
    for _ in range(40):
        many.round(dispatcher, after=5)
    database.default = "rows"
    served = {one.poller for _ in range(3) for one in many.round(dispatcher, after=5).sent if one.why == "rows"}
    assert served == set(many.names[50:])


def test_a_queue_that_is_away_does_not_hold_up_the_round(shop: Make) -> None:
    """Each message that fails takes seconds, and there may be hundreds."""
    many = shop(60, prober=Told("rows"))
    dispatcher = many.started()
    tried: list[str] = []

    def fails(message: WorkMessage) -> None:
        tried.append(message.poller)
        raise StoreUnavailable("No usable answer came for the queue.", document="queue")

    send, many.queue.send = many.queue.send, fails  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable):
        many.round(dispatcher)
    assert len(tried) <= 16
    many.queue.send = send  # type: ignore[method-assign]
    assert len(many.round(dispatcher, after=1).sent) == 60


def test_who_never_ran_is_told_of_rarely_once_that_failed(shop: Make) -> None:
    """A new app whose database is away: each message occupies a worker until a connection fails."""
    many = shop(1)
    dispatcher, sent = many.dispatcher(), list[int]()
    for _ in range(360):
        sent.append(len(many.round(dispatcher).sent))
        many.queue.take()
    assert sum(sent[:6]) >= 2, "the first one may have been lost"
    assert sum(sent) <= 33, "an hour: five minutes often, then every five"


def test_what_only_an_operator_mends_is_told_every_five_minutes(shop: Make) -> None:
    """An unreadable document of a nightly poller, and nobody who looks for hours."""
    many = shop(1, schedule="0 0 2 * * *")
    dispatcher = many.started()
    name = f"state/{APP}/p0.json"
    found = many.store.read(name)
    assert isinstance(found, Found)
    many.store.write(name, b"{", if_tag=found.tag)
    many.clock.passes(14 * 3600)
    sent = 0
    for _ in range(360):
        sent += len(many.round(dispatcher).sent)
        many.queue.take()
    assert sent == 12
