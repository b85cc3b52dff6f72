"""A poller over a place's table, as a user runs one: tick by tick, with a handler that keeps what it gets."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from poller import Batch, ConfigError, Poller, SourceError, TickResult
from poller.ports import Source, StateStore
from poller.stores import MemoryStore
from tests.contract.sources.place import Place, Reading

BATCH = 7
PATIENCE = 4.0
"""Seconds after the last row for which it is waited for another; only what is refused or lost takes as long."""


@dataclass(frozen=True)
class End:
    """How following ended: `refused` by an error; `waits`, with what its last tick said; or everything was read."""

    refused: SourceError | ConfigError | None = None
    waits: TickResult | None = None

    def says(self) -> str:
        """What the operator is told; empty if nothing is wrong."""
        if self.refused is not None:
            return str(self.refused)
        bound = None if self.waits is None else self.waits.bound
        return "" if bound is None else f"{bound.reason or ''} {bound.held_by or ''}".strip()


class Follower:
    """One process: `again` is the next, with the same document.

    Attributes:
        rows: all that its handler got, and the handlers of those before it, in order.
    """

    def __init__(
        self,
        place: Place,
        reading: Reading,
        *,
        batch: int = BATCH,
        before: Callable[[str], None] | None = None,
        store: StateStore | None = None,
        rows: list[Mapping[str, Any]] | None = None,
    ) -> None:
        self.place, self.reading, self.batch = place, reading, batch
        self.store = store or MemoryStore()
        self.rows: list[Mapping[str, Any]] = [] if rows is None else rows
        self.source: Source = place.source(reading, before=before)
        self.poller = Poller(
            "law", app_name="contract", source=self.source, store=self.store, observers=[], batch_size=batch,
            read_ahead=0,
        )  # fmt: skip
        self._batches = 0
        self._stop = threading.Event()
        self._at: dict[int, Callable[[], None]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.poller.close()

    def again(self, *, before: Callable[[str], None] | None = None) -> Follower:
        """What follows after this process has ended: it knows what the document says, and nothing else."""
        self.poller.close()
        return Follower(self.place, self.reading, batch=self.batch, before=before, store=self.store, rows=self.rows)

    @property
    def numbers(self) -> list[int]:
        """The rows that were delivered, in order."""
        return [row["v"] for row in self.rows]

    def look(self) -> None:
        """Learn of the table without reading a page, as `status` does."""
        self.source.lag(None, cap=10)

    def at_batch(self, number: int, act: Callable[[], None]) -> None:
        """Act in the handler's call with this batch, from 1: after its page, before the next one."""
        self._at[number] = act

    def stop_at(self, number: int) -> None:
        """End the tick after this batch."""
        self._at[number] = self._stop.set

    def tick(self) -> TickResult:
        """As `poller.Poller.tick`."""
        self._stop.clear()
        return self.poller.tick(self._handle, stop=self._stop)

    def _handle(self, batch: Batch) -> None:
        self.rows.extend(dict(row) for row in batch.rows)
        self._batches += 1
        act = self._at.pop(self._batches, None)
        if act is not None:
            act()

    def drain(self, *, patience: float = PATIENCE) -> End:
        """Tick until no row waits, or it refuses, or rows wait in vain."""
        until = time.monotonic() + patience
        quiet = 0
        while True:
            try:
                done = self.tick()
            except (SourceError, ConfigError) as error:
                return End(refused=error)
            quiet = quiet + 1 if done.rows == 0 and not done.pending else 0
            until = time.monotonic() + patience if done.rows else until
            if quiet == 2:
                return End()
            if time.monotonic() > until:
                return End(waits=done)
            if done.rows == 0:
                time.sleep(0.02)
