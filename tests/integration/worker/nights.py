"""A nightly poller whose processes come and go."""

from __future__ import annotations

from typing import Any

from poller import Batch, Poller
from poller.stores import MemoryStore
from poller.worker import run
from tests.integration.runner.fakes import Table, row
from tests.integration.worker.clock import Clock

NIGHTLY = "0 0 2 * * *"
AT_TWO = 2 * 3600.0


class Shop:
    """Processes of a nightly poller, whose batches of one row take a second each. `seen`: when each came."""

    def __init__(self, rows: int) -> None:
        self.clock = Clock()
        self.store = MemoryStore(self.clock)
        self.rows = [row(number) for number in range(1, rows + 1)]
        self.seen: list[tuple[float, int]] = []

    def poller(self, **options: Any) -> Poller:
        source = Table(self.clock, self.rows)
        return Poller(
            "nightly",
            app_name="shop",
            source=source,
            store=self.store,
            runtime=self.clock,
            observers=[],
            **{"batch_size": 1, "schedule": NIGHTLY, "read_ahead": 0, **options},
        )

    def take(self, batch: Batch) -> None:
        self.clock.sleep(1)
        self.seen += [(self.clock.passed, one["id"]) for one in batch]

    def run(self, poller: Poller, *, seconds: float) -> None:
        """One process, for so long."""
        stop = self.clock.event()

        def ring() -> None:
            self.clock.sleep(seconds)
            stop.set()

        self.clock.start(ring)
        run([poller], "forever", stop, handler=self.take)
