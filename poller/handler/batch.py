"""The batch: what a handler is given."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from poller.errors import ConfigError, LeaseLost
from poller.model import row_changes
from poller.model.captured import CHANGE, OP
from poller.model.cursor import Cursor
from poller.model.row_changes import RowChange
from poller.ports import Event, FreshRows, Page, Row, Table


class LeaseView(Protocol):
    """What a batch may ask of the tenure it runs under."""

    @property
    def lost(self) -> Event: ...

    def check(self) -> None: ...
    def remaining(self) -> float: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a batch stands among the rows of its poller: what a sink needs to apply each row once (failures.md,
    "Effectively once"). Positions count rows in cursor order since the last reset, from 1.

    Attributes:
        app_name: the application that the poller belongs to.
        shard: which part of the table is polled; empty if it is one.
        generation: of the checkpoint; each reset raises it.
        settled: the position up to which commits have been written: no row up to there comes again, but those in
            `held`. A commit on its way is not counted. 0: not known, or nothing has been written.
        through: the position of the last row of this batch; what was read ahead is not counted.
        held: ids (`poller.model.row_ids`) of rows that were passed and come again: set aside, or waiting for a person.
        lane, lanes: which of how many batches that are handled at once in this tenure, from 0.
        untried: whether no row of this batch was handed over before under this token. Where one was, a transaction of
            that call may still be on its way to the database.
    """

    app_name: str = ""
    shard: str = ""
    generation: int = 0
    settled: int = 0
    through: int
    held: frozenset[str] = frozenset()
    lane: int = 0
    lanes: int = 1
    untried: bool = False


@dataclass(frozen=True, slots=True)
class RowFailure:
    """A row that the handler named: it failed, or it is poison (`rejected`) and needs no further attempt.

    Attributes:
        position: of the row in its batch, from 0. error: what the handler said of it.
    """

    position: int
    error: BaseException | str
    rejected: bool = False


