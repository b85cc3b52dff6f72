"""The arithmetic. Rates are per second, prices in a currency of your choice."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

SECONDS_OF_A_MONTH = 30 * 86_400
PER_LISTING = 5_000
"""Documents that one LIST names."""
LISTED_BYTES = 640
"""Bytes that a LIST has for one document."""
LIST_CPU = 0.0002
"""Processor seconds to read one document's entry of a LIST (scale.md)."""
PROBE = 0.00007
"""Seconds that one poller's question takes on a connection (scale.md)."""
TICK_READS, TICK_WRITES = 1, 2
"""Requests of a tick that delivers one batch: a GET, the acquire, and the commit that gives the lease back."""
MESSAGE_REQUESTS = 3
"""A message is put, got and deleted."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Of one storage account; look yours up."""

    account: float = 20_000.0
    blob: float = 500.0
    queue: float = 2_000.0


@dataclass(frozen=True, kw_only=True)
class Prices:
    """Of 10,000 operations, of a GB and second of a function, and of a million executions. Examples: look yours up."""

    write: float = 0.05
    read: float = 0.004
    queue: float = 0.004
    gb_second: float = 0.000026
    million: float = 0.40


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is planned.

    Attributes:
        pollers: how many. busy: the part of them that has rows at any time. every: seconds between two ticks of one.
        round: seconds between two rounds of the dispatcher. tick: seconds that a tick with rows takes.
        memory: GB of an instance.
    """

    pollers: int = 1_000
    busy: float = 0.05
    every: float = 10.0
    round: float = 5.0
    tick: float = 1.0
    memory: float = 2.0

    @property
    def ticks(self) -> float:
        """Ticks with rows per second."""
        return self.pollers * self.busy / max(self.every, self.tick)


@dataclass(frozen=True)
class Line:
    """How much is used of what there is: `used` of `limit`."""

    what: str
    used: float
    limit: float

    @property
    def share(self) -> float:
        """1.0: all of it."""
        return self.used / self.limit


def queue_mode(plan: Plan, limits: Limits) -> Iterator[Line]:
    """What `[functions] mode = "queue"` needs of each thing that ends."""
    listings = math.ceil(plan.pollers / PER_LISTING) / plan.round
    yield Line(
        "requests to the account", listings + plan.ticks * (TICK_READS + TICK_WRITES + MESSAGE_REQUESTS), limits.account
    )
    yield Line("messages of the queue", plan.ticks, limits.queue)
    yield Line("writes to one document", TICK_WRITES / max(plan.every, plan.tick), limits.blob)
    yield Line("one processor, reading lists", plan.pollers * LIST_CPU / plan.round, 1.0)
    yield Line("one connection, asking all pollers of one database", plan.pollers * PROBE / plan.round, 1.0)


def slots(plan: Plan) -> int:
    """Ticks at once."""
    return math.ceil(plan.ticks * plan.tick)


def month(plan: Plan, prices: Prices) -> dict[str, float]:
    """What a month costs: with a timer for each poller, and with a queue. Each execution is billed for a second at
    least."""
    second = prices.gb_second * plan.memory
    execution = prices.million / 1e6
    looks = plan.pollers / plan.every * SECONDS_OF_A_MONTH
    rounds = SECONDS_OF_A_MONTH / plan.round
    ticks = plan.ticks * SECONDS_OF_A_MONTH
    work = ticks * (TICK_WRITES * prices.write + TICK_READS * prices.read) / 1e4
    timers = looks * (max(1.0, plan.busy * plan.tick) * second + execution + prices.read / 1e4) + work
    queued = rounds * (second + execution + math.ceil(plan.pollers / PER_LISTING) * prices.write / 1e4)
    queued += ticks * (max(1.0, plan.tick) * second + execution + MESSAGE_REQUESTS * prices.queue / 1e4) + work
    return {"timer": timers, "queue": queued}


def least_batch(rows: float, limits: Limits) -> int:
    """The smallest batch with which one document, written once a batch, allows so many rows per second."""
    return math.ceil(rows / limits.blob)
