"""A table that only grows, and a source that reads it and sometimes cannot."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from poller.errors import SourceError, SourceUnavailable
from poller.model.cursor import Cursor, KeyValue
from poller.model.fingerprint import DatabaseIdentity, SourceDescription
from poller.model.row_ids import id_of_values
from poller.ports import Bound, InspectableSource, Lag, Page, Row, Source, SourceCheckup
from tests.resilience.simulation.world import Process, World

DESCRIPTION = SourceDescription(
    database=DatabaseIdentity(dialect="sqlite", database="/simulated.db"),
    table="orders",
    cursor_column="changed",
    cursor_kind="integer+pk",
    pk_columns=("id",),
)
BOUND = Bound("exact")
COLD = Bound("observed", cold=True, reason="has just begun to look")


@dataclass
class Table:
    """Rows in cursor order; several may share a cursor value. `position` counts the rows up to a cursor.

    Attributes:
        customers: over how many ordering keys the rows are; 0: each its own.
    """

    customers: int = 0
    keys: list[tuple[int, int]] = field(default_factory=list)
    cursors: list[Cursor] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)

    def grow(self, changed: int) -> None:
        """One row more; `changed` never decreases."""
        identity = len(self.rows) + 1
        self.keys.append((changed, identity))
        self.cursors.append(Cursor(kind="integer+pk", value=str(changed), tiebreaker={"id": identity}))
        self.rows.append({"id": identity, "changed": changed, **self.ordering(identity)})

    def ordering(self, number: int) -> dict[str, KeyValue | None]:
        """What a row's ordering key has beside its key columns."""
        return {"customer": f"k{number % self.customers}"} if self.customers else {}

    def lane(self, number: int, lanes: int) -> int:
        """Of which lane a row is, of so many: what everybody must agree on, whatever the code says of it."""
        values = self.ordering(number) or {"id": number}
        return int(id_of_values(values), 16) % lanes

    def position(self, cursor: dict[str, Any] | None) -> int:
        """How many rows a cursor, as the document keeps it, has passed."""
        if cursor is None:
            return 0
        value, tiebreaker = int(cursor["value"]), cursor["tiebreaker"]
        if tiebreaker is None:
            return bisect_left(self.keys, (value, 0))
        return bisect_right(self.keys, (value, tiebreaker["id"]))

    def place_of(self, text: str) -> int:
        """How many rows a cursor, as an event says it, has passed."""
        return next(number for number, cursor in enumerate(self.cursors, 1) if str(cursor) == text)


@dataclass
class Trouble:
    """How bad the database is now: `rate` of queries that fail, `slow` at most so many seconds.

    `endless`: rows arrive faster than anybody can work. `cold`: a fresh process knows no bound for its first looks,
    unless an earlier one remembered what it saw.
    """

    rate: float = 0.0
    slow: float = 0.05
    endless: bool = False
    cold: bool = False


class SimSource(Source):
    """The table, as one process reads it. Each row says when its page arrived (`read`)."""

    can_order = True

    def __init__(self, table: Table, trouble: Trouble, world: World, process: Process) -> None:
        self._table = table
        self._trouble = trouble
        self._world = world
        self._process = process
        self.pages = 0
        self.found_rows = False
        self._looks = 0 if trouble.cold else 2
        self._used = False

    def begin_tick(self) -> None:
        """Count pages from here."""
        self.pages = 0
        self.found_rows = False

    @property
    def idle(self) -> bool:
        """Whether a tick looked and found nothing."""
        return self.pages > 0 and not self.found_rows

    def describe(self) -> SourceDescription:
        return DESCRIPTION

    def start(self) -> Cursor | None:
        return None

    def page(self, after: Cursor | None, limit: int, *, lag_cap: int | None = None) -> Page:
        with self._alone():
            return self._page(after, limit)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """A source is used by one thread at a time (`poller.ports.Source`)."""
        assert not self._used, "two threads use the source"
        self._used = True
        try:
            yield
        finally:
            self._used = False

    def _page(self, after: Cursor | None, limit: int) -> Page:
        self._query()
        table = self._table
        at = table.position(None if after is None else {"value": after.value, "tiebreaker": after.tiebreaker})
        while self._trouble.endless and len(table.rows) < at + limit:
            table.grow(len(table.rows))
        self._looks += 1
        bound = BOUND if self._looks > 2 else COLD
        found = table.rows[at : at + limit] if bound is BOUND else ()
        self.pages += 1
        self.found_rows = self.found_rows or bool(found)
        self._world.wait(self._world.rng.random() * self._trouble.slow)
        rows = tuple({**row, "read": self._world.now} for row in found)
        ordering = [table.ordering(at + 1 + place) for place in range(len(rows))] if self.ordering_key else None
        return Page(rows, tuple(table.cursors[at : at + len(rows)]), bound, ordering)

    def lag(self, after: Cursor | None, *, cap: int) -> Lag:
        with self._alone():
            pass
        return Lag(None, 0)

    def key(self, row: Row, cursor: Cursor) -> str:
        return f"orders/{row['id']}/{cursor.value}"

    def remember(self) -> dict[str, Any] | None:
        return {"looks": self._looks} if self._trouble.cold else None

    def recall(self, memory: Mapping[str, Any]) -> None:
        self._looks = max(self._looks, int(memory.get("looks", 0)))

    def close(self) -> None:
        """Nothing to let go of."""

    def _query(self) -> None:
        world = self._world
        world.point(self._process)
        if world.rng.random() < self._trouble.rate:
            world.wait(world.rng.random() * self._trouble.slow * 4)
            raise SourceUnavailable("simulated: the database does not answer")


class Asked(InspectableSource):
    """A source that operators and the tick can ask. What neither asks for here says nothing."""

    def locate(self) -> SourceDescription:
        return DESCRIPTION

    def missing(self) -> SourceError | None:
        return None

    def parse_cursor(self, value: str, pk: Mapping[str, str] | None) -> Cursor:
        raise NotImplementedError

    def count_between(self, low: Cursor | None, high: Cursor | None, *, cap: int) -> tuple[int, bool]:
        return 0, False

    def null_cursors(self, cap: int) -> int:
        return 0

    def bound(self) -> Bound:
        return BOUND

    def checkup(self, after: Cursor | None, utcnow: Callable[[], datetime]) -> SourceCheckup:
        raise NotImplementedError

    def lag(self, after: Cursor | None, *, cap: int) -> Lag:
        return Lag(None, 0)


class AskedSource(Asked, SimSource):
    """The table as one process reads it, which can say where its rows stand."""

    def span(self, low: Cursor | None, high: Cursor | None, limit: int) -> Page:
        with self._alone():
            self._query()
            begin, end = (self._place(cursor) for cursor in (low, high))
            end = min(len(self._table.rows) if high is None else end, begin + limit)
            return Page(self._table.rows[begin:end], self._table.cursors[begin:end], BOUND)

    def _place(self, cursor: Cursor | None) -> int:
        return self._table.position(None if cursor is None else cursor.model_dump(mode="json"))
