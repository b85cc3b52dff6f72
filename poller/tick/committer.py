"""Committing what is done: the only writer that moves the checkpoint, by one PUT at a time (throughput.md,
"Committer").

With `max_uncommitted = 1` a batch has been written before the next one begins. With more the handler goes on while a
PUT is on its way, and what is done meanwhile shares the next one; so a crash repeats what had not been written, at most
`max_uncommitted` batches. A handler that is so quick that it had to wait for a PUT fills that room before the next one
goes, as long as this takes no longer than the PUT took: several batches cost one PUT then.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Self

from poller.errors import PollerError
from poller.lease.tenure import Tenure
from poller.model.document import State
from poller.model.put import DoneCall, Landing, Put, written
from poller.observability import BatchCommitted
from poller.ports import Event, Task
from poller.tick.context import Context
from poller.tick.progress import Progress

LONGEST_HOLD = 0.5
"""So many seconds at most a PUT waits for batches that share it."""
SKIP_AFTER_TIMEOUT = 16
"""So many PUTs wait for nothing, once one has waited and the handler was not that quick."""


class Committer:
    """The commits of one tenure. A context manager: at its end everything that is done has been written, or the error
    says that it did not. Used by the tick's thread; only `_work` runs in another, or here if that one could not
    begin."""

    def __init__(self, context: Context, tenure: Tenure, progress: Progress) -> None:
        self._context = context
        self._tenure = tenure
        self._progress = progress
        self._most = context.options.most_uncommitted
        self._lock = threading.Lock()  # held for a few statements, never over a request
        self._waiting: list[Landing] = []
        self._sent: list[Landing] = []
        self._landed: list[Put] = []
        self._error: BaseException | None = None
        self._task: Task | None = None
        self._working = False
        self._at_work = context.runtime.lock()
        """Held by the one thread that works."""
        self._moved: Event = context.runtime.event()
        self._crowded = False
        """True if the handler waits for a PUT to land."""
        self._full: Event = context.runtime.event()
        """Set: the PUT that waits for further batches goes."""
        self._at_once = 0
        """The number of PUTs that wait for nothing."""
        self.notify: Callable[[], None] = _ignore
        """Called by another thread, when something was written or failed to."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.settle()
        except PollerError:
            if kind is None or issubclass(kind, Exception):
                raise

    @property
    def positions(self) -> int:
        """The positions of rows that are done and not yet written."""
        with self._lock:
            return sum(landing.positions for landing in (*self._sent, *self._waiting))

    @property
    def is_working(self) -> bool:
        """True if a PUT is on its way."""
        with self._lock:
            return self._working

    def later(self, landing: Landing) -> None:
        """Commit it by the next PUT, while the handler goes on. Raises: as `settle`, of an earlier one."""
        self._tell()
        with self._lock:
            self._waiting.append(landing)
            full = self._full if len(self._waiting) >= self._most else None
            works, self._working = self._working, True
        if full is not None:
            full.set()  # who waits needs the lock
        if works:
            return
        self._task = None
        try:
            self._task = self._context.runtime.spawn(self._work, f"poller-committer-{self._tenure.fencing_token}")
        except RuntimeError:  # no further thread can be started
            self._work()
            self._tell()

    def now(self, put: Put) -> None:
        """Commit it, after all that waits and by the same PUT, before this returns. Raises: LeaseLost, CommitError."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        self.settle()
        together = replace(put, landings=[*waiting, *put.landings]) if waiting else put
        self._commit(together)
        with self._lock:
            self._landed.append(together)
        self._tell()

    def write(self, put: Put) -> None:
        """The PUT of what passes no row, while nothing is on its way.

        Raises: LeaseLost, OutcomeUnknown, StateCorrupt, StoreDenied.
        """
        self._tenure.put(partial(self._written, put), ends=put.gives_back)

    def leave_room(self) -> None:
        """Wait until one batch more may be begun than have been written. Raises: as `settle`."""
        while True:
            self._tell()
            with self._lock:
                if len(self._sent) + len(self._waiting) < self._most:
                    return
                self._crowded = True
                moved = self._moved = self._context.runtime.event()
            moved.wait()

    def look(self) -> None:
        """Count what was written meanwhile. Raises: what did not land."""
        self._tell()

    def settle(self) -> None:
        """Wait until nothing is on its way. Raises: LeaseLost, CommitError, where something did not land."""
        with self._lock:
            full = self._full
        full.set()
        if self._task is not None:
            self._task.join()
        elif self.is_working:  # an interrupt (Ctrl-C) came while its thread was started: it may run, or never will
            self._work()
        self._tell()

    def _work(self) -> None:
        """PUT after PUT, until nothing waits; one thread at a time."""
        self._at_work.acquire()
        try:
            self._send()
        finally:
            self._at_work.release()

    def _send(self) -> None:
        """See `_work`. A caller that hears of the last PUT finds that no thread is at work any more."""
        working = True
        while working:
            with self._lock:
                if not self._waiting:  # another PUT took it
                    self._working = False
                    return
                self._sent, self._waiting = self._waiting, []
            began = self._context.runtime.monotonic()
            try:
                self._commit(Put(self._sent))
            except BaseException as error:  # noqa: BLE001 - raised in the tick's thread
                with self._lock:
                    self._error = error
            with self._lock:
                if self._error is None:
                    self._landed.append(Put(self._sent))
                    self._sent = []
                holds = self._crowded and self._at_once == 0 and self._error is None
                if holds:
                    self._full = self._context.runtime.event()
                self._crowded, self._at_once = False, max(0, self._at_once - 1)
                working = self._working = holds or (bool(self._waiting) and self._error is None)
                moved, full = self._moved, self._full
            moved.set()  # who waits needs the lock
            self.notify()
            took = self._context.runtime.monotonic() - began
            if holds and not full.wait(min(took, LONGEST_HOLD)):
                self._at_once = SKIP_AFTER_TIMEOUT

    def _commit(self, put: Put) -> None:
        self._tenure.yield_to_operator()
        self._tenure.commit(partial(self._written, put), batch_id=put.batch_id, ends=put.gives_back)

    def _written(self, put: Put, state: State, now: datetime) -> State:
        options, last = self._context.options, self._context.dated(put.to) if put.calls else None
        return written(state, put, limits=options.limits, columns=options.ordering_key, now=now, last=last)

    def _tell(self) -> None:
        """Count what was written, and tell who listens. Raises: what did not land."""
        with self._lock:
            landed, self._landed, error = self._landed, [], self._error
        for put in landed:
            self._count(put)
        if error is not None:
            raise error

    def _count(self, put: Put) -> None:
        progress, log = self._progress, self._context.delivery_log
        for landing in put.landings:
            progress.cursor = landing.to or progress.cursor
            self._tell_of(landing.calls)
            if landing.to is not None:
                log.add(landing.after, landing.cursors)
        if put.above is not None:
            self._tell_of(put.above.calls)
            log.add(None, put.above.cursors, covers=False)

    def _tell_of(self, calls: Sequence[DoneCall]) -> None:
        progress = self._progress
        for call in calls:
            progress.rows += call.rows
            progress.batches += 1
            self._context.emit(
                BatchCommitted(
                    batch_id=call.batch_id,
                    rows=call.rows,
                    cursor=str(progress.cursor),
                    handler_seconds=round(call.seconds, 6),
                    **self._tenure.facts(),
                )
            )


def _ignore() -> None:
    """No lane listens."""
