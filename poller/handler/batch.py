"""The batch: what a handler is given."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from poller.errors import LeaseLost
from poller.model.cursor import Cursor
from poller.ports import Event, Page, Row


class LeaseView(Protocol):
    """What a batch may ask of the tenure it runs under."""

    @property
    def lost(self) -> Event: ...

    def check(self) -> None: ...
    def remaining(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows in cursor order, delivered at least once: a handler must bear to see one again (see `key`).

    Attributes:
        poller_name: whose rows these are.
        batch_id: a name for this delivery, in logs and in the checkpoint.
        rows: one mapping of column names to values per row; a tuple, so that what is committed is what was handed over.
        fencing_token: the tenure's token; a sink that keeps the highest token seen can refuse a stale writer.
        attempt: 1 for the first start of this batch, one more for each start after a failure or a crash.
        cursor_from: where the batch begins (exclusive); None is the table's beginning.
        cursor_to: where the checkpoint will stand when the handler has returned.
    """

    poller_name: str
    batch_id: str
    rows: tuple[Row, ...]
    fencing_token: int
    attempt: int
    cursor_from: Cursor | None
    cursor_to: Cursor
    _key_at: Callable[[int], str]
    _lease: LeaseView
    _positions: Mapping[int, int]

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
        keys: Callable[[Row, Cursor], str],
        lease: LeaseView,
    ) -> Batch:
        """The first `size` rows of a page, as a batch of the tenure `lease`."""
        rows = tuple(page.rows[:size])
        return cls(
            poller_name=poller_name,
            batch_id=batch_id,
            rows=rows,
            fencing_token=fencing_token,
            attempt=attempt,
            cursor_from=cursor_from,
            cursor_to=page.cursors[size - 1],
            _key_at=lambda position: keys(rows[position], page.cursors[position]),
            _lease=lease,
            _positions={id(row): position for position, row in enumerate(rows)},
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
    ) -> Batch:
        """A batch made by hand, to test a handler with. Its lease lasts until `batch.lost.set()`; its keys tell rows by
        all that is in them.

        Args:
            rows: what the handler gets, at least one. The others: as the attributes.
        Raises: ValueError where there is no row: no handler ever gets such a batch.
        """
        if not rows:
            raise ValueError("a batch has at least one row")
        return cls(
            poller_name=poller_name,
            batch_id=batch_id,
            rows=tuple(rows),
            fencing_token=fencing_token,
            attempt=attempt,
            cursor_from=cursor_from,
            cursor_to=cursor_to or Cursor(kind="integer+pk", value=str(len(rows)), tiebreaker={"id": len(rows)}),
            _key_at=lambda position: f"{poller_name}:{sorted(rows[position].items())}",
            _lease=_LeaseOfATest(),
            _positions={id(row): position for position, row in enumerate(rows)},
        )

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

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
        position = self._positions.get(id(row))
        if position is None:
            raise ValueError("batch.key(row) takes a row of this batch")
        return self._key_at(position)

    def keys(self) -> list[str]:
        """The idempotency keys of all rows, in order."""
        return [self._key_at(position) for position in range(len(self.rows))]


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
