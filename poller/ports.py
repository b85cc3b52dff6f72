"""What the rules need from the outside world: the interfaces of stores, sources and clocks.

Three ports: a *store* keeps bytes under names and tags and knows nothing of leases; a *source* reads pages of rows and
knows nothing of checkpoints; a *runtime* is time, threads and randomness. A simulation can be all three.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeAlias, overload, runtime_checkable

from poller.errors import SourceError
from poller.model.cursor import Cursor, KeyValue
from poller.model.finding import Finding
from poller.model.fingerprint import SourceDescription
from poller.model.timing import Timeout as Timeout  # noqa: PLC0414 - a part of the store's port

Row: TypeAlias = Mapping[str, Any]


class JsonText(str):
    """JSON as the database wrote it: Python's value of it may have fewer digits, and its null is not a missing
    value."""

    __slots__ = ()


class IntervalText(str):
    """An interval as PostgreSQL wrote it: `1 mon` is not a number of days, and a day is no 24 hours."""

    __slots__ = ()


# --- the store


DEFAULT_TIMEOUT = Timeout(connect=2.0, read=5.0)
"""The timeout of a call to a store without `timeout`."""


@dataclass(frozen=True, slots=True)
class Found:
    """A document: its bytes, its tag, and the server's two times (None if a store has none).

    `server_time` is the server's clock at the answer (`Date`), `modified_at` when this version was written
    (`Last-Modified`); both zone-aware UTC. Precision may be a second.
    """

    body: bytes
    tag: str
    server_time: datetime | None
    modified_at: datetime | None


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The document still has the tag that the reader gave (a 304)."""

    server_time: datetime | None


@dataclass(frozen=True, slots=True)
class Missing:
    """There is no such document (and perhaps no container or table for it)."""

    server_time: datetime | None


@dataclass(frozen=True, slots=True)
class Written:
    """A write that was applied: the new tag, and the server's two times as for `Found`."""

    tag: str
    server_time: datetime | None
    modified_at: datetime | None


class StateStore(Protocol):
    """Bytes under names, changed by compare-and-swap. One `read` is one GET, one `write` is one PUT, without retries.

    Names are slash-separated: `state/{app}/{poller}.json`, `audit/{app}/{poller}.jsonl`, `backups/...`, `control/...`.
    Implementations are safe to call from several threads.
    """

    def read(
        self, name: str, *, unless: str | None = None, timeout: Timeout | None = None
    ) -> Found | Unchanged | Missing:
        """Read one document. With `unless=tag`, `Unchanged` when it still has that tag. Of a document larger than
        `poller.model.limits.LARGEST_BODY` only that many bytes and one more are read: no state document is larger.

        Raises: StoreUnavailable, StoreDenied.
        """
        ...

    def write(self, name: str, body: bytes, *, if_tag: str | None, timeout: Timeout | None = None) -> Written:
        """Replace the document that has exactly this tag; with `if_tag=None`, create it where none exists.

        Raises: WriteConflict (the tag is another, the document exists already, or it was deleted), StoreUnavailable
        (unknown whether it was applied), StoreDenied.
        """
        ...

    def remove(self, name: str, *, if_tag: str, timeout: Timeout | None = None) -> None:
        """Remove the document that has exactly this tag. State documents, backups and logs are never removed.

        Raises: WriteConflict (the tag is another, or there is no such document), StoreUnavailable (unknown whether it
        was removed), StoreDenied.
        """
        ...

    def append(self, name: str, line: str, *, timeout: Timeout | None = None) -> None:
        """Append one line (without its newline) to a log document, created on first use.

        Raises: StoreUnavailable (the line may or may not be there), StoreDenied; ValueError for a line break.
        """
        ...

    def lines(self, name: str, *, limit: int | None = None) -> list[str]:
        """The last `limit` lines of a log document, oldest first; empty if there is none. Raises as `read`.

        With a limit each line is cut after `poller.model.limits.LONGEST_LINE` characters, and only the newest lines
        are read, up to about `LARGEST_TRAIL` characters; without one a line is cut after `LARGEST_BODY`.
        """
        ...

    def names(self, prefix: str) -> Iterator[str]:
        """Names of documents and logs that begin with `prefix`, in order. Raises as `read`."""
        ...

    def locate(self, name: str) -> str:
        """Where `name` is, for a person: `blob state/shop/orders.json in container db-state of ...`; no secrets."""
        ...

    def close(self) -> None:
        """Close connections. The store may be used again afterwards."""
        ...