class Fence(Protocol):
    """A transaction of a sink. It must be committed when the handler returns."""

    def problem(self) -> str | None:
        """Why the batch is not done, None if the transaction was committed."""
        ...

    def remembers(self, position: int) -> bool:
        """True if the sink has noted the row at this position as applied, and can no longer leave it out."""
        ...


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows in cursor order, delivered at least once: a handler must bear to see one again (see `key`).

    Attributes:
        poller_name: whose rows these are.
        batch_id: a name for this delivery, in logs and in the checkpoint.
        rows: one mapping of column names to values per row; a tuple, so that what is committed is what was handed over.
        table: the rows as a `pyarrow.Table`, with `format = "arrow"`.
        fencing_token: the tenure's token; a sink that keeps the highest token seen can refuse a stale writer.
        attempt: 1 for the first start of this batch, one more for each start after a failure or a crash.
        cursor_from: where the batch begins (exclusive); None is the table's beginning.
        cursor_to: where the checkpoint will stand when the handler has returned.
        standing: where it stands among the poller's rows, for sinks.
        retry: whether it is a row that was set aside and is retried, alone.
        replay: whether a person hands over a row that waited for that.
        fences: transactions of sinks that the handler has begun; they must be committed when it returns.
    """

    poller_name: str
    batch_id: str
    _rows: Sequence[Row]
    fencing_token: int
    attempt: int
    cursor_from: Cursor | None
    cursor_to: Cursor
    _key_at: Callable[[int, Row], str]
    _lease: LeaseView
    standing: Standing
    retry: bool = False
    replay: bool = False
    fences: list[Fence] = field(default_factory=list)
    _failures: dict[int, RowFailure] = field(default_factory=dict)
    _naming: threading.Lock = field(default_factory=threading.Lock)
    """Held while a row is named, or the call ends: what is named counts, or is an error."""
    _over: threading.Event = field(default_factory=threading.Event)
    """Set once the call is over."""
    _positions: dict[int, int] = field(default_factory=dict)
    _table: Table | None = None
    _made: dict[str, tuple[Row, ...]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        page: Page,
        size: int,
        *,
        poller_name: str,
        batch_id: str,
        fencing_token: int,
        attempt: int,
        cursor_from: Cursor | None,
        cursor_to: Cursor | None = None,
        keys: Callable[[Row, Cursor], str],
        lease: LeaseView,
        standing: Standing | None = None,
        retry: bool = False,
        replay: bool = False,
    ) -> Batch:
        """The first `size` rows of a page, as a batch of the tenure `lease`."""
        part, cursors = page.part(0, size), page.cursors
        return cls(
            poller_name=poller_name,
            batch_id=batch_id,
            _rows=part.rows if isinstance(part.rows, FreshRows) else tuple(part.rows),
            fencing_token=fencing_token,
            attempt=attempt,
            cursor_from=cursor_from,
            cursor_to=cursor_to or page.cursors[size - 1],
            _key_at=lambda position, row: keys(row, cursors[position]),  # without the batch: nothing holds itself
            _lease=lease,
            standing=standing or Standing(through=len(part.rows)),
            retry=retry,
            replay=replay,
            _table=part.table,
        )

    @classmethod
    def of_rows(
        cls,
        rows: Sequence[Row],
        *,
        poller_name: str = "test",
        batch_id: str = "batch_test_0001",
        fencing_token: int = 1,
        attempt: int = 1,
        cursor_from: Cursor | None = None,
        cursor_to: Cursor | None = None,
        standing: Standing | None = None,
    ) -> Batch:
        """A batch made by hand, to test a handler with. Its lease lasts until `batch.lost.set()`; its keys distinguish
        rows by all that is in them.

        Args:
            rows: what the handler gets, at least one. The others: as the attributes.
        Raises: ValueError where there is no row: no handler ever gets such a batch.
        """
        if not rows:
            raise ValueError("a batch has at least one row")
        return cls(
            poller_name=poller_name,
            batch_id=batch_id,
            _rows=tuple(rows),
            fencing_token=fencing_token,
            attempt=attempt,
            cursor_from=cursor_from,
            cursor_to=cursor_to or Cursor(kind="integer+pk", value=str(len(rows)), tiebreaker={"id": len(rows)}),
            _key_at=lambda _, row: f"{poller_name}:{sorted(row.items())}",
            _lease=_LeaseOfATest(),
            standing=standing or Standing(through=len(rows)),
        )

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows, in order: the same objects at each look."""
        made = self._made.get("rows")
        return self._made.setdefault("rows", tuple(self._rows)) if made is None else made

    @property
    def table(self) -> Any:
        """Exactly the rows of the batch, in order, as a `pyarrow.Table`: what the database said, whatever the handler
        changed in `rows` (docs/python.md, "Arrow").

        Raises: ConfigError without `format = "arrow"`; SourceError where the values of a column do not fit together.
        """
        if self._table is None:
            raise ConfigError(
                f'{self.poller_name}: batch.table needs format = "arrow", and this batch has rows.',
                key="format",
                next_step='Set format = "arrow" in the poller\'s source, or use batch.rows.',
            )
        return self._table.arrow()

    @property
    def changes(self) -> tuple[RowChange, ...]:
        """The rows of a captured table as changes: one for each row, in order.

        Raises: ConfigError if the poller has no `capture = true`, so that rows do not say which operation they are.
        """
        if not self.is_captured:
            raise ConfigError(
                f"{self.poller_name}: batch.changes and batch.latest need a captured table, and these rows have no "
                f"columns {OP} and {CHANGE}.",
                key="capture",
                next_step="Set capture = true in the poller's source, or use batch.rows.",
            )
        return tuple(map(row_changes.change_of, self.rows))

    @property
    def is_captured(self) -> bool:
        """True if the rows are changes of a captured table."""
        return OP in self.rows[0] and CHANGE in self.rows[0]

    def latest(self, *key: str) -> tuple[RowChange, ...]:
        """The newest change of each row of a captured table, in order: `batch.latest("id")`.

        A row that was deleted last is its D. T, B and E, which concern all rows, stay where they are between the
        others; no I, U, D or R before a T remains, since the table was empty then.

        Args:
            key: the columns that identify a row of the table, at least one.
        Raises: ConfigError as `changes`; ValueError without a column, or for one that the rows do not have.
        """
        changes = self.changes
        if not key or not set(key) <= set(self.rows[0]):
            raise ValueError('batch.latest takes columns of the rows, those of the table\'s key: batch.latest("id")')
        return row_changes.latest(changes, key)

    @property
    def lost(self) -> Event:
        """Set one grace before the lease can no longer be trusted: a long handler looks at it and stops."""
        return self._lease.lost

    def check(self) -> None:
        """Go on only while the lease is ours. Raises: LeaseLost."""
        self._lease.check()

    def remaining(self) -> float:
        """Seconds for which the lease may still be trusted if it is not renewed; 0 when it is lost."""
        return self._lease.remaining()

    def key(self, row: Row) -> str:
        """A stable idempotency key for a row of this batch: table, key and cursor text, so that the same version of
        a row has the same key in every delivery, and a later version another.

        Raises: ValueError for a row that is not of this batch.
        """
        position = self._position(row, "key")
        return self._key_at(position, self.rows[position])

    def keys(self) -> list[str]:
        """The idempotency keys of all rows, in order."""
        return list(map(self._key_at, range(len(self._rows)), self.rows))

    def fail(self, row: Row, error: BaseException | str) -> None:
        """This row failed; those that are not named are done when the handler returns (failures 3).

        With `on_poison = "quarantine"` the rows named are set aside and no other comes again. In the other modes the
        checkpoint moves to just before the first of them, and what was done behind it comes again.

        Raises: ValueError for a row that is not of this batch, or that a sink has noted as applied: name it before
        the sink's block ends. RuntimeError in a thread or task that names it after the call is over: it changes
        nothing then, so the handler has to wait for what it starts.
        """
        self._name(row, error, "fail")

    def reject(self, row: Row, why: str) -> None:
        """This row is poison: no attempt will make it work. As `fail` otherwise, and it outweighs that."""
        self._name(row, why, "reject")

    @property
    def failures(self) -> tuple[RowFailure, ...]:
        """What the handler named by `fail` and `reject`, in the order of the rows."""
        named = self._failures.copy()  # a thread of the handler may still name some
        return tuple(named[position] for position in sorted(named))

    def end(self) -> tuple[RowFailure, ...]:
        """The call is over: the `failures` that count. Naming a row is an error from now on."""
        with self._naming:
            self._over.set()
        return self.failures

    def unfinished(self) -> str | None:
        """Which transaction of a sink is not committed although the handler returned; None where all are."""
        return next((problem for fence in self.fences if (problem := fence.problem()) is not None), None)

    def noted(self, position: int) -> bool:
        """True if a sink has noted the row at this position as applied: it can no longer fail."""
        return any(fence.remembers(position) for fence in self.fences)

    def _name(self, row: Row, error: BaseException | str, method: Literal["fail", "reject"]) -> None:
        """Name a row as failed or rejected. Raises: as `fail`."""
        position, rejected = self._position(row, method), method == "reject"
        if self.noted(position):
            raise ValueError("a sink has noted this row as applied: name it as failed before the sink's block ends")
        with self._naming:
            if self._over.is_set():
                raise RuntimeError(
                    f"batch.{method}: the call with {self.batch_id} of {self.poller_name} is over, so this changes "
                    "nothing: unless the batch failed, the row counts as done. Wait in the handler for each thread, "
                    "future and task that it starts."
                )
            known = self._failures.get(position)
            if rejected or known is None or not known.rejected:
                self._failures[position] = RowFailure(position, error, rejected=rejected)

    def _position(self, row: Row, method: str) -> int:
        if not self._positions:  # most handlers never ask; several threads may, and each then adds the same
            self._positions.update({id(one): at for at, one in enumerate(self.rows)})
        position = self._positions.get(id(row))
        if position is None:
            raise ValueError(f"batch.{method}(row) takes a row of this batch")
        return position


class _LeaseOfATest:
    """Lasts until the test sets `lost`."""

    LASTS = 86_400.0
    """Seconds that remain. Not infinity: handlers make time limits of it."""

    def __init__(self) -> None:
        self.lost: Event = threading.Event()

    def check(self) -> None:
        if self.lost.is_set():
            raise LeaseLost("The test took the lease away.", reason="taken_over")

    def remaining(self) -> float:
        return 0.0 if self.lost.is_set() else self.LASTS
