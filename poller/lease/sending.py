"""One document of a store, written until it is known what became of the write (protocol 2).

No usable answer: the same bytes go out again under the same condition, so that a copy that lands late is fenced.
Refused: the caller reads the document again, and its own write id in it says that the write had been applied.
"""

from __future__ import annotations

from poller.errors import StoreDenied, StoreError, StoreUnavailable, WriteConflict
from poller.lease.server_clock import ServerClock
from poller.model.timing import Timing
from poller.observability import Emitter, WriteResent
from poller.ports import Found, Runtime, StateStore, Written


class OutcomeUnknown(StoreUnavailable):
    """No answer before the deadline: the write may have been applied, or may yet be, unless nothing was `sent`."""


class Sending:
    """Conditional writes of one document, and the reads that say what became of them. Not safe for concurrent use.

    Args:
        name: of the document in the store. clock: the store's, which each answer corrects.
    """

    def __init__(
        self,
        store: StateStore,
        name: str,
        *,
        poller_name: str,
        runtime: Runtime,
        timing: Timing,
        clock: ServerClock,
        emit: Emitter,
    ) -> None:
        self.store = store
        self.name = name
        self.poller_name = poller_name
        self.runtime = runtime
        self.timing = timing
        self.clock = clock
        self._emit = emit

    @property
    def location(self) -> str:
        """Where the document is, for a person."""
        return self.store.locate(self.name)

    def send(self, body: bytes, if_tag: str | None, deadline: float) -> Written | None:
        """Send the same bytes until an answer comes; None means that the condition did not hold.

        Args:
            deadline: on the runtime's monotonic clock; nothing is sent after it.

        Raises: OutcomeUnknown; StoreError (StoreDenied, ...) where nothing can have been applied.
        """
        attempt, arrived = 0, False  # whether a copy may have reached the store
        while True:
            attempt += 1
            sent = self.runtime.monotonic()
            if sent >= deadline:  # looked at right before a send: a pause or an answer may have taken too long
                raise self._unresolved(f"the deadline had passed before attempt {attempt}", sent=arrived)
            try:
                answer = self.store.write(self.name, body, if_tag=if_tag, timeout=self.timing.attempt)
            except WriteConflict:
                return None
            except StoreUnavailable as error:
                arrived = arrived or error.sent
                self._pause_before_resend(deadline, attempt, error, sent=arrived)
            except StoreError as error:
                if not arrived:
                    raise
                raise self._unresolved(error.message) from error  # refused now, but an earlier copy may land yet
            else:
                self.clock.saw(answer.server_time, sent)
                return answer

    def reread(self, deadline: float) -> Found | None:
        """What is there now, asked until an answer comes. Raises: OutcomeUnknown."""
        attempt = 0
        while True:
            attempt += 1
            sent = self.runtime.monotonic()
            try:
                answer = self.store.read(self.name, timeout=self.timing.attempt)
            except StoreUnavailable as error:
                self._pause_before_resend(deadline, attempt, error)
                continue
            except StoreDenied as error:
                raise self._unresolved(error.message) from error
            self.clock.saw(answer.server_time, sent)
            return answer if isinstance(answer, Found) else None

    def _pause_before_resend(
        self, deadline: float, attempt: int, error: StoreUnavailable, *, sent: bool = True
    ) -> None:
        pause = self.runtime.jitter(*self.timing.resend)
        if self.runtime.monotonic() + pause >= deadline:
            attempts = "1 attempt" if attempt == 1 else f"{attempt} attempts"
            raise self._unresolved(f"no answer in {attempts}: {error.message}", sent=sent) from error
        self._emit(
            WriteResent(poller=self.poller_name, at=self.runtime.utcnow(), attempt=attempt + 1, error=error.message)
        )
        self.runtime.sleep(pause)

    def _unresolved(self, reason: str, *, sent: bool = True) -> OutcomeUnknown:
        return OutcomeUnknown(
            f"A write to the {self.location} {'is not resolved' if sent else 'was not sent'}: {reason}",
            document=self.name,
            next_step=f"{'It may have been applied' if sent else 'Nothing was changed'}. "
            f"What is stored now: poller status {self.poller_name}",
            sent=sent,
        )
