"""Pollers of one application that a test of `run` looks at."""

from __future__ import annotations

from typing import Any

from poller import Batch, Poller
from poller.observability import PollerEvent
from poller.ports import Runtime
from poller.stores import MemoryStore
from tests.integration.runner.clockwork import Clockwork
from tests.integration.runner.fakes import Table, row
from tests.integration.worker.clock import Clock


class Shop:
    """Pollers of tables of their own. `seen`: which rows came, as (poller, id); `events`: of all pollers; `enough`:
    after so many failed ticks `clock` says that it is time to stop."""

    def __init__(self, runtime: Runtime | None = None) -> None:
        self.clock = Clock()
        self.runtime = runtime or self.clock
        self.seen: list[tuple[str, int]] = []
        self.events: list[PollerEvent] = []
        self.enough = 10_000
        self.store = MemoryStore(self.clock)

    def poller(self, name: str = "orders", rows: int = 3, *, app_name: str = "shop", **options: Any) -> Poller:
        return Poller(
            name,
            app_name=app_name,
            source=Table(Clockwork(), [row(number) for number in range(1, rows + 1)]),
            store=self.store,
            runtime=self.runtime,
            observers=[self.hear],
            **{"batch_size": 2, "schedule": "* * * * * *", **options},
        )

    def hear(self, event: PollerEvent) -> None:
        self.events.append(event)
        self.enough -= event.name == "tick_failed"
        if not self.enough:
            self.clock.stop.set()

    def take(self, batch: Batch) -> None:
        self.seen += [(batch.poller_name, one["id"]) for one in batch]

    def emitted(self, name: str) -> list[dict[str, Any]]:
        return [event.as_json() for event in self.events if event.name == name]
