"""A captured table: its change table is what is read, and each change becomes a row of the table."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from datetime import datetime
from typing import Any

from poller.databases.capture import CaptureRefusal
from poller.errors import CaptureGap, SourceError
from poller.model.captured import AT, CHANGE, OLD, OP, TX, Op
from poller.model.cursor import Cursor, KeyValue
from poller.ports import Page
from poller.sources.changes import ChangeTable, Head, Installed, Values
from poller.sources.connection import Database
from poller.sources.rows import LazyRows, ListedRows, marked_json

LOOKED_EVERY = 60.0
"""Seconds after which the table is compared again with what was installed."""
_EMPTIED = "T"


class ChangedRows(ListedRows):
    """Changes as rows of the table, with the reserved columns.

    Attributes:
        heads: of the changes, in order.
    """

    def __init__(
        self, records: LazyRows, heads: Sequence[Head], make: Callable[[Mapping[str, Any]], dict[str, Any]]
    ) -> None:
        self._records = records
        self._make = make
        self.heads = heads

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return map(self._make, self._records)

    def take(self, positions: Sequence[int]) -> ChangedRows:
        """See `Parts`."""
        return ChangedRows(self._records.take(positions), [self.heads[at] for at in positions], self._make)


class Captured:
    """What is known of a captured table, by the connection of its source.

    Args:
        relation: the change table's quoted alias. columns: as configured.
    """

    def __init__(self, changes: ChangeTable, database: Database, relation: str, columns: Sequence[str] | None) -> None:
        self.changes = changes
        self.ordering: tuple[str, ...] = ()
        """The columns of the ordering key; empty: the table's key."""
        self._database = database
        self._relation = relation
        self._columns = columns
        self.last: Installed | None = None
        """What the last look found."""
        self._looked: tuple[Hashable, float] | None = None

    @property
    def installed(self) -> Installed:
        """What is installed, as the last look found it; looks if there was none. Raises: as `look`."""
        return self.look() if self.last is None else self.last

    def look(self) -> Installed:
        """What is installed: asked on each connection, and once a minute. Raises: CaptureGap, if changes are or may be
        missing from now on; SourceError; what the driver raises."""
        place, now = self._database.place(), time.monotonic()
        looked = self._looked
        if self.last is None or looked is None or looked[0] != place or now - looked[1] >= LOOKED_EVERY:
            self._looked = None
            self.last = self._found()
            self._looked = place, now
        return self.last

    def forget(self) -> None:
        """Look again before the next page."""
        self._looked = None

    def _found(self) -> Installed:
        changes = self.changes
        try:
            found = changes.look(self._database.connection())
        except CaptureRefusal as refused:
            raise SourceError(refused.message, table=changes.table, next_step=refused.next_step) from None
        if found is None:
            raise CaptureGap(
                f"{changes.table}: the table is not captured, so there are no changes to read.",
                table=changes.table,
                next_step=f"Install it: {changes.install}",
            )
        if found.trouble is not None:
            raise CaptureGap(f"{found.what}: {found.trouble[0]}", table=changes.table, next_step=found.trouble[1])
        if unknown := [name for name in (*(self._columns or ()), *self.ordering) if name not in found.columns]:
            raise SourceError(
                f"{found.what}: column {unknown[0]} is not captured.",
                table=changes.table,
                column=unknown[0],
                next_step="Look at `columns` and `ordering_key`, and at what --exclude left out.",
            )
        return found

    def said(self) -> dict[str, Any]:
        """What the server says of the source, as fields of its description."""
        return {"capture.made_at": self.installed.made_at}

    def selects(self) -> tuple[str, Sequence[str]]:
        """What follows the change table in FROM, and all that is selected of it."""
        joined, chosen = self.changes.selects(self._relation, self.installed)
        return joined, [f"{self._relation}.id", *chosen]

    # ------------------------------------------------------------------------------------------------------ its rows

    def rows(self, records: LazyRows, last: int | None = None) -> ChangedRows:
        """Changes as rows of the table. `last`: of rows of the table that were selected as changes, the number of the
        last change before them."""
        installed = self.installed
        heads = [self.changes.head(record, installed) for record in records]
        documents = self._documents(installed)
        return ChangedRows(records, heads, lambda record: self._row(record, installed, documents, last))

    def places(self, records: LazyRows) -> list[dict[str, Any]]:
        """The key of each row of the table that was selected as a change, as JSON. Raises: SourceError, if one is no
        JSON."""
        return [self.changes.place(record, self.installed) for record in records]

    def whole_table(self, op: Op, last: int, at: datetime) -> dict[str, Any]:
        """The row that begins (B) or ends (E) a snapshot. `last`: the number of the last change before it."""
        row: dict[str, Any] = dict.fromkeys(self._names(self.installed))
        return row | {OP: op, OLD: None, CHANGE: last, TX: None, AT: at}

    def _names(self, installed: Installed) -> Iterable[str]:
        return installed.columns if self._columns is None else dict.fromkeys([*self._columns, *installed.key])

    def selected(self, after: Mapping[str, Any] | None, limit: int) -> tuple[str, dict[str, Any]]:
        """A SELECT of rows of the table behind a key. Raises: as `ChangeTable.rows`."""
        return self.changes.rows(self._relation, self.installed, after, limit)

    def left(self, after: Mapping[str, Any] | None, most: int) -> int:
        """The number of rows of the table behind a key, counted up to `most`. Raises: as `ChangeTable.rows`."""
        return int(self._database.run(*self.changes.left(self.installed, after, most)).rows[0][0])

    def pruned_through(self) -> int:
        """The last change that was pruned; 0 if none was."""
        return self._state()[1]

    def _state(self) -> tuple[str, int]:
        """When the change table was made, and the last change that was pruned, as they are now."""
        changes = self.changes
        rows = self._database.run(changes.state(self.installed.captures), {"changes": changes.name}).rows
        return (str(rows[0][0]), int(rows[0][1])) if rows else ("", 0)

    def _documents(self, installed: Installed) -> frozenset[str]:
        """The columns whose values are to be marked as JSON: see `poller.ports.wants_exact_values`."""
        if not (self._database.exact and self.changes.json_is_text):
            return frozenset()
        return frozenset(name for name, kind in installed.columns.items() if kind.lower() == "json")

    def _row(
        self, record: Mapping[str, Any], installed: Installed, documents: Set[str], last: int | None
    ) -> dict[str, Any]:
        change = self.changes.change(record, installed)
        names = self._names(installed)
        values, old = change.row, change.old
        if documents:
            values, old = _marked(values, documents), None if old is None else _marked(old, documents)
        row = {name: values.get(name) for name in names}
        row[OP] = change.op
        row[OLD] = None if old is None else {name: old[name] for name in names if name in old}
        row[CHANGE], row[TX], row[AT] = change.id if last is None else last, change.tx, change.at
        return row

    def keys(self, rows: ChangedRows) -> list[Mapping[str, KeyValue | None]]:
        """The ordering key of each change, as texts."""
        if not self.ordering:
            names = self.installed.key
            return [dict(zip(names, head.order, strict=True)) for head in rows.heads]
        return [{name: None if row[name] is None else str(row[name]) for name in self.ordering} for row in rows]

    def stopped(self, page: Page, after: Cursor | None) -> Page:
        """The page up to before the first change that is not of one row: a gap, where reading stops, or the table that
        was emptied, which is a page of its own. Raises: CaptureGap, if a gap is the first, or if changes behind `after`
        were pruned."""
        self._refuse_pruned(after)
        heads = page.rows.heads if isinstance(page.rows, ChangedRows) else ()
        for at, head in enumerate(heads):
            if head.is_whole:
                continue
            if at > 0:
                return replace(page.part(0, at), lag=page.lag)
            if head.op == _EMPTIED:
                return replace(page.part(0, 1), lag=page.lag, barrier=True)
            raise self._gap(head)
        return page

    def _gap(self, head: Head) -> CaptureGap:
        changes, number = self.changes, head.id
        missed = "a change has no key" if head.op in "IUD" else "a change was not captured"
        return CaptureGap(
            f"{self.installed.what}: {missed} before change {number}: rows may have changed without a trace.",
            table=changes.table,
            change=number,
            next_step=f"Run {changes.install}, then begin a snapshot: poller reset {changes.poller} --to snapshot. Or"
            " bring the target in line with the table yourself, and go on behind it:"
            f" poller reset {changes.poller} --to {number} --pk id={number} --allow-skip",
        )

    def unreadable(self, said: str) -> CaptureGap:
        """The gap if the server can make no row of a change. `said`: why, as the server says it."""
        changes = self.changes
        return CaptureGap(
            f"{changes.table}: a change that waits does not fit the types that the table's columns have now: {said}.",
            table=changes.table,
            next_step=f"Begin a snapshot: poller reset {changes.poller} --to snapshot",
        )

    def _refuse_pruned(self, after: Cursor | None) -> None:
        """Asked after the page was read: what is pruned is said in the same transaction."""
        changes, installed, (made_at, pruned) = self.changes, self.installed, self._state()
        if made_at != installed.made_at:
            self.forget()
            installed = self.look()
        reached = 0 if after is None else int(after.value) - (after.tiebreaker is None)
        if pruned <= reached:
            return
        gone = "1 number is" if pruned - reached == 1 else f"{pruned - reached} numbers are"
        raise CaptureGap(
            f"{installed.what}: changes up to {pruned} were pruned, and the checkpoint is {reached}: {gone} gone.",
            table=changes.table,
            change=reached,
            next_step=f"Begin a snapshot: poller reset {changes.poller} --to snapshot. Or bring the target in line with"
            f" the table yourself, and go on behind them: poller reset {changes.poller} --to {pruned} --pk id={pruned}",
        )


def _marked(values: Values, documents: Set[str]) -> Values:
    return {name: marked_json(value) if name in documents else value for name, value in values.items()}
