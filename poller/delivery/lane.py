"""One lane: a thread that calls the handler, batch after batch, and the rows that wait for it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import TypeAlias, overload

from poller.delivery.leased import Handled
from poller.delivery.watermark import DealtPage
from poller.handler.batch import Batch
from poller.model.cursor import Cursor
from poller.ports import Bound, Runtime, Task

Dealt: TypeAlias = tuple[DealtPage, int]
"""A row: its page, and its place there."""


class Cursors(Sequence[Cursor]):
    """The cursors of rows that were dealt, made on demand: of most rows nobody asks."""

    def __init__(self, rows: Sequence[Dealt]) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> Cursor: ...
    @overload
    def __getitem__(self, index: slice) -> Cursors: ...
    def __getitem__(self, index: int | slice) -> Cursor | Cursors:
        if isinstance(index, slice):
            return Cursors(self._rows[index])
        page, at = self._rows[index]
        return page.rows.page.cursors[at]


@dataclass(slots=True)
class InHand:
    """A batch that a lane has.

    Attributes:
        entries: bytes of the document that its rows take up if all of them are listed.
        handled: what came of it. error: what went wrong beside the handler.
    """

    lane: int
    batch: Batch
    rows: Sequence[Dealt]
    entries: int
    run: Callable[[], Handled]
    handled: Handled | None = None
    error: BaseException | None = None
    context: Context = field(default_factory=copy_context)

    def call(self) -> None:
        """Call the handler, and keep what came of it. Raises nothing."""
        try:
            self.handled = self.context.run(self.run)
        except BaseException as error:  # noqa: BLE001 - raised in the tick's thread
            self.error = error


class Lane:
    """A lane of one tenure. `ended`: called in its thread when a batch is over.

    Attributes:
        waiting: rows that wait, in cursor order. hand: the batch that it has.
    """

    def __init__(self, number: int, runtime: Runtime, name: str, ended: Callable[[InHand], None]) -> None:
        self.number = number
        self.waiting: deque[Dealt] = deque()
        self.hand: InHand | None = None
        self._runtime = runtime
        self._name = name
        self._ended = ended
        self._task: Task | None = None
        self._next: InHand | None = None
        self._over = False
        self._wake = runtime.event()

    @property
    def first_position(self) -> int:
        """Where the first row that waits stands among all."""
        page, at = self.waiting[0]
        return page.before + at

    def take(self, size: int, key_of: Callable[[DealtPage, int], Hashable]) -> list[Dealt]:
        """The rows of the next batch. Two pages may have two bounds, so that a row may stand in both: no batch has two
        versions of one row."""
        taken = [self.waiting.popleft()]
        first, keys = taken[0][0], set[Hashable]()
        while self.waiting and len(taken) < size:
            page, at = self.waiting[0]
            if page is not first and not _same_bound(first.rows.page.bound, page.rows.page.bound):
                keys = keys or {key_of(*dealt) for dealt in taken}
                pk = key_of(page, at)
                if pk in keys:
                    break
                keys.add(pk)
            taken.append(self.waiting.popleft())
        return taken

    def give_back(self, rows: Sequence[Dealt]) -> None:
        """Rows that were taken wait again."""
        self.waiting.extendleft(reversed(rows))

    def begin(self, hand: InHand) -> None:
        """Call the handler with a batch, beside the caller. What is thrown in here (Ctrl-C) leaves no batch that never
        ends: either none is in hand, or `wake` begins it."""
        if self._task is None:
            try:
                self._task = self._runtime.spawn(self._work, f"{self._name}-{self.number}")
            except RuntimeError:  # no further thread can be started
                hand.call()
                self.hand = hand
                self._ended(hand)
                return
        self._next = hand
        self.hand = hand
        self.wake()

    def wake(self) -> None:
        """Its thread looks whether there is a batch that it has not begun."""
        self._wake.set()

    def end(self) -> None:
        """Its thread, which has no batch, ends."""
        self._over, self._next = True, None
        self.wake()

    def join(self) -> None:
        """Wait until its thread has ended."""
        if self._task is not None:
            self._task.join()

    def _work(self) -> None:
        while not self._over:
            self._wake.wait()
            self._wake = self._runtime.event()
            hand, self._next = self._next, None
            if hand is not None:
                hand.call()
                self._ended(hand)
                hand = None  # while it waits it keeps no rows


def _same_bound(one: Bound, other: Bound) -> bool:
    """Whether both are one sample of a bound below which no row appears any more."""
    exact = one.value is not None and one.kind not in ("none", "heuristic")
    return exact and (one.kind, one.value, one.clock) == (other.kind, other.value, other.clock)
