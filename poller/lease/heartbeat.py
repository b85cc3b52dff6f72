"""The heartbeat: a thread that renews a tenure while its owner works, and stops doing so when the owner hangs."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from types import TracebackType

from poller import forks
from poller.errors import LeaseLost, StoreError
from poller.lease.tenure import Tenure
from poller.model.document import DeliveryError
from poller.model.when import span
from poller.observability import Emitter, HandlerTimedOut, QueryTimedOut, log_failure
from poller.ports import Runtime

logger = logging.getLogger("poller")


@dataclass(frozen=True, slots=True)
class _Doing:
    """A call, or where `batch_id` is empty what the owner does itself: since when, and until when at most, on the
    runtime's monotonic clock."""

    batch_id: str
    began: float
    until: float


class Heartbeat:
    """Renews every `interval` seconds, counted from the last applied write, since a commit is a heartbeat too.

    It beats only as long as the owner is known to make progress: `expect` says what is being done and how long it may
    take. When that time is over one last write says what hangs, and the lease is left to expire, so that a hung
    handler does not hold its poller for ever (protocol 6). Each lane's call has its own limit; what the owner does
    itself, such as reading rows, counts while no call runs.

    Where its thread cannot begin, entering it gives the lease back before it raises: nothing was started under it.
    `give_back`: and the start of the batch that was counted.
    """

    def __init__(
        self, tenure: Tenure, *, runtime: Runtime, interval: float, emit: Emitter, give_back: bool = True
    ) -> None:
        self._tenure = tenure
        self._give_back = give_back
        self._runtime = runtime
        self._interval = interval
        self._emit = emit
        self._reset_after_fork()
        forks.in_child(self._reset_after_fork)
        self._doing = _Doing("", 0.0, float("inf"))
        self._calls: dict[int, _Doing] = {}
        self._hung = self._doing
        self.gave_up = False
        """True if something took longer than expected, so that it no longer beats."""

    def _reset_after_fork(self) -> None:
        """In a child process too, which has no such thread, and whose tenure is over."""
        self._stop = self._runtime.event()
        self._wake = self._runtime.event()
        self._judging = threading.Lock()  # held for two statements: the limit is over, or something else begins

    def __enter__(self) -> Heartbeat:
        try:
            self._task = self._runtime.spawn(self._run, f"poller-heartbeat-{self._tenure.fencing_token}")
        except BaseException:
            self._end()  # it may have begun, where an interrupt came right after
            try:
                self._tenure.release(give_back=self._give_back)
            except (LeaseLost, StoreError) as error:
                poller = self._tenure.facts()["poller"]
                logger.info("%s: the lease was not given back and will expire: %s", poller, error)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends the thread. A beat that is on its way is waited for, so that this process's next tick finds no write in
        flight (protocol 1); not when the process is being ended."""
        self._end()
        if kind is None or issubclass(kind, Exception):
            self._task.join()

    def expect(self, batch_id: str, seconds: float, *, lane: int = 0) -> bool:
        """From now on `batch_id` is handled in a lane, until `ended`; it may take `seconds`. False: what went
        before took too long, it no longer beats, and nothing may begin under it."""
        now = self._runtime.monotonic()
        with self._judging:
            if self.gave_up:
                return False
            self._calls = {**self._calls, lane: _Doing(batch_id, now, now + seconds)}
        self._look_before(seconds)
        return True

    def ended(self, *, lane: int = 0) -> None:
        """The call of a lane is over."""
        with self._judging:
            self._calls = {other: doing for other, doing in self._calls.items() if other != lane}

    def expect_page(self, seconds: float) -> None:
        """From now on rows are read, which may take `seconds`."""
        now = self._runtime.monotonic()
        with self._judging:
            self._doing = _Doing("", now, now + seconds)
        self._look_before(seconds)

    def _look_before(self, seconds: float) -> None:
        """Its thread looks again before `seconds` are over. If they are many it does so anyway: a beat is due."""
        if seconds < self._interval:
            wake, self._wake = self._wake, self._runtime.event()
            wake.set()

    def clear_deadline(self) -> None:
        """From now on only requests to the store are made, and each has a limit of its own: however many there are, the
        owner makes progress."""
        self.expect_page(float("inf"))

    def _end(self) -> None:
        self._stop.set()
        self._wake.set()

    def _run(self) -> None:
        again = float("-inf")
        while True:
            wake = self._wake  # before `_doing` is read, so that no change is missed
            until = self._first().until
            now = self._runtime.monotonic()
            due = max(self._tenure.renewed + self._interval, again)
            wait = (due if self.gave_up else min(due, until)) - now
            if self._stop.is_set():
                return
            if wait > 0:
                wake.wait(wait)
                continue
            try:
                if self._hangs(now):
                    self._report(now)
                    return
                self._tenure.renew()
            except LeaseLost:
                return
            except StoreError:
                pass
            except Exception as error:  # noqa: BLE001 - a driver's own, say: without this thread the lease is lost
                log_failure(self._tenure.facts()["poller"], "A heartbeat failed; it is tried again.", error)
            else:
                continue
            if self._tenure.lost.is_set():
                return
            again = self._runtime.monotonic() + self._interval / 2

    def _first(self) -> _Doing:
        """What must be over first, of all that is being done."""
        return min(self._calls.values() or (self._doing,), key=lambda doing: doing.until)

    def _hangs(self, now: float) -> bool:
        """True if what is being done has taken too long; judged once, and reported once."""
        with self._judging:
            doing = self._first()
            first = now >= doing.until and not self.gave_up
            self.gave_up = self.gave_up or first
            self._hung = doing if first else self._hung
        if first:
            facts = {"seconds": now - doing.began, **self._tenure.facts()}
            self._emit(HandlerTimedOut(batch_id=doing.batch_id, **facts) if doing.batch_id else QueryTimedOut(**facts))
        return self.gave_up

    def _report(self, now: float) -> None:
        batch_id, began = self._hung.batch_id, self._hung.began
        what = "" if batch_id else "the query for the next rows is "
        self._tenure.report_hang(
            DeliveryError(
                type="HandlerTimeout" if batch_id else "QueryTimeout",
                message=f"{what}still running after {span(now - began)}; its lease is no longer renewed",
                batch_id=batch_id or None,
            )
        )
