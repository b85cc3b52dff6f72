"""Who takes samples: what a dialect is asked (`Asked`), what it answers with (`Sampler`), and what follows open
transactions from look to look (`Followed`)."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from poller.databases.pools import PooledSession
from poller.databases.samplers import Maker, ReadingConnection, Remembering, Sample, SharedSampler, join
from poller.errors import SourceError
from poller.ports import Bound
from poller.sources.bound import SHOWS_HOLDER_AFTER, Marked, Rule, Sampled
from poller.sources.columns import CursorColumn, remembered
from poller.sources.options import ReadOptions

BLOCKS = "an application may take a block of numbers and write the lower ones later"
"""Why a step other than 1 is a guess: Hibernate and others ask the sequence once for many rows."""


@dataclass(frozen=True)
class Asked:
    """What a sampler may know of the source.

    Attributes:
        column: the cursor's. clock: a SELECT of the server's clock in UTC as text; highest: a SELECT of the greatest
            cursor as text; highest_below: the same, of those below `:below`.
    """

    options: ReadOptions
    column: CursorColumn
    clock: sa.Executable
    highest: sa.Executable
    highest_below: sa.Executable


@dataclass(frozen=True)
class Sampler:
    """How samples are taken on connections that lead to one place, and what the bound of them rests on.

    Attributes:
        take: one or more statements on an autocommit connection, BEFORE the page, each transaction ended. May raise
            what the driver raises; the source translates it.
        memory: what earlier samples showed, beside `bound.Memory`.
    """

    rule: Rule
    take: Callable[[Connection], Sampled]
    memory: Remembering | None = None


def no_bound(asked: Asked, reason: str) -> Sampler:
    """Every committed row is read: for tables with a single writer, and for measuring what a bound costs."""
    rule = Rule("none", f"{reason}; rows that commit late are missed", asked.column)
    return Sampler(rule, lambda _: Bound(kind="none", reason=rule.reason))


def delayed(asked: Asked, reason: str) -> Sampler:
    """The fallback: what is older than `settle`. Safe only while no transaction stays open longer."""
    reason, delay = f"{reason}; rows of transactions open longer than `settle` are missed", asked.options.delay
    if not asked.options.is_timed:
        return greatest(asked, Rule("heuristic", reason, asked.column, delay, "seen"))
    return Sampler(Rule("heuristic", reason, asked.column, delay), lambda c: _now(asked, c))


def greatest(asked: Asked, rule: Rule, handed_out: Callable[[Connection], int] | None = None) -> Sampler:
    """For cursors that are not times, or come in order: up to the greatest value that was there long enough ago.
    `handed_out`: the greatest number that the database has handed out, if it keeps count."""

    def take(connection: Connection) -> Marked:
        following = None if handed_out is None else handed_out(connection) + 1
        now = _now(asked, connection)
        value = connection.execute(asked.highest).scalar()
        return Marked(None if value is None else str(value), now, following)

    return Sampler(rule, take)


def _now(asked: Asked, connection: Connection) -> Sample:
    """The server's clock, as if nothing were open."""
    clock = datetime.fromisoformat(connection.execute(asked.clock).scalar_one())
    return Sample(clock, clock, clock)


def shared(
    asked: Asked,
    kind: str,
    reading_of: Callable[[Connection], ReadingConnection | None],
    make: Maker,
    connection: Connection,
) -> SharedSampler:
    """Samples of what is open on a server, shared by all sources of this process. `reading_of`: see
    `ReadingConnection`."""
    session, o = PooledSession.of(connection), asked.options
    return join(
        reading_of(connection) if session is None else session.reading,
        make,
        connection,
        kind=kind,
        ignored=o.bound_ignore_users,
        numbers=not o.is_timed,
        table=o.table or "",
    )


def on_copy(kind: str, table: str | None) -> SourceError:
    """The error for a copy of a database, such as `a standby`, which does not show transactions of its primary."""
    return SourceError(
        f"The database is {kind}: transactions that are open on its primary cannot be seen here.",
        table=table or "",
        next_step='Connect to the primary, or accept the risk with bound = "delay".',
    )


# ------------------------------------------------------------------------------------------- followed from look to look
# What is open on a server, followed from look to look, and from one process to the next: what MariaDB, MySQL and
# `observed` on PostgreSQL have in common.

REMEMBERED = 1_000
"""More open transactions than this are not remembered: the document would grow too large."""
NAMED = 3

