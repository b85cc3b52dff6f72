"""The snapshot of a captured table: all its rows, read in chunks by their key, between the changes (docs/capture.md).

A chunk is read at some moment: what its rows hold is as of `high`, the number of the first change that was not there
then. All changes below `high` are delivered before it, as soon as the bound has passed them. A row whose key is in one
of those that may have been written while the chunk was read (`low` <= id < `high`) is left out: that change says more.
What is left is each row as it was right before `high`, and the changes from there on follow.

The cursor says all that the next page needs: the last change that was passed (its value), and the key of the last row.
A chunk that is kept here only spares reading it again; it may be used for as long as no change from `high` on was
passed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from poller.model.captured import Op
from poller.model.cursor import Cursor, Snapshot
from poller.ports import Bound, Lag, Page
from poller.sources.captured import Captured, ChangedRows
from poller.sources.rows import LazyRows, changeable
from poller.sources.session import SourceSession

PAGES = 10
"""After a chunk so many pages of changes come before the next one, if there are so many."""
PATIENCE = 1.0
"""Seconds for which a chunk waits here for transactions that were open when it was read; then the caller has a page
without rows, and comes again."""
_PAUSE = 0.01
_LOOKED_THROUGH = 5000
"""Changes that are looked through at once."""


@dataclass
class _Chunk:
    """Rows of the table in the order of their key.

    Attributes:
        after: the key behind which it was read. keys: of its rows. low, high: see above.
        ends: no row was behind it. read_at: the place of the connection.
        kept: places of the rows that are delivered, once `is_settled`.
    """

    after: dict[str, Any] | None
    keys: list[dict[str, Any]]
    rows: ChangedRows
    low: int
    high: int
    ends: bool
    read_at: Hashable
    kept: Sequence[int] = ()
    is_settled: bool = False

    def place(self, last: int, snapshot: Snapshot) -> int | None:
        """Which of its rows comes next; None if it does not serve: its rows are passed, or older than `last`."""
        if last >= self.high:
            return None
        if snapshot.after == self.after:
            return 0
        at = self.keys.index(snapshot.after) + 1 if snapshot.after in self.keys else None
        return None if at == len(self.keys) else at


class Snapshots:
    """The pages of a captured table while a snapshot of it is read.

    Args:
        session: its reads. monotonic, sleep: the clock of waits for open transactions.
    """

    def __init__(
        self,
        session: SourceSession,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._session = session
        self._monotonic = monotonic
        self._sleep = sleep
        self._chunk: _Chunk | None = None
        self._turns = 0
        """The number of pages of changes that may come before the next chunk."""

    @property
    def _captured(self) -> Captured:
        if self._session.captured is None:
            raise AssertionError("only a captured table has snapshots")
        return self._session.captured

    def beginning(self) -> Cursor:
        """Before its first page: at the bound of this moment. Raises: as `SourceSession.page`; SourceUnavailable, while
        the bound is not known."""
        return self._at(self._first()).within(Snapshot())

    def _first(self) -> int:
        """The number of the first change that is delivered."""
        session, table = self._session, self._session.table
        known = table.learn()
        behind = self._captured.pruned_through() + 1
        if known is None:
            return behind
        bound = session.bounding.wait(session.sample(known), known, table.statements(), lambda: True)
        if bound.value is not None:
            return max(behind, int(bound.value) + bound.inclusive)
        highest = self._highest()
        if highest is None:
            return behind
        if bound.kind == "none":
            return highest + 1
        raise session.unbounded(bound, "Try again. A transaction that stays open holds it: end that one.")

    def page(self, after: Cursor, limit: int, *, again: bool) -> Page:
        """The page behind a cursor in a snapshot: its beginning (B), changes, rows of the table (R), or its end (E).
        Empty if a chunk waits for open transactions, or there is nothing to do. Raises: as `SourceSession.page`."""
        snapshot, last = after.snapshot or Snapshot(), _last(after)
        if snapshot.after is None and after.tiebreaker is None:
            return self._whole("B", after, snapshot)
        if snapshot.done:
            return self._whole("E", after, None)
        patience: float | None = None
        while True:
            chunk, at = self._held(last, snapshot)
            if chunk is None:
                page = self._between(after, limit, snapshot, again=again)
                if page is not None:
                    return page
                chunk = self._chunk = self._read(last, snapshot, limit)
            page = self._changes(after, limit, snapshot, until=chunk.high)
            if page.rows or page.again is not None:
                return page
            if last + 1 < chunk.high and not _passed(page.bound, chunk.high):
                patience = self._monotonic() + PATIENCE if patience is None else patience
                if self._monotonic() >= patience:
                    return page
                self._sleep(_PAUSE)
                continue
            if not self._settled(chunk):
                self._chunk = None  # its changes were pruned meanwhile
                continue
            if places := [place for place in chunk.kept if place >= at]:
                return self._rows(after, chunk, places, limit, page)
            if chunk.ends:
                return self._whole("E", after, None)
            snapshot, self._chunk = Snapshot(after=chunk.keys[-1]), None

    def lag(self, after: Cursor, cap: int) -> Lag:
        """What waits behind a cursor in a snapshot: changes, the rows of the table that are still to come, and its
        beginning and end. Raises: as `SourceSession.lag`."""
        lag, snapshot = self._session.lag(after, cap), after.snapshot or Snapshot()
        begins = snapshot.after is None and after.tiebreaker is None
        waiting = lag.pending + begins + 1
        if not snapshot.done and not lag.pending_capped:
            waiting += self._captured.left(snapshot.after, cap)
        return replace(lag, pending=min(waiting, cap), pending_capped=lag.pending_capped or waiting > cap)

    def _held(self, last: int, snapshot: Snapshot) -> tuple[_Chunk | None, int]:
        """The chunk that was read already, and which of its rows comes next; none if it does not serve."""
        chunk, here = self._chunk, self._session.database.place()
        at = None if chunk is None or chunk.read_at != here else chunk.place(last, snapshot)
        return (None, 0) if at is None else (chunk, at)

    def _between(self, after: Cursor, limit: int, snapshot: Snapshot, *, again: bool) -> Page | None:
        """A page of changes that may come before the next chunk; None if the chunk's turn has come."""
        if not self._turns:
            return None
        self._turns -= 1
        page = self._changes(after, limit, snapshot, again=again)
        if page.rows or page.again is not None:
            return page
        self._turns = 0
        return None

    # ------------------------------------------------------------------------------------------------------- a chunk

    def _read(self, last: int, snapshot: Snapshot, limit: int) -> _Chunk:
        """Rows of the table behind a key, and then the number that no change had before that."""
        session, captured, size = self._session, self._captured, max(1, limit - 1)
        session.table.learn()
        installed = captured.last
        found = session.database.run(*captured.selected(snapshot.after, size + 1))
        high = max(last, self._highest() or 0) + 1
        if captured.last is not installed:  # its columns may be others than those that were selected
            return self._read(last, snapshot, limit)
        records = found.rows[:size]
        names = tuple(map(str, found.names))
        scalar = session.database.dialect.scalar_codes
        made = LazyRows(records, names, changeable(records, len(names), found.description, scalar), found.documents)
        rows, keys = captured.rows(made, high - 1), captured.places(made)
        ends, here = len(found.rows) <= size, session.database.place()
        return _Chunk(snapshot.after, keys, rows, last + 1, high, ends, here)

    def _highest(self) -> int | None:
        """The number of the newest change that is there. A change table without a row is looked at again each time."""
        table = self._session.table
        if table.learn() is None:
            return None
        rows = self._session.database.run(table.statements().highest()).rows
        return int(rows[0][0]) if rows else None

    def _settled(self, chunk: _Chunk) -> bool:
        """Leave out the rows whose key is in a change below `high` that the chunk may have seen in part; all of them
        if one is not of one row. False if such changes are gone."""
        if chunk.is_settled:
            return True
        keys = {head.key for head in chunk.rows.heads}
        named: set[tuple[str | None, ...]] = set()
        low, high = self._at(chunk.low), self._at(chunk.high)
        while chunk.low < chunk.high:
            page = self._session.span(low, high, _LOOKED_THROUGH)
            heads = page.rows.heads if isinstance(page.rows, ChangedRows) else ()
            if any(not head.is_whole for head in heads):
                named = keys
                break
            named.update(head.key for head in heads if head.key in keys)
            if len(heads) < _LOOKED_THROUGH:
                break
            low = page.cursors[-1]
        if self._captured.pruned_through() >= chunk.low:
            return False
        chunk.kept = [place for place, head in enumerate(chunk.rows.heads) if head.key not in named]
        chunk.is_settled = True
        return True

    def _rows(self, after: Cursor, chunk: _Chunk, places: Sequence[int], limit: int, empty: Page) -> Page:
        """Rows of a chunk, from the first of these places on. `empty`: the page of changes that found none."""
        given, rest = places[: max(1, limit - 1)], places[max(1, limit - 1) :]
        if not rest:
            self._turns = PAGES
        rows = chunk.rows.take(given)
        base = max(_last(after), _tie(after))
        cursors = []
        for number, place in enumerate(given, 1):
            done = chunk.ends and not rest and number == len(given)
            passed = Snapshot(after=chunk.keys[place], done=done)
            cursors.append(self._made(chunk.high - 1, max(base, chunk.high - 1) + number, passed))
        keys = self._captured.keys(rows)
        return Page(rows, cursors, empty.bound, keys, facts=empty.facts, more=True)

    def _whole(self, op: Op, after: Cursor, snapshot: Snapshot | None) -> Page:
        """The page of one row that begins or ends it."""
        last, session, self._chunk = _last(after), self._session, None
        empty = session.page(after, 1, self._at(last + 1))
        row = self._captured.whole_table(op, last, session.clock())
        cursor = self._made(last, max(last, _tie(after)) + 1, snapshot)
        nothing = dict.fromkeys(self._captured.ordering or self._captured.installed.key)
        return Page([row], [cursor], empty.bound, [nothing], facts=empty.facts, barrier=True, more=True)

    # ----------------------------------------------------------------------------------------------------- the changes

    def _changes(
        self, after: Cursor, limit: int, snapshot: Snapshot, *, until: int | None = None, again: bool = False
    ) -> Page:
        """Changes behind a cursor, in the snapshot; below a number."""
        page = self._session.page(after, limit, None if until is None else self._at(until), again=again)
        if not page.rows:
            return page
        return replace(page, cursors=[cursor.within(snapshot) for cursor in page.cursors], more=True)

    def _at(self, number: int) -> Cursor:
        """At or after a change."""
        return Cursor(kind=self._session.options.cursor_kind, value=str(number))

    def _made(self, value: int, place: int, snapshot: Snapshot | None) -> Cursor:
        options = self._session.options
        return Cursor.trusted(options.cursor_kind, str(value), {options.pk_columns[0]: place}).within(snapshot)


def _last(cursor: Cursor) -> int:
    """The number of the last change that was passed."""
    return int(cursor.value) - (cursor.tiebreaker is None)


def _tie(cursor: Cursor) -> int:
    return max((int(part) for part in (cursor.tiebreaker or {}).values()), default=0)


def _passed(bound: Bound, high: int) -> bool:
    """True if all changes below a number are there."""
    return bound.kind == "none" or (bound.value is not None and int(bound.value) + bound.inclusive >= high)
