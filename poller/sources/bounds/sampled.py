"""From samples of open transactions to a bound: what PostgreSQL, MariaDB, SQL Server and Oracle have in common.

A `Sampler` says when the oldest open transaction began, at the earliest. `ByTime` makes a timestamp of it. `ByCounter`
makes a number of it: the value of a sequence, read before a sample, is safe once all open transactions began after that
sample.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from sqlalchemy.engine import Connection

from poller.databases.samplers import Remembering, Sample
from poller.ports import Bound
from poller.sources.bounds.base import BoundContext
from poller.sources.columns.moments import iso_text, remembered

SHOWS_HOLDER_AFTER = 2.0
"""A transaction older than this, in seconds, is named as what holds the bound."""
OPEN_TOO_LONG = "a transaction that is still open holds it"
SET_BACK = "the server's local clock was set back while it was open, so its age is not known"
BLOCKS = "an application may take a block of numbers and write the lower ones later"
"""Why a step other than 1 is a guess: Hibernate and others ask the sequence once for many rows."""
COUNTS_KEPT = 256


class Sampler(Remembering, Protocol):
    """Takes samples of what is open; `kind` as of a `BoundStrategy`."""

    @property
    def kind(self) -> str: ...
    def take(self, connection: Connection) -> Sample:
        """One sample. Raises what the driver raises."""
        ...


class ByTime:
    """The bound of a timestamp: the oldest open transaction's start, less `settle`."""

    def __init__(self, context: BoundContext, sampler: Sampler, reason: str) -> None:
        self._context = context
        self._sampler = sampler
        self._reason = reason
        self.kind = sampler.kind

    def sample(self, connection: Connection) -> Bound:
        """One sample as a bound."""
        seen = self._sampler.take(connection)
        if seen.oldest is None:
            return _unknown(self.kind, seen)
        why = seen.reason or OPEN_TOO_LONG
        bound = self._context.bound(
            seen.oldest - self._context.settle,
            seen.clock,
            kind=self.kind,
            held_by=seen.held_by,
            reason=f"{why}; {self._reason}" if seen.held_by else self._reason,
        )
        return replace(bound, age_seconds=(bound.age_seconds or 0.0) + seen.ago)

    def remember(self) -> dict[str, Any] | None:
        """The sampler's samples."""
        return self._sampler.remember()

    def recall(self, memory: Mapping[str, Any]) -> None:
        """For the sampler."""
        self._sampler.recall(memory)


class ByCounter:
    """The bound of a number that a sequence hands out: `read` gives the first value that was not handed out yet, None
    where the server does not know it.

    `delay`: for how much longer a value must have been handed out, where that was configured."""

    def __init__(
        self,
        sampler: Sampler,
        read: Callable[[Connection], int | None],
        reason: str,
        *,
        delay: timedelta = timedelta(0),
    ) -> None:
        self._sampler = sampler
        self._read = read
        self._reason = reason
        self._delay = delay
        self._counts: list[tuple[datetime, int]] = []
        """When a sample began, and the counter right before it."""
        self.kind = sampler.kind

    def sample(self, connection: Connection) -> Bound:
        """The counter first, the open transactions second."""
        value = self._read(connection)
        bound = self._bound(value or 0, self._sampler.take(connection))
        return replace(bound, next=None if value is None else str(value))

    def _bound(self, value: int, seen: Sample) -> Bound:
        if self._counts and (seen.began < self._counts[-1][0] or value < self._counts[-1][1]):
            self._counts = []  # the clock or the counter went back: earlier counts are worthless
        self._counts.append((seen.began, value))
        if len(self._counts) > COUNTS_KEPT:
            self._counts = [self._counts[0], *self._counts[1:-1:2], self._counts[-1]]
        if seen.oldest is None:
            return _unknown(self.kind, seen)
        since = seen.oldest - self._delay
        safe = [number for number, (began, _) in enumerate(self._counts) if began <= since]
        if not safe:
            return self._nothing_safe(seen)
        self._counts = self._counts[safe[-1] :]
        age = max(0.0, (seen.clock - self._counts[0][0]).total_seconds()) + seen.ago
        return Bound(
            kind=self.kind,
            value=str(self._counts[0][1]),
            age_seconds=age if seen.held_by else None,
            held_by=seen.held_by,
            clock=_text(seen.clock),
            reason=f"{OPEN_TOO_LONG}; {self._reason}" if seen.held_by else self._reason,
        )

    def _nothing_safe(self, seen: Sample) -> Bound:
        if self._delay and seen.oldest is not None and self._counts[0][0] <= seen.oldest:
            reason = f"no value has been there for `settle` yet; {self._reason}"
            return Bound(kind=self.kind, reason=reason, clock=_text(seen.clock))
        return Bound(
            kind=self.kind,
            held_by="transactions that were open at the first sample",
            reason="it is not known yet which values they took",
            clock=_text(seen.clock),
            cold=True,
        )

    def remember(self) -> dict[str, Any] | None:
        """Counts and samples."""
        if not self._counts:
            return None
        kept = self._counts[:1] + self._counts[-8:]
        return {
            "counts": [[began.isoformat(), value] for began, value in dict.fromkeys(kept)],
            "samples": self._sampler.remember(),
        }

    def recall(self, memory: Mapping[str, Any]) -> None:
        """Where this process has taken none."""
        counts = self._counts or [(remembered(began), int(value)) for began, value in memory.get("counts") or ()]
        if memory.get("samples"):
            self._sampler.recall(memory["samples"])
        self._counts = counts  # last: a memory that cannot be read changes nothing


def _unknown(kind: str, seen: Sample) -> Bound:
    return Bound(kind=kind, held_by=seen.held_by, reason=seen.reason, clock=_text(seen.clock), cold=seen.cold)


def _text(clock: datetime) -> str:
    return iso_text(clock.astimezone(UTC), 6, zoned=True)
