"""What the rules need from the outside world, and nothing about who provides it.

Three ports: a *store* keeps bytes under names and tags and knows nothing of leases; a *source* reads pages of rows and
knows nothing of checkpoints; a *runtime* is time, threads and chance, so that a simulation can be all three.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeAlias, runtime_checkable

from poller.errors import SourceError
from poller.model.cursor import Cursor
from poller.model.finding import Finding
from poller.model.fingerprint import SourceDescription
from poller.model.timing import Timeout

__all__ = [
    "DEFAULT_TIMEOUT",
    "Bound",
    "Event",
    "Found",
    "InspectableSource",
    "Lag",
    "Lock",
    "Missing",
    "Page",
    "Row",
    "Runtime",
    "Source",
    "SourceCheckup",
    "StateStore",
    "Task",
    "TimedSource",
    "Timeout",
    "Unchanged",
    "Written",
]

Row: TypeAlias = Mapping[str, Any]


# --- the store


DEFAULT_TIMEOUT = Timeout(connect=2.0, read=5.0)
"""What a call to a store obeys where it is given no `timeout` of its own."""


@dataclass(frozen=True, slots=True)
class Found:
    """A document as it was read: its bytes, its tag, and the server's two times (None where a store has none).

    `server_time` is the server's clock at the answer (`Date`), `modified_at` when this version was written
    (`Last-Modified`); both zone-aware UTC. Precision may be a second.
    """

    body: bytes
    tag: str
    server_time: datetime | None
    modified_at: datetime | None


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The document still carries the tag the reader named (a 304)."""

    server_time: datetime | None


@dataclass(frozen=True, slots=True)
class Missing:
    """There is no such document (nor, perhaps, the container or table it would be in)."""

    server_time: datetime | None


@dataclass(frozen=True, slots=True)
class Written:
    """A write that was applied: the new tag, and the server's two times as for `Found`."""

    tag: str
    server_time: datetime | None
    modified_at: datetime | None


class StateStore(Protocol):
    """Bytes under names, changed by compare-and-swap. One `read` is one GET, one `write` is one PUT, no retries inside.

    Names are slash-separated: `state/{app}/{poller}.json`, `audit/{app}/{poller}.jsonl`, `backups/...`, `control/...`.
    Implementations are safe to call from several threads.
    """

    def read(
        self, name: str, *, unless: str | None = None, timeout: Timeout | None = None
    ) -> Found | Unchanged | Missing:
        """Read one document. With `unless=tag`, `Unchanged` when it still has that tag. Of a document that is larger
        than `poller.model.limits.LARGEST_BODY` only so many bytes and one more are read: it is none of ours.

        Raises: StoreUnavailable, StoreDenied.
        """
        ...

    def write(self, name: str, body: bytes, *, if_tag: str | None, timeout: Timeout | None = None) -> Written:
        """Replace the document that has exactly this tag; with `if_tag=None`, create it where none exists.

        Raises: WriteConflict (the tag is another, the document exists already, or it was deleted), StoreUnavailable
        (unknown whether it was applied), StoreDenied.
        """
        ...

    def append(self, name: str, line: str, *, timeout: Timeout | None = None) -> None:
        """Append one line (without its newline) to a log document, made on first use. Raises as `write`."""
        ...

    def lines(self, name: str, *, limit: int | None = None) -> list[str]:
        """The last `limit` lines of a log document, oldest first; empty where there is none. Raises as `read`."""
        ...

    def names(self, prefix: str) -> Iterator[str]:
        """Names of documents and logs that begin with `prefix`, in order. Raises as `read`."""
        ...

    def locate(self, name: str) -> str:
        """Where `name` is, for a person: `blob state/shop/orders.json in container db-state of ...`; no secrets."""
        ...

    def close(self) -> None:
        """Let go of connections. The store may be used again afterwards."""
        ...


# --- the source


@dataclass(frozen=True, slots=True)
class Bound:
    """Below what rows are read, and why (sources.md, "Rows that commit late").

    `kind`: exact, observed, observed-strict, heuristic, none, ... ; `value`: the bound in the cursor column's own text
    form, None where there is no bound or it is not known yet; `at`: the same as a time, where it is one;
    `age_seconds`: how far it lies behind the database's clock; `held_by`: who or what holds it, for a person;
    `clock`: the database's clock at the sample, as text; `reason`: why it did not advance, or why this kind was taken;
    `inclusive`: rows at the bound are read too; `next`: the first value that the server has not handed out yet, where
    the cursor is a number that it hands out; `cold`: nothing is known only because this process has just begun to
    look, and rows wait for it, so what it saw so far is worth keeping; `clock_went_back`: the clock is lower than one
    seen before, and is waited for; `below_checkpoint`: the server has not come as far as the checkpoint, so no row is
    read.
    """

    kind: str
    value: str | None = None
    at: datetime | None = None
    age_seconds: float | None = None
    held_by: str | None = None
    clock: str | None = None
    reason: str | None = None
    inclusive: bool = False
    cold: bool = False
    clock_went_back: bool = False
    below_checkpoint: bool = False
    next: str | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """Rows in cursor order, each with the cursor that stands right after it, read below `bound`.

    `cursors` has one entry per row and may be computed lazily.
    """

    rows: Sequence[Row]
    cursors: Sequence[Cursor]
    bound: Bound


@dataclass(frozen=True, slots=True)
class Lag:
    """How far behind: the age in seconds of the oldest row not yet delivered, by the database's clock (None where the
    cursor is no time), and how many are pending, counted up to a cap (`pending_capped` when the cap was reached)."""

    seconds: float | None
    pending: int
    pending_capped: bool = False


