"""Many pollers that always have rows, and few workers: nobody is forgotten. Time is simulated, second by second."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import TypeAlias

import pytest

from poller.model import transitions
from poller.model.document import State, decode, encode
from poller.ports import Found
from tests.support.dispatching import APP, Shop, Told

Make: TypeAlias = Callable[..., Shop]
MINUTES = 10


class Workers:
    """So many slots, each of which takes a message and works for a second under the poller's lease."""

    def __init__(self, shop: Shop, slots: int) -> None:
        self.shop = shop
        self.slots = slots
        self.ends: list[tuple[float, str]] = []
        self.served: dict[str, list[float]] = {name: [] for name in shop.names}

    def second(self) -> None:
        """Those that are done give their lease back, and others take the next messages."""
        clock = self.shop.clock
        clock.passes(1)
        while self.ends and self.ends[0][0] <= clock.passed:
            _, name = heapq.heappop(self.ends)
            self._write(name, lambda state: transitions.release(state, give_back=False, now=clock.now))
        while len(self.ends) < self.slots and self.shop.queue.messages:
            name = self.shop.queue.messages.pop(0).poller
            if self._state(name).lease.owner_id is None:
                self._write(name, lambda state: transitions.acquire(state, owner_id="w", ttl=10.0, now=clock.now))
                self.served[name].append(clock.passed)
                heapq.heappush(self.ends, (clock.passed + 1, name))

    def _state(self, name: str) -> State:
        found = self.shop.store.read(f"state/{APP}/{name}.json")
        assert isinstance(found, Found)
        return decode(found.body, location=name)

    def _write(self, name: str, change: Callable[[State], State]) -> None:
        found = self.shop.store.read(f"state/{APP}/{name}.json")
        assert isinstance(found, Found)
        body = encode(change(decode(found.body, location=name)))
        self.shop.store.write(f"state/{APP}/{name}.json", body, if_tag=found.tag)

    def longest_wait(self, until: float) -> float:
        """The longest time between two turns of any poller, its first and last included."""
        return max(
            later - earlier
            for turns in self.served.values()
            for earlier, later in zip([0.0, *turns], [*turns, until], strict=True)
        )


def simulate(many: Shop, slots: int, minutes: int = MINUTES) -> Workers:
    dispatcher = many.started()
    began = many.clock.passed
    workers = Workers(many, slots)
    for second in range(minutes * 60):
        if second % 5 == 0:
            dispatcher.round()
        workers.second()
    workers.served = {name: [at - began for at in turns] for name, turns in workers.served.items()}
    return workers


def test_always_busy_pollers_all_have_their_turns(shop: Make) -> None:
    many = shop(50, prober=Told("rows"))
    workers = simulate(many, slots=2, minutes=4)
    assert workers.longest_wait(240) < 180
    turns = sorted(map(len, workers.served.values()))
    assert turns[0] * 3 >= turns[-1], "and nobody has many times as many as another"


@pytest.mark.prove
def test_a_thousand_busy_pollers_wait_three_minutes_at_most(shop: Make) -> None:
    many = shop(1000, prober=Told("rows"))
    workers = simulate(many, slots=40)
    print(f"longest wait {workers.longest_wait(MINUTES * 60):.0f} s")
    assert workers.longest_wait(MINUTES * 60) < 180
