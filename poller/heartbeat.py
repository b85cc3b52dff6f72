"""The heartbeat: a thread that renews a tenure while its owner works, and stops doing so when the owner hangs."""

from __future__ import annotations

import logging
from types import TracebackType

from poller.errors import LeaseLost, StoreError
from poller.model.document import DeliveryError
from poller.observability import Emitter, HandlerTimedOut
from poller.ports import Runtime
from poller.tenure import Tenure

logger = logging.getLogger("poller")


class Heartbeat:
    """Renews every `interval` seconds, counted from the last applied write, since a commit is a heartbeat too.

    It beats only as long as the owner is known to make progress: `expect` says what is being done and how long it may
    take. When that time is over one last write tells what hangs, and the lease is left to expire, so that a hung
    handler does not hold its poller for ever (protocol 6).

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
        self._stop = runtime.event()
        self._doing = ("", 0.0, float("inf"))
        self.gave_up = False
        """Whether something took longer than expected, so that it beats no more."""

    def __enter__(self) -> Heartbeat:
        try:
            self._task = self._runtime.spawn(self._run, f"poller-heartbeat-{self._tenure.fencing_token}")
        except BaseException:
            self._stop.set()  # it may have begun, where an interrupt came right after
            try:
                self._tenure.release(give_back=self._give_back)
            except (LeaseLost, StoreError) as error:
                logger.info("The lease was not given back and will expire: %s", error)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends the thread. A beat that is on its way is waited for, so that this process's next tick finds no write in
        flight (protocol 1); not when the process is being ended."""
        self._stop.set()
        if kind is None or issubclass(kind, Exception):
            self._task.join()

    def expect(self, batch_id: str, seconds: float) -> None:
        """From now on `batch_id` is being worked on, or rows are being read where it is empty; it may take so many
        seconds."""
        now = self._runtime.monotonic()
        self._doing = (batch_id, now, now + seconds)

    def _run(self) -> None:
        while True:
            batch_id, began, until = self._doing
            now = self._runtime.monotonic()
            wait = min(self._tenure.renewed + self._interval, until) - now
            if wait > 0:
                if self._stop.wait(wait):
                    return
                continue
            if self._stop.is_set():
                return
            try:
                if now >= until:
                    self._give_up(batch_id, now - began)
                    return
                self._tenure.renew()
            except LeaseLost:
                return
            except StoreError:
                if self._tenure.lost.is_set() or self._stop.wait(self._interval / 2):
                    return

    def _give_up(self, batch_id: str, seconds: float) -> None:
        if not self.gave_up:
            self.gave_up = True
            self._emit(HandlerTimedOut(batch_id=batch_id, seconds=seconds, **self._tenure.facts()))
        what = "" if batch_id else "the query for the next rows is "
        self._tenure.note(
            DeliveryError(
                type="HandlerTimeout" if batch_id else "QueryTimeout",
                message=f"{what}still running after {seconds:.0f} s; its lease is renewed no more",
                at=self._runtime.utcnow(),
                batch_id=batch_id or None,
            )
        )