Name = TypeVar("Name")
Open = TypeVar("Open")
Called: TypeAlias = Callable[[Sequence[Name]], Sequence[str]]
"""What some of what is open is called, for a person."""


class Followed(ABC, Generic[Name, Open]):
    """The part of a `Tracker` that knows what earlier looks showed.

    Attributes:
        state: what is said of something that holds the bound: it is that since some time.
    """

    state: ClassVar[str] = "open"

    def __init__(self, server: str, ignored: Collection[str]) -> None:
        self.began = float("-inf")
        self._server = server
        self._ignored = frozenset(ignored)
        self._seen: tuple[datetime | None, dict[Name, Open]] = (None, {})
        """The time of the last look, and what was open then. Replaced as a whole, never changed: another thread may
        remember it meanwhile."""
        self._first: datetime | None = None
        """When this process first saw something that is open since an unknown time."""

    @abstractmethod
    def _since(self, one: Open) -> datetime | None:
        """The earliest time since when it is open; None: since before the first look."""

    @abstractmethod
    def _holder(self, name: Name) -> str:
        """What holds the bound, for a person."""

    @abstractmethod
    def _as_json(self, one: Open) -> Any: ...

    @abstractmethod
    def _from_json(self, name: str, found: Any) -> tuple[Name, Open]:
        """Raises what is raised for data that no such process wrote."""

    def _sample(self, clock: datetime, called: Called[Name]) -> Sample:
        """The sample of this moment, from what is known to be open. `called` is used for what was open before the
        first look."""
        since = {name: self._since(one) for name, one in self._seen[1].items()}
        unknown = [name for name, moment in since.items() if moment is None]
        if unknown:
            return self._cold(clock, called, unknown)
        self._first = None
        oldest = min([clock, *filter(None, since.values())])
        holder = None
        if (clock - oldest).total_seconds() > SHOWS_HOLDER_AFTER:
            name = min(since, key=lambda n: since[n] or clock)
            holder = f"{self._holder(name)}, {self.state} since {oldest:%Y-%m-%d %H:%M:%S} or later"
        return Sample(clock, clock, oldest, holder)

    def _cold(self, clock: datetime, called: Called[Name], names: Sequence[Name]) -> Sample:
        """One that stays open for long is named: nothing is read until it ends."""
        first = self._first or clock
        self._first = first
        who = "transactions that were open at the first sample"
        if (clock - first).total_seconds() > SHOWS_HOLDER_AFTER:
            who = f"{_some(called(names))}, {self.state} since before {first:%Y-%m-%d %H:%M:%S}"
        return Sample(clock, clock, None, who, "it is not known yet when they began", cold=True)

    def remember(self) -> dict[str, Any] | None:
        """The last look as JSON; None before the first, and where too much is open to keep."""
        sampled, opened = self._seen
        if sampled is None or len(opened) > REMEMBERED:
            return None
        shown = {str(name): self._as_json(one) for name, one in opened.items()}
        found = {"server": self._server, "sampled_at": sampled.isoformat(), "open": shown}
        return {**found, "ignored": sorted(self._ignored)} if self._ignored else found

    def recall(self, memory: Mapping[str, Any]) -> None:
        """Continue from another process's look at the same server, if it says more than is known here. After a
        fail-over another server's clock counts, and earlier looks do not.

        Raises: as `remembered`, and TypeError, ValueError, for data that no such process wrote.
        """
        sampled = self._newer(memory)
        if sampled is not None:
            self._seen = (sampled, dict(self._from_json(name, found) for name, found in memory["open"].items()))

    def _newer(self, memory: Mapping[str, Any]) -> datetime | None:
        """The time of a remembered look that says more than is known here; else None.

        All pollers of this server would continue from it, so it must not be dated after the server's clock: that clock
        would seem to have gone back, sample after sample. Nor may it leave out a user that is not ignored here.
        """
        if not memory.get("sampled_at") or memory.get("server") != self._server:
            return None
        if not self._ignored.issuperset(memory.get("ignored") or ()):
            return None
        sampled = remembered(memory["sampled_at"])
        known, opened = self._seen
        if known is None:
            return sampled
        ahead = (sampled - known).total_seconds()
        seconds = time.monotonic() - self.began  # since the last look here, or a little less
        cold = any(self._since(one) is None for one in opened.values())
        return sampled if 0 < ahead <= seconds or (cold and ahead <= 0) else None


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