@dataclass(frozen=True, slots=True)
class Listed:
    """A document in a listing: its tag without quotes (see `unquoted`), and when it was last written, zone-aware UTC;
    None if the store has no clock. Precision may be a second."""

    name: str
    tag: str
    modified_at: datetime | None


@runtime_checkable
class ListingStore(Protocol):
    """A store that says by one request which documents there are, and which version of each."""

    def listed(self, prefix: str, *, timeout: Timeout | None = None) -> Iterator[Listed]:
        """The documents whose names begin with `prefix`, logs left out. One LIST for each 5,000 of them.

        Raises: StoreUnavailable, StoreDenied.
        """
        ...


def unquoted(tag: str) -> str:
    """A tag as listings have it: answers to a read and a write quote it, a listing may not."""
    return tag.removeprefix("W/").strip('"')


# --- the source


@dataclass(frozen=True, slots=True)
class Bound:
    """Rows below it are read; and why (sources.md, "Rows that commit late").

    `kind`: exact, observed, observed-strict, heuristic, none, ... ; `value`: the bound in the cursor column's own text
    form, None if there is no bound or it is not known yet; `at`: the same as a time, if it is one;
    `age_seconds`: how far it lies behind the database's clock; `held_by`: who or what holds it, for a person;
    `clock`: the database's clock at the sample, as text; `reason`: why it did not advance, or why this kind was chosen;
    `inclusive`: rows at the bound are read too; `next`: the first value that the server has not handed out yet, if
    the cursor is a number that it hands out; `cold`: it is unknown only because this process has just begun to sample,
    and rows wait, so its samples are worth keeping; `clock_back`: by how many seconds the clock is lower than one seen
    before: rows wait for it; `below_checkpoint`: the server has not reached the checkpoint, so no row is read.
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
    clock_back: float | None = None
    below_checkpoint: bool = False
    next: str | None = None

    @property
    def clock_went_back(self) -> bool:
        """True if the clock is lower than one seen before."""
        return self.clock_back is not None


@runtime_checkable
class KeyedCursors(Protocol):
    """Cursors that can return their keys without building each cursor."""

    def keys(self) -> Sequence[Mapping[str, KeyValue]]:
        """The tiebreaker of each."""


@runtime_checkable
class TextKeys(Protocol):
    """Ordering keys that can return their texts without building each key."""

    def texts(self) -> Sequence[tuple[str | None, ...]]:
        """The texts of each, in the order of its columns."""


class FreshRows(Sequence[Row]):
    """Rows that are made again each time that they are asked for: who changes one changes no other, and a slice is such
    a sequence too. Of rows in any other sequence a handler gets copies."""

    def take(self, positions: Sequence[int]) -> FreshRows:
        """These rows, in this order."""
        return _TakenRows(self, positions)


class _TakenRows(FreshRows):
    """Some of other rows."""

    def __init__(self, rows: FreshRows, positions: Sequence[int]) -> None:
        self._rows = rows
        self._positions = positions

    def __len__(self) -> int:
        return len(self._positions)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> FreshRows: ...
    def __getitem__(self, index: int | slice) -> Row | FreshRows:
        if isinstance(index, slice):
            return _TakenRows(self._rows, self._positions[index])
        return self._rows[self._positions[index]]


class Table(Protocol):
    """The rows of a page as a `pyarrow.Table`, which may be made when a caller asks for it."""

    def slice(self, first: int, end: int) -> Table:
        """The rows from `first` to before `end`, without a copy of what is there."""
        ...

    def take(self, positions: Sequence[int]) -> Table:
        """These rows, in this order."""
        ...

    def join(self, others: Sequence[Table]) -> Table:
        """These rows, and then those of others."""
        ...

    def arrow(self) -> Any:
        """The `pyarrow.Table`. Raises: SourceError where the values of a column do not fit together."""
        ...


@dataclass(frozen=True, slots=True)
class TieAgain:
    """A page does not begin at the cursor that was asked for, but before all rows that may share its value: the order
    in which they were passed is not the table's any more.

    Attributes:
        cursor: where the page begins. why: what changed, in words. replaced: another table has the name.
    """

    cursor: Cursor
    why: str
    replaced: bool = False


@dataclass(frozen=True, slots=True)
class Lag:
    """The age in seconds of the oldest row not yet delivered, by the database's clock (None if the cursor is not a
    time), and how many rows are pending, counted up to a cap (`pending_capped` when there are more)."""

    seconds: float | None
    pending: int
    pending_capped: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """Rows in cursor order, each with the cursor that stands right after it, read below `bound`.

    `cursors` has one entry per row and may be computed lazily. So may `ordering`: of each row the columns of its
    ordering key and the database's text of their values (failures.md, rule 8); None: the key columns serve. `table`:
    the rows as a table, with `format = "arrow"`. `facts`: what the cursors rest on (`Source.facts`); `again`: None
    if the page begins at the cursor that was asked for; `lag`: see `Source.page`. `barrier`: its one row concerns rows
    of every key, so that it is handled while no other row is in hand or waits. `more`: rows are behind it, though it
    is not full.
    """

    rows: Sequence[Row]
    cursors: Sequence[Cursor]
    bound: Bound
    ordering: Sequence[Mapping[str, KeyValue | None]] | None = None
    table: Table | None = None
    facts: Mapping[str, Any] | None = None
    again: TieAgain | None = None
    lag: Lag | None = None
    barrier: bool = False
    more: bool = False

    def part(self, first: int, end: int) -> Page:
        """The rows from `first` to before `end`, as a page."""
        return Page(
            self.rows[first:end],
            self.cursors[first:end],
            self.bound,
            None if self.ordering is None else self.ordering[first:end],
            None if self.table is None else self.table.slice(first, end),
            self.facts,
            self.again,
            more=self.more,
        )

    def take(self, positions: Sequence[int]) -> Page:
        """The rows at these positions, as a page without ordering keys."""
        return Page(
            self.rows.take(positions) if isinstance(self.rows, FreshRows) else [self.rows[at] for at in positions],
            [self.cursors[at] for at in positions],
            self.bound,
            table=None if self.table is None else self.table.take(positions),
            facts=self.facts,
        )


class Source(ABC):
    """A table or query that can be read in (cursor, primary key) order. Used by one thread at a time.

    A source has to say what it is, its start, and its pages. The other methods have defaults for one that cannot
    say more: what needs an answer is then left out, or refused with a clear error where a person asked for it.

    Attributes:
        captured: True if its rows are the changes of a table, in which a row may stand for a deletion.
        can_order: True if its pages can have another ordering key than the key columns.
        ordering_key: the columns whose text each page has in `ordering`; empty: the key columns serve. A poller sets it
            if `can_order`.
        exact: True if rows have `JsonText` and `IntervalText`, where Python's values would say less. A poller sets it,
            as its handler asks (`wants_exact_values`).
    """

    captured: bool = False
    can_order: bool = False
    ordering_key: tuple[str, ...] = ()
    exact: bool = False

    @abstractmethod
    def describe(self) -> SourceDescription:
        """The non-secret description that the fingerprint hashes. Needs no connection."""

    @abstractmethod
    def start(self) -> Cursor | None:
        """The cursor that the source's `start_from` (`beginning`, `now`, or a cursor value) means; None: the beginning.

        `now` is the present bound with `tiebreaker=None`, meaning at or after (design, "The state document").
        Raises: SourceError (a value the column does not take), SourceUnavailable.
        """

    def begin_snapshot(self) -> Cursor | None:
        """The cursor from which all rows of a captured table are delivered, beside its changes; None if this source has
        no snapshot. Raises: as `page`."""
        return None

    @abstractmethod
    def page(self, after: Cursor | None, limit: int, *, lag_cap: int | None = None) -> Page:
        """Up to `limit` rows after a cursor and below the present bound, in one snapshot.

        `lag_cap`: a caller who finds no row asks for the lag next, counted up to here; a source that has to count for
        the page anyway, or can do both in one query, puts it in `Page.lag`.
        Raises: SourceUnavailable (unreachable, `query_timeout`), SourceError (unknown table or column, NULL cursor...).
        """

    @abstractmethod
    def lag(self, after: Cursor | None, *, cap: int) -> Lag:
        """How far behind `after` is, by one query of limited cost. Raises as `page`."""

    @abstractmethod
    def key(self, row: Row, cursor: Cursor) -> str:
        """A stable idempotency key of one version of one row: table, key and cursor text."""

    def next_page(self, after: Cursor | None, limit: int, *, lag_cap: int | None = None) -> Page:
        """As `page`, for a further page of the same tick: a source may read it below the bound of the page before, if
        that is young and of the same connection, and the page is full (throughput.md, "Reader"): sampling what is open
        costs more than a page."""
        return self.page(after, limit, lag_cap=lag_cap)

    def remember(self) -> dict[str, Any] | None:
        """What a later process needs to know of the bound, as JSON: the highest clock seen, the last bound, samples."""
        return None

    def recall(self, memory: Mapping[str, Any]) -> None:  # noqa: B027 - most sources need none
        """Continue from what an earlier process remembered. Raises nothing; ignores what it does not understand."""

    def facts(self) -> dict[str, Any] | None:
        """What a cursor rests on now, as JSON: types, collations, which table has the name, which server it is, what
        the bound guarantees. None if it was not asked for rows yet, or does not know. Makes no request."""
        return None

    def rests_on(self, facts: Mapping[str, Any] | None) -> None:  # noqa: B027
        """The cursor of the next page rests on these facts, as a document or an earlier page has them; None: on no
        known ones. If the present ones differ, the page begins the tie again, or raises SourceUnavailable (until they
        are as they were) or SourceError."""

    @property
    def query_timeout(self) -> timedelta:
        """The time that one of its queries may take, or zero. The tick keeps its lease for the few queries of a page;
        where it is zero, for a fixed time."""
        return timedelta(0)

    def dated(self, cursor: Cursor) -> datetime | None:  # noqa: ARG002
        """When a row of this cursor was stamped, in UTC; None if a cursor is not a time. Makes no request."""
        return None

    def table_of(self, rows: Sequence[Row]) -> Table | None:  # noqa: ARG002
        """A table of rows that were read earlier, and kept elsewhere; None if its pages have no table. It is built
        of their values, in the types that the columns have now, where these can be asked for."""
        return None

    def span(self, low: Cursor | None, high: Cursor | None, limit: int) -> Page | None:  # noqa: ARG002
        """Up to `limit` rows after `low` and up to `high` (None: the end), whatever the bound is: for looking back,
        never for delivering. None if it cannot say: then a poller knows where a cursor stands only among the rows
        of a page. Raises as `page`."""
        return None

    def count_between(self, low: Cursor | None, high: Cursor | None, *, cap: int) -> tuple[int, bool] | None:  # noqa: ARG002
        """The number of rows after `low` and up to `high` (None: the beginning), and whether `cap` cut the count;
        None if it cannot say. Raises as `page`."""
        return None

    def row_of(self, pk: Mapping[str, str]) -> Page | None:  # noqa: ARG002
        """The row with this key, typed as text by column, whatever the bound is; empty if the table has none, or
        `filter` leaves it out; None if a source finds no row by its key. Raises: SourceError naming a column that
        does not take its text; as `page`."""
        return None

    def another(self) -> Source | None:
        """One of the same rows with a connection of its own, for another thread; None if there can be none."""
        return None

    def close(self) -> None:  # noqa: B027
        """Close connections. The source may be used again afterwards."""


class SourceCheckup(Protocol):
    """The result of `checkup`: findings, and how many seconds the database's clock is ahead of ours (None if it was
    not read)."""

    @property
    def findings(self) -> list[Finding]: ...
    @property
    def offset_seconds(self) -> float | None: ...


class InspectableSource(Source):
    """A source that answers operators' questions: what a typed cursor means, how many rows are between two cursors,
    what is wrong with the table. `poller.sources.SqlSource` is one.

    Attributes:
        error_text: whether errors may quote what a row holds; a poller's `error_text` sets it.
    """

    error_text: bool = True

    @abstractmethod
    def locate(self) -> SourceDescription:
        """`describe` with what the server says of the names in the configuration. Raises: SourceError."""

    @abstractmethod
    def missing(self) -> SourceError | None:
        """Why the source cannot be read as configured; None if it can. Asks the server."""

    @abstractmethod
    def parse_cursor(self, value: str, pk: Mapping[str, str] | None) -> Cursor:
        """The cursor that a person typed, in the column's own form; without a key (None) it means "at or after".

        Raises: SourceError naming a column.
        """

    @abstractmethod
    def span(self, low: Cursor | None, high: Cursor | None, limit: int) -> Page:
        """See `Source.span`."""

    @abstractmethod
    def count_between(self, low: Cursor | None, high: Cursor | None, *, cap: int) -> tuple[int, bool]:
        """See `Source.count_between`."""

    @abstractmethod
    def null_cursors(self, cap: int) -> int:
        """The number of rows that have no cursor and are never read, counted up to `cap`. Raises as `page`."""

    @abstractmethod
    def bound(self) -> Bound:
        """The present bound, as the next page would use it. Raises as `page`."""

    def clock(self) -> datetime | None:
        """The database's clock, in UTC; None if it cannot be read. Raises as `page`."""
        return None

    def cursor_before(self, moment: datetime) -> Cursor | None:  # noqa: ARG002
        """The cursor right before the rows that were stamped at `moment` (zone-aware) or later; None if a cursor is not
        a time, or its form is not known for lack of a row. Raises as `page`."""
        return None

    @abstractmethod
    def checkup(self, after: Cursor | None, utcnow: Callable[[], datetime]) -> SourceCheckup:
        """What is or may go wrong with this source. Reads only; raises no PollerError.

        Args:
            after: the checkpoint. utcnow: this machine's clock.
        """


