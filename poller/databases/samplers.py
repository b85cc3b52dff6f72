"""Samples of the open transactions of a database server, shared by all readers of this process (sources.md, "Rules for
every bound").

Ten pollers that each looked at one MariaDB starved each other: its view of open transactions does not refresh while it
is read more often than every 0.1 s. So there is one *line* per server, database, user, kind and ignored users. A line
has the last sample and a *tracker*, which takes samples and knows the earlier ones. A reader that needs a newer sample
takes it on its own connection while the others wait, and they share it.

What makes a shared sample safe:
- It was complete before its reader got it, and so before that reader's page begins.
- It is of the same server: a reader joins by the server's identity, read on its own connection when that opened. Where
  a pooler may lead one connection to several servers, nothing is shared.
- Numbers of a sequence need a sample that began after the number was read: such readers get no other.
- A reader never gets a sample whose clock lies before one that it knows of (another process's, by the document).

Samples leave out sessions that this process holds for reading: they cannot write, and would only delay each other.
"""

from __future__ import annotations

import copy
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeAlias, TypeVar
from weakref import finalize

from sqlalchemy.engine import Connection

from poller import forks
from poller.errors import SourceError

FOUR_BYTES = 2**32
"""Some drivers know no more of a session's number than these."""
WINDOW = 0.05
"""Seconds: how old another reader's sample may be. A reader that asks again sooner gets a later sample only."""
SHOWS_HOLDER_AFTER = 2.0
"""A transaction older than this, in seconds, is named as what holds the bound."""
PATIENCE = 2.0
"""Seconds: a reader that waited this long for another's sample starts a new line, since that connection hangs."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What is open now.

    Attributes:
        began, clock: the server's clock at the first and last look of this sample, zone-aware UTC.
        oldest: no open transaction began earlier; None if that is not known.
        held_by, reason: who holds the bound and what to do, if any; cold: unknown because sampling has just begun.
        again: an earlier look's result, returned once more; ago: seconds since `clock`, as far as known.
    """

    began: datetime
    clock: datetime
    oldest: datetime | None
    held_by: str | None = None
    reason: str | None = None
    cold: bool = False
    again: bool = False
    ago: float = 0.0


class Remembering(Protocol):
    """What another process can continue from. A class whose samples are all complete derives from it as it is."""

    def remember(self) -> dict[str, Any] | None:
        """What is known, as JSON; None if there is nothing."""
        return None

    def recall(self, memory: Mapping[str, Any]) -> None:  # noqa: ARG002 - see above
        """Continue from what another process remembered, if that is newer than what this one knows; `clock`: the
        highest that it saw."""
        return


class Tracker(Remembering, Protocol):
    """Takes one sample after another, each with what the earlier ones showed. Used by one thread at a time; a copy
    taken meanwhile knows too little rather than something wrong (`_Line.copy`)."""

    @property
    def kind(self) -> str:
        """The `Bound.kind`."""
        ...

    @property
    def began(self) -> float:
        """When the last sample's first statement was sent, by `time.monotonic`."""
        ...

    def take(self, connection: Connection, own: Collection[str], *, later: bool) -> Sample:
        """One sample. Raises what the driver raises.

        Args:
            own: sessions of this process that only read. later: an earlier look's result is not enough.
        """
        ...


Maker: TypeAlias = Callable[[Connection], Tracker]


class ReadingConnection(NamedTuple):
    """A connection that is held for reading, in autocommit.

    Attributes:
        server: the server and its start: another value after a restart. database: empty if one sample covers all
            databases. user: of the connection.
        session: the server's name for this session, not reused while this server runs; empty if it was entered
            by its pool.
    """

    server: str
    database: str
    user: str
    session: str


class _Key(NamedTuple):
    server: str
    database: str
    user: str
    kind: str
    ignored: frozenset[str]


class _Line:
    """`lock` is held while a sample is taken; `last` and its `began` are what is shared."""

    def __init__(self, tracker: Tracker | None = None) -> None:
        self.lock = threading.Lock()
        self.tracker = tracker
        self.last: Sample | None = None
        self.began = float("-inf")

    def copy(self) -> _Line:
        """A line that knows what this one knows, in which a reader hangs."""
        return _Line(copy.copy(self.tracker))


