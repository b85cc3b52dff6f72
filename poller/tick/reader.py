"""Reading the rows of a tick: where it starts, and page by page, one page ahead of what is handed over (throughput.md).

Pages are sized for the database, batches for the handler: what a page holds beyond a batch is kept for the next ones.
A source is used by one thread at a time: by the tick's, or by the task that reads ahead, which is waited for first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from poller.lease.state_file import Copy
from poller.model.cursor import Cursor
from poller.model.document import State
from poller.model.fingerprint import SourceDescription
from poller.ports import Bound, Event, Lag, Page
from poller.tick.context import Context
from poller.tick.preflight import check_fingerprint, reads_of
from poller.tick.rows import PageRows
from poller.tick.sizes import rows_that_fit, rows_within
from poller.tick.watches import PENDING_CAP

LAG_KEPT = 1.0
"""Seconds: how old a lag may be that came with a page without rows."""
KEPT_FOR = 5.0
"""Seconds after which rows that were not handed over are read again: others may have changed
them."""


@dataclass(frozen=True)
class _Read:
    """One page as it was read.

    Attributes:
        after: the cursor before it. limit: how many rows were asked for: one more than it may hand over, which shows
            whether there are others behind. at: when it was there, on the runtime's monotonic clock.
        memory: what a commit stores of the bound as it was then.
        described: where asking the server changed what the source is, its description.
    """

    page: Page
    after: Cursor | None
    limit: int
    at: float
    memory: dict[str, Any] | None
    described: SourceDescription | None

    @property
    def usable(self) -> int:
        """The number of its rows that may be handed over."""
        return min(len(self.page.rows), self.limit - 1)

    @property
    def full(self) -> bool:
        """True if there are rows behind it."""
        return len(self.page.rows) == self.limit or self.page.more


class _Ahead:
    """A page that is being read by another thread.

    Attributes:
        read, error: what came of it.
    """

    def __init__(self, over: Event) -> None:
        self.read: _Read | None = None
        self.error: BaseException | None = None
        self._over = over
        self._begun = self._dropped = False

    def work(self, read: Callable[[], _Read]) -> None:
        """In its thread: read the page, unless it was dropped before. Raises nothing."""
        self._begun = True
        try:
            if not self._dropped:
                self.read = read()
        except BaseException as error:  # noqa: BLE001 - raised where the page is wanted
            self.error = error
        finally:
            self._over.set()

    def end(self) -> None:
        """Return when its thread no longer uses the source; one that has not begun never will. An interrupt (Ctrl-C)
        is raised after that, however often one comes."""
        self._dropped, thrown = True, None
        while self._begun and not self._over.is_set():
            try:
                self._over.wait()
            except (Exception, KeyboardInterrupt, SystemExit) as error:  # noqa: BLE001 - raised below
                thrown = error
        if thrown is not None:
            raise thrown

    def wait(self) -> None:
        """Return when the page was read, or could not be."""
        self._over.wait()

    def result(self) -> _Read:
        """The page, once it was read. Raises: what reading it raised."""
        self.wait()
        if self.error is not None:
            raise self.error
        if self.read is None:
            raise AssertionError("a task that ended has read a page, or failed")
        return self.read


class Reader:
    """Reads pages for one tick.

    Attributes:
        bound: below what the last page was read; None before the first.
        interrupted: True if the table changed so that the rows behind the last page begin with their tie again: the
            next tick reads them.
    """

    def __init__(self, context: Context) -> None:
        self.bound: Bound | None = None
        self.interrupted = False
        self._facts: Mapping[str, Any] | None = None
        """What the cursor that is read from rests on."""
        self._context = context
        self._held: _Read | None = None
        self._next = 0
        """Which row of the held page comes next."""
        self._size = 0
        """The number of its rows that were handed over last."""
        self._given = float("-inf")
        """When rows were handed over last."""
        self._slow = False
        """True if the last call took so long that a page read meanwhile would have been too old."""
        self._ahead: _Ahead | None = None
        self._lag: tuple[Cursor | None, float, Lag] | None = None
        """What a page without rows said of it: behind which cursor, and when."""
        self.notify: Callable[[], None] | None = None
        """Called by another thread, when a page that was read ahead is there."""

    def start(self, copy: Copy | None) -> Cursor | None:
        """The cursor to read from: the checkpoint's, or what `start_from` means where there is no document. The source
        learns what an earlier process knew of its bound. Raises: as `Source.start`."""
        self.rest()
        source = self._context.source
        if copy is None:
            return source.start()
        if copy.state.bound is not None:
            source.recall(copy.state.bound)
        self._facts = copy.state.facts
        return copy.state.checkpoint.cursor

    def first(self, after: Cursor | None, state: State | None, *, wide: bool = False) -> PageRows:
        """The first rows of a tick: a batch and one more, which shows whether it is the last; below a new bound. They
        may begin with the tie of `after` again (`Page.again`).

        `wide`: a page, for several lanes or because rows of it are done already.

        Raises: FingerprintMismatch, if the server just said that the names in the configuration mean another table
            than that of `state`; SourceUnavailable, SourceError.
        """
        limit = self._limit(None, wide=True) if wide else self._context.options.batch_size + 1
        with reads_of(self._context.name, state, self._context.source):
            read = self._read(after, limit, again=False)
        return self._taken(read, after if read.page.again is None else read.after, state, wide=wide)

    def given(self) -> None:
        """Some of the rows that were given last are handed over now."""
        self._given = self._context.runtime.monotonic()

    def narrowed(self, after: Cursor | None) -> PageRows:
        """The rows of one batch, of those that were given last, behind the same cursor."""
        return self._slice(after, wide=False)

    def rows(self, after: Cursor | None, state: State, *, batches: int | None, wide: bool = False) -> PageRows:
        """The rows of the next batch, or with `wide` of the page: those that were read already, as far as they are not
        too old.

        Args:
            after: the cursor behind the last row that was passed. batches: how many batches may still follow; None: no
                limit.
        Raises: as `first`.
        """
        self._slow = self._context.runtime.monotonic() - self._given > KEPT_FOR
        held = self._held
        if held is not None and self._stands_at(after) and (wide or self._context.options.read_ahead):
            if self._next < held.usable and self._is_young(held):
                return self._slice(after, wide=wide)
            if self._next == held.usable and self._ahead is not None:
                read = self._awaited(self._ahead)
                if self._is_young(read):
                    return self._taken_on(read, after, state, wide=wide)
        self.rest()
        limit = self._limit(batches, wide=wide)
        return self._taken_on(self._read(after, limit, again=True), after, state, wide=wide)

    def again(self, after: Cursor | None, state: State, count: int) -> PageRows:
        """Rows that were handed on and not begun, as they are now: so many behind a cursor. What is read ahead stays.

        Raises: as `first`.
        """
        if self._ahead is not None:
            self._ahead.wait()  # the source is used by one thread at a time
        read = self._read(after, count, again=True)
        if read.described is not None:
            check_fingerprint(self._context.name, state, self._context.source)
        return PageRows(self._context.source, read.page, after, count, read_at=read.at)

    def lag(self, after: Cursor | None) -> Lag | None:
        """How far behind a cursor is, if the last page has just said so."""
        if self._lag is None or self._lag[0] != after or self._context.runtime.monotonic() - self._lag[1] > LAG_KEPT:
            return None
        return self._lag[2]

    @property
    def has_more(self) -> bool:
        """True if there are rows behind the page that is held."""
        return self._held is not None and self._held.full

    @property
    def is_reading(self) -> bool:
        """True if a page is being read ahead, and is not there yet."""
        ahead = self._ahead
        return ahead is not None and ahead.read is None and ahead.error is None

    def go_ahead(self, *, batches: int | None, wide: bool = False, wanted: bool = False) -> None:
        """Read the page behind the held one meanwhile, if there is one. Raises nothing: what goes wrong is raised
        where the page is wanted.

        Args:
            batches: how many may still follow the one that begins now; None: no limit. wide: for several lanes.
            wanted: it is waited for, so it is read whether or not pages are read ahead.
        """
        held = self._held
        off = not wanted and (self._slow or self._context.options.read_ahead == 0)
        if off or held is None or not held.full or self._ahead is not None:
            return
        follow = None if batches is None else batches - self._batches(held, batches + 1) + 1
        if follow is not None and follow <= 0:
            return
        after, limit = held.page.cursors[held.usable - 1], self._limit(follow, wide=wide)
        ahead = _Ahead(self._context.runtime.event())

        def work() -> None:
            ahead.work(lambda: self._read(after, limit, again=True))
            if self.notify is not None:
                self.notify()

        self._ahead = ahead  # before it is started: an interrupt (Ctrl-C) in there may leave the thread running
        try:
            self._context.runtime.spawn(work, f"poller-reader-{self._context.name}")
        except RuntimeError:  # no further thread can be started: the page is read when it is wanted
            self._ahead = None

    def rest(self) -> None:
        """Nothing is read any more, and what was read ahead is dropped: the source is the caller's thread's again."""
        if self._ahead is not None:
            self._ahead.end()
            self._ahead = None

    def _awaited(self, ahead: _Ahead) -> _Read:
        """The page that is read ahead, once it was read. Raises: what reading it raised."""
        try:
            return ahead.result()
        finally:
            self.rest()

    def _is_young(self, read: _Read) -> bool:
        return self._context.runtime.monotonic() - read.at <= KEPT_FOR

    def _stands_at(self, after: Cursor | None) -> bool:
        """True if the cursor is in the held page; the rows behind it come next then."""
        held = self._held
        if held is None:
            return False
        last = self._next + self._size
        batch = min(last, self._next + self._cut(held, self._next))  # of a wide page mostly a batch was passed
        for at in (last, batch, *range(last - 1, self._next - 1, -1)):
            if (held.after if at == 0 else held.page.cursors[at - 1]) == after:
                self._next = at
                return True
        return False

    def _limit(self, batches: int | None, *, wide: bool) -> int:
        """The number of rows that the next page may hold, and one more."""
        options = self._context.options
        size, lanes = options.batch_size, options.concurrency if wide else 1
        most = lanes
        if options.read_ahead and not self._slow and (lanes == 1 or self._held is not None):
            most = max(1, (options.page_size or max(1000, 2 * lanes * size)) // size)
        if batches is not None:
            most = min(most, max(1, batches))
        if most > 1 and self._held is not None:
            most = min(most, max(1, rows_within(options.page_bytes, self._held.page.rows) // size))
        return most * size + 1

    def _read(self, after: Cursor | None, limit: int, *, again: bool) -> _Read:
        """Read a page; `again`: the bound of the one before may serve."""
        source, runtime = self._context.source, self._context.runtime
        before = source.describe()
        source.rests_on(self._facts)
        page = (source.next_page if again else source.page)(after, limit, lag_cap=PENDING_CAP)
        described = source.describe()
        return _Read(
            page,
            after if page.again is None else page.again.cursor,
            limit,
            runtime.monotonic(),
            memory=source.remember(),
            described=described if described is not before else None,
        )

    def _taken_on(self, read: _Read, after: Cursor | None, state: State, *, wide: bool) -> PageRows:
        """As `_taken`, of a page behind others; no row, if it begins with its tie again: the document has to say so
        before they are handed over."""
        if read.page.again is None:
            return self._taken(read, after, state, wide=wide)
        self.interrupted, self._held = True, None
        return PageRows(self._context.source, Page([], [], read.page.bound), after, 0, read_at=read.at)

    def _taken(self, read: _Read, after: Cursor | None, state: State | None, *, wide: bool) -> PageRows:
        """The page is handed over from now on."""
        context = self._context
        if state is not None and read.described is not None:  # the server was asked what the names mean
            check_fingerprint(context.name, state, context.source)
        self._held, self._next, self.bound = read, 0, read.page.bound
        self._facts = read.page.facts or self._facts
        self._lag = None if read.page.lag is None else (read.after, read.at, read.page.lag)
        context.watch_bound(context.name, context.runtime.utcnow(), read.page.bound)
        return self._slice(after, wide=wide)

    def _cut(self, read: _Read, first: int) -> int:
        """The number of rows of a page that make the batch that begins with this one."""
        options = self._context.options
        size = min(options.batch_size, read.usable - first)
        if options.batch_bytes is None or size <= 1:
            return size
        return rows_that_fit(options.batch_bytes, read.page.rows[first : first + size])

    def _batches(self, read: _Read, most: int) -> int:
        """The number of batches that of a page are left, `most` at most."""
        options, first = self._context.options, self._next
        if options.batch_bytes is None:
            return -(-(read.usable - first) // options.batch_size)
        found = 0
        while first < read.usable and found < most:
            first += self._cut(read, first)
            found += 1
        return found

    def _slice(self, after: Cursor | None, *, wide: bool) -> PageRows:
        """The rows of the next batch, with the one behind them where there is one; with `wide` all that are left."""
        read, first = self._held, self._next
        self._given = self._context.runtime.monotonic()
        if read is None:
            raise AssertionError("a page is held")
        self._size = size = read.usable - first if wide else self._cut(read, first)
        page, whole, end = read.page, read.page.cursors, first + size + 1
        if first or end < len(page.rows):
            page = page.part(first, end)
        return PageRows(
            self._context.source,
            page,
            after,
            size,
            memory=read.memory,
            alone=self.rest,
            beyond=lambda: whole[first + size :],
            is_wide=wide,
            read_at=read.at,
        )
