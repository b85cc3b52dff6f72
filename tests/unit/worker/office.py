"""Pollers that take turns in simulated time: each tick lasts as long as its script says, none of it is waited for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from random import Random

from poller.worker.turns import Turns


@dataclass
class Office:
    """`seconds`: how long each tick of a poller takes, by name. `rest`: from a tick's end to the next due moment; None:
    the multiple of 10 seconds that comes next. `fails`: pollers whose ticks fail, and back off, doubling. `handlers`:
    those whose ticks are calls of their handlers, which go on when they are asked to yield."""

    slots: int
    servers: dict[str, str]
    seconds: Callable[[str], float]
    rest: float | None = None
    slice: float = 30.0
    fails: frozenset[str] = frozenset()
    handlers: frozenset[str] = frozenset()
    seed: int = 1
    ticks: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    waits: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    order: list[str] = field(default_factory=list)
    most_at_once: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    most: int = 0

    def run(self, until: float) -> None:
        """From 0 to `until` seconds. A tick that is asked to yield ends at once, and what is left of it comes later."""
        chance, now = Random(self.seed), 0.0

        def in_handler(name: str) -> float:
            return now - began[name] if name in self.handlers else 0.0

        turns = Turns[str](self.slots, draw=chance.random, slice=self.slice, in_handler=in_handler)
        due = dict.fromkeys(self.servers, 0.0)
        left = dict.fromkeys(self.servers, 0.0)
        failures: dict[str, int] = defaultdict(int)
        began: dict[str, float] = {}
        ends: list[tuple[float, str]] = []
        for name, server in self.servers.items():
            turns.join(name, server, 0.0)
        while now <= until:
            while ends and ends[0][0] <= now:
                _, name = heappop(ends)
                if name not in began:
                    continue
                del began[name]
                left[name] = 0.0
                self.ticks[name] += 1
                failures[name] = failures[name] + 1 if name in self.fails else 0
                pause = min(300.0, 2.0 ** failures[name]) if failures[name] else 0.0
                due[name] = self._next(now + pause)
                turns.put_back(name, due[name])
            turns.let_go(now)
            while (started := turns.start(now)) is not None:
                self.order.append(started)
                self.waits[started].append(now - due[started])
                began[started] = now
                left[started] = left[started] or self.seconds(started)
                heappush(ends, (now + left[started], started))
                self._count(began)
            for name in turns.to_yield(now):
                if name in self.handlers or left[name] > 1e6:
                    continue  # a call, or a query that hangs
                left[name] -= now - began.pop(name)
                ends = [one for one in ends if one[1] != name]
                due[name] = now
                turns.put_back(name, now)
            moments = [ends[0][0]] if ends else []
            coming = turns.next_moment(now)
            moments += [] if coming is None else [coming]
            now = max(now + 1e-6, min(moments))
        for name in turns.resting():
            self.waits[name].append(max(0.0, until - due[name]))

    def _next(self, now: float) -> float:
        return now + self.rest if self.rest is not None else (now // 10 + 1) * 10

    def _count(self, began: dict[str, float]) -> None:
        self.most = max(self.most, len(began))
        at_once: dict[str, int] = defaultdict(int)
        for name in began:
            at_once[self.servers[name]] += 1
        for server, count in at_once.items():
            self.most_at_once[server] = max(self.most_at_once[server], count)

    def longest_wait(self, *names: str) -> float:
        return max(wait for name in names or self.waits for wait in self.waits[name])