def wants_exact_values(handler: object) -> bool:
    """True if a handler takes values as the database wrote them: it says so by an attribute `exact_values = True`."""
    return getattr(handler, "exact_values", False) is True


# --- the runtime


class Event(Protocol):
    """What `threading.Event` is."""

    def set(self) -> None: ...
    def is_set(self) -> bool: ...
    def wait(self, timeout: float | None = None) -> bool: ...


@runtime_checkable
class PatientStop(Event, Protocol):
    """A `stop` that may end a tick for others' sake, but not before its first call: a tick whose page takes longer than
    its turn would deliver nothing while others wait."""

    def progressed(self) -> None:
        """A call of the handler was made."""
        ...

    def watch(self, in_handler: Callable[[], float]) -> None:
        """A tick begins. `in_handler`: for how many seconds it has waited for its handler, and for nothing else."""
        ...


class Lock(Protocol):
    """What `threading.Lock` is, with a timeout in seconds (-1: no limit)."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...
    def release(self) -> None: ...


class Task(Protocol):
    """A started thread: `join` waits up to `timeout` seconds for its end."""

    def join(self, timeout: float | None = None) -> None: ...
    def is_alive(self) -> bool: ...


class Runtime(Protocol):
    """Time, threads and randomness. The real one is `poller.runtime.SystemRuntime`; simulations have their own."""

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