class Source(Protocol):
    """A table or query that can be read in (cursor, primary key) order. Used by one thread at a time."""

    def describe(self) -> SourceDescription:
        """The non-secret description that the fingerprint hashes. Needs no connection."""
        ...

    def start(self) -> Cursor | None:
        """The cursor that the source's `start_from` (`beginning`, `now`, or a cursor value) means; None: the beginning.

        `now` is the bound of this moment with `tiebreaker=None`, meaning at or after (design, "The state document").
        Raises: SourceError (a value the column does not take), SourceUnavailable.
        """
        ...

    def page(self, after: Cursor | None, limit: int) -> Page:
        """Up to `limit` rows after a cursor and below the bound of this moment, as a snapshot of its own.

        Raises: SourceUnavailable (unreachable, `query_timeout`), SourceError (unknown table or column, NULL cursor...).
        """
        ...

    def lag(self, after: Cursor | None, *, cap: int) -> Lag:
        """How far behind `after` is: one bounded query. Raises as `page`."""
        ...

    def key(self, row: Row, cursor: Cursor) -> str:
        """A stable idempotency key of one version of one row: table, key and cursor text."""
        ...

    def remember(self) -> dict[str, Any] | None:
        """What a later process needs to know of the bound, as JSON: the highest clock seen, the last bound, samples."""
        ...

    def recall(self, memory: Mapping[str, Any]) -> None:
        """Take in what an earlier process remembered. Raises nothing, also for what it does not understand."""
        ...

    def close(self) -> None:
        """Let go of connections. The source may be used again afterwards."""
        ...


@runtime_checkable
class TimedSource(Protocol):
    """A source that says how long one of its queries may take. The tick keeps its lease for the few of a page, with
    any other source for a fixed time."""

    @property
    def query_timeout(self) -> timedelta: ...


class SourceCheckup(Protocol):
    """What a source finds where it looks at itself: findings, and how many seconds the database's clock is ahead of
    ours (None where it was not read)."""

    @property
    def findings(self) -> list[Finding]: ...
    @property
    def offset_seconds(self) -> float | None: ...


@runtime_checkable
class InspectableSource(Source, Protocol):
    """A source that answers what operators ask: where a cursor leads, what stands between two, and whether all is well.

    `poller.sources.SqlSource` is one. A poller runs without: what needs an answer is then left out, or refused with a
    clear error where it is the answer itself that was asked for.
    """

    error_text: bool
    """Whether errors may quote what a row holds; a poller's `error_text` sets it."""

    def locate(self) -> SourceDescription:
        """`describe` with what the server says of the names in the configuration. Raises: SourceError."""
        ...

    def missing(self) -> SourceError | None:
        """Why the source cannot be read as it is configured; None where it can. Asks the server."""
        ...

    def parse_cursor(self, value: str, pk: Mapping[str, str] | None) -> Cursor:
        """The cursor that a person typed, in the column's own form; without a key (None) it means "at or after".

        Raises: SourceError naming a column.
        """
        ...

    def count_between(self, low: Cursor | None, high: Cursor | None, *, cap: int) -> tuple[int, bool]:
        """How many rows stand after `low` and up to `high` (None: the beginning), and whether `cap` cut the count.
        Raises as `page`."""
        ...

    def null_cursors(self, cap: int) -> int:
        """How many rows have no cursor and are never read, counted up to `cap`. Raises as `page`."""
        ...

    def bound(self) -> Bound:
        """The bound of this moment, as the next page would use it. Raises as `page`."""
        ...

    def span(self, low: Cursor | None, high: Cursor | None, limit: int) -> Page:
        """Up to `limit` rows after `low` and up to `high`, whatever the bound is: for looking back, never for
        delivering. Raises as `page`."""
        ...

    def checkup(self, after: Cursor | None, utcnow: Callable[[], datetime]) -> SourceCheckup:
        """Everything that can be found out about this source before it goes wrong. Reads only; raises no PollerError.

        Args:
            after: where the checkpoint stands. utcnow: this machine's clock.
        """
        ...


# --- the runtime


class Event(Protocol):
    """What `threading.Event` is."""

    def set(self) -> None: ...
    def is_set(self) -> bool: ...
    def wait(self, timeout: float | None = None) -> bool: ...


class Lock(Protocol):
    """What `threading.Lock` is, with a timeout in seconds (-1: no limit)."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...
    def release(self) -> None: ...


class Task(Protocol):
    """A thread that was started: `join` waits for its end for up to `timeout` seconds."""

    def join(self, timeout: float | None = None) -> None: ...
    def is_alive(self) -> bool: ...


class Runtime(Protocol):
    """Time, threads and chance. The real one is `poller.runtime.SystemRuntime`; simulations bring their own."""

    def monotonic(self) -> float:
        """Seconds since some fixed instant; counts time spent suspended (protocol 3)."""
        ...

    def utcnow(self) -> datetime:
        """This machine's wall clock, zone-aware UTC. For people and for schedules, never for expiry."""
        ...

    def sleep(self, seconds: float) -> None: ...
    def event(self) -> Event: ...
    def lock(self) -> Lock: ...
    def spawn(self, target: Callable[[], None], name: str) -> Task: ...

    def jitter(self, low: float, high: float) -> float:
        """A random number between `low` and `high`."""
        ...

    def new_id(self) -> str:
        """A fresh random identifier, 128 bits as hex."""
        ...
