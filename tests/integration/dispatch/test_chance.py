"""Whatever happens to messages, workers, dispatchers and clocks: every row arrives in order, and soon after it."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, TypeAlias

import pytest

from poller.dispatch import Dispatcher
from poller.errors import StoreUnavailable
from poller.model import transitions
from poller.runtime import SystemRuntime
from poller.stores import MemoryStore
from tests.support.dispatching import APP, BEGINNING, Clock, Shop

Make: TypeAlias = Callable[..., Shop]
NIGHTLY = "p3"
STEPS = 120
SOON = 5 * 60 + 60
"""Seconds: nobody knows of a message whether it is lost before this time."""


class ServersTime(SystemRuntime):
    """The store's clock, which is right whatever a process's clock says."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock

    def monotonic(self) -> float:
        return self.clock.passed

    def utcnow(self) -> datetime:
        return BEGINNING + timedelta(seconds=self.clock.passed)


class Chaos:
    """Four pollers, of which one runs at night, two dispatchers, and what may happen to them."""

    def __init__(self, make: Make, seed: int) -> None:
        self.chance = random.Random(seed)
        self.many = many = make(4, batch_size=2, max_batches_per_tick=2)
        many.store = MemoryStore(ServersTime(many.clock))
        many.others[NIGHTLY] = {"schedule": "0 0 2 * * *"}
        self.dispatchers = [many.dispatcher(), many.dispatcher()]
        self.happens: list[Callable[[], object]] = [
            self.rows, self.rows, self.round, self.round, self.round, self.work, self.work, self.work, self.lost,
            self.twice, self.killed_at_work, self.killed_before_its_successor, self.restarted, self.wrong_clock,
            self.paused, self.resumed, self.queue_fails,
        ]  # fmt: skip

    def step(self) -> None:
        self.many.clock.passes(self.chance.choice([0.1, 1.0, 3.0, 10.0, 40.0]))
        self.chance.choice(self.happens)()

    def one(self) -> str:
        return self.chance.choice(self.many.names)

    def rows(self) -> None:
        self.many.rows(*(self.one() for _ in range(self.chance.choice([1, 2, 9]))))

    def round(self, dispatcher: Dispatcher | None = None) -> None:
        try:
            (dispatcher or self.chance.choice(self.dispatchers)).round()
        except StoreUnavailable:
            assert self.many.queue.fails

    def taken(self) -> Any:
        messages = self.many.queue.messages
        return messages.pop(self.chance.randrange(len(messages))) if messages else None

    def work(self) -> None:
        message = self.taken()
        if message is not None:
            self.many.work().do(base64.b64decode(message.encode()))

    def lost(self) -> None:
        self.taken()

    def twice(self) -> None:
        message = self.taken()
        self.many.queue.messages += [message, message] if message else []

    def killed_at_work(self) -> None:
        message = self.taken()
        if message is None:
            return
        held = self.many.poller(message.poller)._runner.context.file
        copy, clock = held.read(), self.many.clock
        if copy is not None and copy.availability(held.timing, clock.monotonic()).free:
            change = transitions.acquire
            held.write(
                copy,
                lambda state, now: change(state, owner_id="killed", ttl=10.0, now=now),
                deadline=clock.passed + 5,
            )

    def killed_before_its_successor(self) -> None:
        message = self.taken()
        if message is not None:
            self.many.poller(message.poller).tick()

    def restarted(self) -> None:
        self.dispatchers[self.chance.randrange(2)] = self.many.dispatcher()

    def wrong_clock(self) -> None:
        self.many.clock.now += timedelta(seconds=self.chance.choice([-7200, -60, -2, 2, 60, 7200, 900_000]))

    def paused(self) -> None:
        poller = self.many.poller(self.one())
        if poller.name in {one.partition("state/shop/")[2][:-5] for one in self.many.store.names("state/")}:
            poller.pause(by="ann")

    def resumed(self) -> None:
        for name in self.many.names:
            if f"state/{APP}/{name}.json" in self.many.store.names("state/"):
                self.many.poller(name).resume(by="ann")

    def queue_fails(self) -> None:
        self.many.queue.fails = not self.many.queue.fails

    def calm(self, seconds: float) -> None:
        """A round every five seconds, and workers for all messages, for so long."""
        ends = self.many.clock.passed + seconds
        while self.many.clock.passed < ends:
            self.many.clock.passes(5)
            self.round(self.dispatchers[0])
            while self.many.queue.messages:
                self.work()

    def missing(self) -> set[tuple[str, int]]:
        return self.many.written - set(self.many.seen)


@pytest.mark.parametrize("seed", [5, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(6, 18))])
def test_whatever_happens_every_row_arrives_in_order(shop: Make, seed: int) -> None:
    chaos = Chaos(shop, seed)
    many = chaos.many
    for _ in range(STEPS):
        chaos.step()
    many.queue.fails = False
    chaos.resumed()
    chaos.calm(SOON)
    assert {poller for poller, _ in chaos.missing()} <= {NIGHTLY}
    night = many.clock.now.replace(hour=1, minute=59, second=0) + timedelta(days=1)
    many.clock.passes((night - many.clock.now).total_seconds())
    chaos.calm(SOON)
    assert chaos.missing() == set()
    for name in many.names:
        first = list(dict.fromkeys(row for poller, row in many.seen if poller == name))
        assert first == sorted(first)
