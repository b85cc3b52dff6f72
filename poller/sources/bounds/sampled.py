"""From samples of what is open to a bound: the part that PostgreSQL, MariaDB, SQL Server and Oracle have in common.

A `Sampler` tells since when, at the earliest, any transaction has been open. `ByTime` makes a timestamp of it.
`ByCounter` makes a number of it: the value of a sequence, read before a sample, is safe once all that is open began
after that sample.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from sqlalchemy.engine import Connection

from poller.ports import Bound
from poller.sources.bounds.base import BoundContext
from poller.sources.moments import iso_text

SHOWS_HOLDER_AFTER = 2.0
"""A transaction that is older than so many seconds is named as what holds the bound."""
OPEN_TOO_LONG = "a transaction that is still open holds it"
SET_BACK = "the server's local clock was set back while it was open, so its age is not known"
REMEMBERED = 1_000
"""More open transactions than these are not written down: the document would grow too large."""
COUNTS_KEPT = 256
NAMED = 3


def some(told: Sequence[str]) -> str:
    """The first few by name, and how many more there are."""
    more = f" and {len(told) - NAMED} more" if len(told) > NAMED else ""
    return ", ".join(told[:NAMED]) + more


@dataclass(frozen=True, slots=True)
class Sample:
    """What is open now.

    Attributes:
        began, clock: the server's clock at the first and last look of this sample, zone-aware UTC.
        oldest: nothing that is open began earlier; None where that is not known.
        held_by, reason: who holds it and what to do, where somebody does; cold: nothing is known because the samples
            have only begun.
    """

    began: datetime
    clock: datetime
    oldest: datetime | None
    held_by: str | None = None
    reason: str | None = None
    cold: bool = False


class Sampler(Protocol):
    """Looks at what is open, in statements of its own."""

    @property
    def kind(self) -> str:
        """What `Bound.kind` will say."""
        ...

    def take(self, connection: Connection) -> Sample:
        """One sample. Raises what the driver raises."""
        ...

    def remember(self) -> dict[str, Any] | None:
        """As `BoundTaker.remember`."""
        ...

    def recall(self, memory: Mapping[str, Any]) -> None:
        """As `BoundTaker.recall`."""
        ...


class ByTime:
    """The bound of a timestamp: the oldest open transaction's start, less the margin."""

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
        return self._context.bound(
            seen.oldest - self._context.margin - self._context.extra_delay,
            seen.clock,
            kind=self.kind,
            held_by=seen.held_by,
            reason=f"{OPEN_TOO_LONG}; {self._reason}" if seen.held_by else self._reason,
        )

    def remember(self) -> dict[str, Any] | None:
        """The sampler's samples."""
        return self._sampler.remember()

    def recall(self, memory: Mapping[str, Any]) -> None:
        """For the sampler."""
        self._sampler.recall(memory)


class ByCounter:
    """The bound of a number that a sequence hands out: `read` gives the first value that was not handed out yet.

    `delay`: how much longer a value must have been handed out, where that was asked for."""

    def __init__(
        self,
        sampler: Sampler,
        read: Callable[[Connection], int],
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
        seen = self._sampler.take(connection)
        if self._counts and seen.began < self._counts[-1][0]:
            self._counts = []  # the clock went back: times before and after do not compare
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
        return Bound(
            kind=self.kind,
            value=str(self._counts[0][1]),
            held_by=seen.held_by,
            clock=_text(seen.clock),
            reason=f"{OPEN_TOO_LONG}; {self._reason}" if seen.held_by else self._reason,
        )

    def _nothing_safe(self, seen: Sample) -> Bound:
        if self._delay and seen.oldest is not None and self._counts[0][0] <= seen.oldest:
            reason = f"no value has been there for commit_delay yet; {self._reason}"
            return Bound(kind=self.kind, reason=reason, clock=_text(seen.clock))
        return Bound(
            kind=self.kind,
            held_by="transactions that were open at the first sample",
            reason="nothing is known yet of the values they took",
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
        if not self._counts and memory.get("counts"):
            self._counts = [(datetime.fromisoformat(began), int(value)) for began, value in memory["counts"]]
        if memory.get("samples"):
            self._sampler.recall(memory["samples"])


def _unknown(kind: str, seen: Sample) -> Bound:
    return Bound(kind=kind, held_by=seen.held_by, reason=seen.reason, clock=_text(seen.clock), cold=seen.cold)


def _text(clock: datetime) -> str:
    return iso_text(clock.astimezone(UTC), 6, zoned=True)