class Samplers:
    """All lines, and the reading sessions of this process. Safe to use from several threads."""

    def __init__(self) -> None:
        self._start()
        forks.in_child(self._start)

    def _start(self) -> None:
        self._guard = threading.RLock()  # re-entrant: a garbage-collected reader leaves in any thread, at any point
        self._lines: dict[_Key, _Line] = {}
        self._readers: dict[_Key, int] = {}
        self._sessions: dict[str, tuple[str, ...]] = {}

    def join(
        self,
        reading: ReadingConnection,
        make: Maker,
        connection: Connection,
        *,
        kind: str,
        ignored: Collection[str],
        numbers: bool,
        table: str = "",
    ) -> SharedSampler:
        """A reader of the line for this server. It leaves when it is garbage-collected.

        Args:
            make: makes the line's tracker, if this is the first reader. numbers: see `SharedSampler`.
            table: for errors.
        Raises: what `make` raises.
        """
        key = _Key(reading.server, reading.database, reading.user, kind, frozenset(ignored))
        with self._guard:
            self._readers[key] = self._readers.get(key, 0) + 1
            if reading.session:
                self.enter(key.server, reading.session)
        joined = SharedSampler(self, key, make, numbers=numbers, table=table)
        finalize(joined, self._leave, key, reading.session).atexit = False
        joined.prepare(connection)
        return joined

    def own(self, server: str) -> tuple[str, ...]:
        """Sessions on this server that this process holds for reading."""
        return self._sessions.get(server, ())

    def enter(self, server: str, session: str) -> None:
        """This process holds one more session for reading, until `leave`."""
        with self._guard:
            self._sessions[server] = (*self.own(server), session)

    def leave(self, server: str, session: str) -> None:
        """The session is closed."""
        with self._guard:
            sessions = list(self.own(server))
            if session in sessions:
                sessions.remove(session)
            if sessions:
                self._sessions[server] = tuple(sessions)
            else:
                self._sessions.pop(server, None)

    def line(self, key: _Key) -> _Line:
        """The line in use."""
        with self._guard:
            return self._lines.setdefault(key, _Line())

    def abandon(self, key: _Key, line: _Line) -> None:
        """Replace a line in which a reader hangs, unless another reader did."""
        with self._guard:
            if self._lines.get(key) is line:
                self._lines[key] = line.copy()

    def _leave(self, key: _Key, session: str) -> None:
        with self._guard:
            left = self._readers.get(key, 0) - 1
            if left > 0:
                self._readers[key] = left
            else:
                self._readers.pop(key, None)
                self._lines.pop(key, None)
            if session:
                self.leave(key.server, session)


SHARED = Samplers()
"""This process's."""
ALONE = ReadingConnection("", "", "", "")
"""It is unknown where a connection leads: its samples are not shared."""


def session_of(connection: Connection) -> int | None:
    """The driver's number of this session, which differs from the server's behind a pooler; None if the driver has
    none."""
    driver: Any = connection.connection.dbapi_connection
    for found in (
        getattr(getattr(driver, "info", None), "backend_pid", None),  # psycopg, psycopg2
        getattr(driver, "thread_id", None),  # pymysql, mysqlclient
        getattr(driver, "connection_id", None),  # mariadb, mysql.connector
    ):
        number = found() if callable(found) else found
        if isinstance(number, int):
            return number
    return None


class SharedSampler:
    """One reader of a line; used by one thread at a time. `numbers`: its cursor is a number that a sequence hands out,
    so that it needs samples that began after it asked."""

    def __init__(self, samplers: Samplers, key: _Key, make: Maker, *, numbers: bool, table: str) -> None:
        self._samplers = samplers
        self._key = key
        self._make = make
        self._numbers = numbers
        self._table = table
        self._handed_over = float("-inf")
        self._known: datetime | None = None
        """The highest clock that another process saw."""

    def prepare(self, connection: Connection) -> Tracker:
        """The line's tracker, made now if there is none. Raises what making it raises."""
        line = self._enter()
        try:
            return self._tracker(line, connection)
        finally:
            line.lock.release()

    def take(self, connection: Connection) -> Sample:
        """A sample that was complete when this returns. Raises what the driver raises, SourceError (a standby)."""
        asked = time.monotonic()
        line = self._enter()
        try:
            last = line.last
            if last is None or not self._is_enough(last, line.began, asked):
                later = self._numbers or (last is not None and self._is_behind(last))
                last = self._taken(line, connection, later=later)
            elif not last.again:
                last = replace(last, ago=time.monotonic() - line.began)
        except SourceError as error:
            error.table = error.table or self._table
            raise
        finally:
            line.lock.release()
        self._handed_over = time.monotonic()
        return last

    def remember(self) -> dict[str, Any] | None:
        """As `Tracker.remember`."""
        tracker = self._samplers.line(self._key).tracker
        return None if tracker is None else tracker.remember()

    def recall(self, memory: Mapping[str, Any]) -> None:
        """As `Tracker.recall`; `clock`: the highest that the other process saw. Skipped while a sample is being taken,
        which will know as much."""
        if memory.get("clock"):
            self._known = remembered(memory["clock"])
        line = self._samplers.line(self._key)
        if line.tracker is None or not line.lock.acquire(blocking=False):
            return
        try:
            line.tracker.recall(memory)
        finally:
            line.lock.release()

    def _is_enough(self, last: Sample, began: float, asked: float) -> bool:
        if self._is_behind(last):
            return False
        if began >= asked:
            return not (self._numbers and last.again)
        young = asked - began <= WINDOW and asked - self._handed_over > WINDOW
        return young and not self._numbers

    def _is_behind(self, last: Sample) -> bool:
        return self._known is not None and last.clock < self._known

    def _taken(self, line: _Line, connection: Connection, *, later: bool) -> Sample:
        tracker = self._tracker(line, connection)
        line.last = tracker.take(connection, self._samplers.own(self._key.server), later=later)
        line.began = tracker.began
        return line.last

    def _tracker(self, line: _Line, connection: Connection) -> Tracker:
        if line.tracker is None:
            line.tracker = self._make(connection)
        return line.tracker

    def _enter(self) -> _Line:
        """The line in use, its lock taken."""
        while True:
            line = self._samplers.line(self._key)
            if not line.lock.acquire(timeout=PATIENCE):
                self._samplers.abandon(self._key, line)
                continue
            if self._samplers.line(self._key) is line:
                return line
            line.lock.release()  # it hung, and another reader replaced it while we waited


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


def remembered(text: Any) -> datetime:
    """A moment that an earlier process remembered of the bound, in UTC. The document may have been edited: raises
    ValueError, TypeError or OverflowError where it is not a moment with a zone.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("a moment without a zone")
    return moment.astimezone(UTC)
