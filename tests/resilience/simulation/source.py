"""A table that only grows, and a source that reads it and sometimes cannot."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from poller.errors import SourceUnavailable
from poller.model.cursor import Cursor
from poller.model.fingerprint import DatabaseIdentity, SourceDescription
from poller.ports import Bound, Lag, Page, Row
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
    """Rows in cursor order; several may share a cursor value. `position` counts the rows up to a cursor."""

    keys: list[tuple[int, int]] = field(default_factory=list)
    cursors: list[Cursor] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)

    def grow(self, changed: int) -> None:
        """One row more; `changed` never decreases."""
        identity = len(self.rows) + 1
        self.keys.append((changed, identity))
        self.cursors.append(Cursor(kind="integer+pk", value=str(changed), tiebreaker={"id": identity}))
        self.rows.append({"id": identity, "changed": changed})

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


class SimSource:
    """`poller.ports.Source` over the table, for one process."""

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

    def page(self, after: Cursor | None, limit: int) -> Page:
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
        rows = tuple(table.rows[at : at + limit]) if bound is BOUND else ()
        self.pages += 1
        self.found_rows = self.found_rows or bool(rows)
        self._world.wait(self._world.rng.random() * self._trouble.slow)
        return Page(rows, tuple(table.cursors[at : at + len(rows)]), bound)

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
