"""Reading the rows of a tick: where it starts, and page by page, one page ahead of what is handed over (throughput.md).

Pages are sized for the database, batches for the handler: what a page holds beyond a batch is kept for the next ones.
A source is used by one thread at a time: by the tick's, or by the task that reads ahead, which is waited for first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from poller.delivery.context import Context
from poller.delivery.preflight import check_fingerprint
from poller.delivery.rows import PageRows
from poller.delivery.sizes import rows_within
from poller.lease.state_file import Copy
from poller.model.cursor import Cursor
from poller.model.document import State
from poller.model.fingerprint import SourceDescription
from poller.ports import Bound, Page, ReusingSource, Task

KEPT_FOR = 5.0
"""Rows that have been there for so many seconds and were not handed over are read again: others may have changed
them."""


@dataclass(frozen=True)
class _Read:
    """One page as it was read.

    Attributes:
        after: the cursor before it. limit: how many rows were asked for: one more than it may hand over, which shows
            whether there are others behind. at: when it was there, on the runtime's monotonic clock.
        memory, made: what a commit stores of the source as it was then.
        described: where asking the server changed what the source is, its description.
    """

    page: Page
    after: Cursor | None
    limit: int
    at: float
    memory: dict[str, Any] | None
    made: str | None
    described: SourceDescription | None

    @property
    def usable(self) -> int:
        """How many of its rows may be handed over."""
        return min(len(self.page.rows), self.limit - 1)

    @property
    def full(self) -> bool:
        """Whether there are rows behind it."""
        return len(self.page.rows) == self.limit


class _Ahead:
    """A page that is being read by another thread."""

    def __init__(self, after: Cursor) -> None:
        self.after = after
        self.task: Task | None = None
        self.read: _Read | None = None
        self.error: BaseException | None = None

    def result(self) -> _Read:
        """The page, once it was read. Raises: what reading it raised."""
        if self.task is not None:
            self.task.join()
        if self.error is not None:
            raise self.error
        if self.read is None:
            raise AssertionError("a task that ended has read a page, or failed")
        return self.read


class Reader:
    """Reads pages for one tick.

    Attributes:
        bound: below what the last page was read; None before the first.
    """

    def __init__(self, context: Context) -> None:
        self.bound: Bound | None = None
        self._context = context
        self._held: _Read | None = None
        self._next = 0
        """Which row of the held page comes next."""
        self._given = float("-inf")
        """When rows were handed over last."""
        self._slow = False
        """Whether the last call took so long that a page read meanwhile would have been too old."""
        self._ahead: _Ahead | None = None

    def start(self, copy: Copy | None) -> Cursor | None:
        """The cursor to read from: the checkpoint's, or what `start_from` means where there is no document. The source
        learns what an earlier process knew of its bound. Raises: as `Source.start`."""
        self.rest()
        source = self._context.source
        if copy is None:
            return source.start()
        if copy.state.bound is not None:
            source.recall(copy.state.bound)
        return copy.state.checkpoint.cursor

    def first(self, after: Cursor | None, state: State | None) -> PageRows:
        """The first rows of a tick: a batch and one more, which shows whether it is the last; below a new bound.

        Raises: FingerprintMismatch, where the server just said that the names in the configuration mean another table
            than that of `state`; SourceUnavailable, SourceError.
        """
        return self._taken(self._read(after, self._context.options.batch_size + 1, again=False), after, state)

    def rows(self, after: Cursor | None, state: State, *, batches: int | None) -> PageRows:
        """The rows of the next batch: those that were read already, as far as they are not too old.

        Args:
            after: the cursor behind the last row that was passed. batches: how many batches may still follow; None: no
                limit.
        Raises: as `first`.
        """
        self._slow = self._context.runtime.monotonic() - self._given > KEPT_FOR
        held = self._held
        if held is not None and self._stands_at(after):
            if self._next < held.usable and self._is_young(held):
                return self._slice(after)
            if self._next == held.usable and self._ahead is not None:
                ahead, self._ahead = self._ahead, None
                read = ahead.result()
                if self._is_young(read):
                    return self._taken(read, after, state)
        self.rest()
        return self._taken(self._read(after, self._limit(batches), again=True), after, state)

    def go_ahead(self, *, batches: int | None) -> None:
        """Read the page behind the held one meanwhile, where there is one. `batches`: how many may still follow the one
        that begins now; None: no limit. Raises nothing: what goes wrong is raised where the page is wanted."""
        held = self._held
        off = self._slow or self._context.options.read_ahead == 0
        if off or held is None or not held.full or self._ahead is not None:
            return
        size = self._context.options.batch_size
        left = -(-(held.usable - self._next) // size) - 1
        follow = None if batches is None else batches - left
        if follow is not None and follow <= 0:
            return
        ahead, limit = _Ahead(held.page.cursors[held.usable - 1]), self._limit(follow)

        def work() -> None:
            try:
                ahead.read = self._read(ahead.after, limit, again=True)
            except BaseException as error:  # noqa: BLE001 - raised where the page is wanted
                ahead.error = error

        try:
            ahead.task = self._context.runtime.spawn(work, f"poller-reader-{self._context.name}")
        except RuntimeError:  # no further thread can be started: the page is read when it is wanted
            return
        self._ahead = ahead

    def rest(self) -> None:
        """Nothing is read any more, and what was read ahead is dropped: the source is the caller's thread's again."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead.task is not None:
            ahead.task.join()

    def _is_young(self, read: _Read) -> bool:
        return self._context.runtime.monotonic() - read.at <= KEPT_FOR

    def _stands_at(self, after: Cursor | None) -> bool:
        """Whether the cursor stands in the held page; the rows behind it come next then."""
        held = self._held
        if held is None:
            return False
        last = min(held.usable, self._next + self._context.options.batch_size)
        for at in range(last, self._next - 1, -1):
            if (held.after if at == 0 else held.page.cursors[at - 1]) == after:
                self._next = at
                return True
        return False

    def _limit(self, batches: int | None) -> int:
        """How many rows the next page may hold, and one more."""
        options = self._context.options
        size = options.batch_size
        most = 1 if options.read_ahead == 0 else max(1, (options.page_size or max(1000, 2 * size)) // size)
        if batches is not None:
            most = min(most, max(1, batches))
        if most > 1 and self._held is not None:
            most = min(most, max(1, rows_within(options.read_ahead_bytes, self._held.page.rows) // size))
        return most * size + 1

    def _read(self, after: Cursor | None, limit: int, *, again: bool) -> _Read:
        """Read a page; `again`: the bound of the one before may serve."""
        source, runtime = self._context.source, self._context.runtime
        before = source.describe()
        if again and isinstance(source, ReusingSource):
            page = source.next_page(after, limit)
        else:
            page = source.page(after, limit)
        described = source.describe()
        return _Read(
            page,
            after,
            limit,
            runtime.monotonic(),
            memory=source.remember(),
            made=described.made,
            described=described if described is not before else None,
        )

    def _taken(self, read: _Read, after: Cursor | None, state: State | None) -> PageRows:
        """The page is handed over from now on."""
        context = self._context
        if state is not None and read.described is not None:  # the server was asked what the names mean
            check_fingerprint(context.name, state, context.source)
        self._held, self._next, self.bound = read, 0, read.page.bound
        context.watch_bound(context.name, context.runtime.utcnow(), read.page.bound)
        return self._slice(after)

    def _slice(self, after: Cursor | None) -> PageRows:
        """The rows of the next batch, with the one behind them where there is one."""
        read, first = self._held, self._next
        self._given = self._context.runtime.monotonic()
        if read is None:
            raise AssertionError("a page is held")
        size = min(self._context.options.batch_size, read.usable - first)
        page, end = read.page, first + size + 1
        if first or end < len(page.rows):
            ordering = None if page.ordering is None else page.ordering[first:end]
            page = Page(page.rows[first:end], page.cursors[first:end], page.bound, ordering)
        return PageRows(self._context.source, page, after, size, memory=read.memory, made=read.made, alone=self.rest)
