"""A tenure: one holding of the lease, and the only writer of the state document while it lasts.

States of a tenure: *held* (its deadline is ahead), *lost* (another was written, or the deadline passed) and *ended*
(released). It leaves held once, and never goes back; a release that was under way when the deadline passed, and was
written, turns lost into ended.

What it does NOT promise: that a handler stops when the tenure is lost. It promises that nothing such a handler did can
move the checkpoint. And it does not ask the store whether it is still the owner: it trusts its own deadline, which
counts from before the first send of the write that was applied, so it ends before any taker's wait does (protocol 3).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime
from typing import Any

from poller import forks
from poller.errors import CommitError, LeaseLost, StateCorrupt
from poller.lease.sending import OutcomeUnknown
from poller.lease.state_file import Conflict, Copy, Rewrite, StateFile, WriteResult
from poller.model import handover, transitions
from poller.model.changes import created
from poller.model.cursor import Cursor
from poller.model.document import Control, DeliveryError, State
from poller.model.fingerprint import UNKNOWN_FINGERPRINTS, SourceDescription
from poller.observability import (
    CommitUnknown,
    Emitter,
    FingerprintBound,
    LeaseAcquired,
    LeaseLostEvent,
    LeaseReleased,
    LeaseRenewed,
    LeaseTakenOver,
    StaleCommitRefused,
    YieldedToOperator,
)
from poller.ports import Event, Runtime

YIELD_WITHIN = 2.0
"""The most seconds for which a tenure makes no write when an operator has left a request."""
FORKED = "forked"
"""Why a tenure is over in a child process: it never was that one's."""
CANCELLED = "cancelled"
"""Why a tenure is over that an operator cancelled: it only gives the lease back (failures 9)."""


class Tenure:
    """One holding of a lease. Made by `Tenure.acquire`; safe to use from the runner's and the heartbeat's threads.

    Attributes:
        owner_id, fencing_token: who holds it, and under which token.
        lost: an event that is set one grace before the deadline, or as soon as the loss is known.
        cancelled: who cancelled it and why, if that is the reason why it is over.
    """

    def __init__(self, file: StateFile, landed: WriteResult, *, owner_id: str, emit: Emitter) -> None:
        self.owner_id = owner_id
        self.fencing_token = landed.state.lease.fencing_token
        self._file = file
        self._runtime = file.runtime
        self._emit = emit
        self._copy = landed.copy
        self._renewed = landed.sent
        self._deadline = landed.sent + file.timing.tenure
        self.cancelled: Control | None = None
        self._over: str | None = None
        self._ending = False
        """A release is on its way: it may have been written and another may be at work, so nothing is believed any
        more."""
        self._make_locks()
        self.lost = LostEvent(self._runtime, lambda: self.remaining() - file.timing.grace)
        forks.in_child(self._end_in_child)

    def _make_locks(self) -> None:
        self._lock = self._runtime.lock()
        self._judging = threading.Lock()  # held for two statements: two threads may find out at once, one reports

    def _end_in_child(self) -> None:
        """The tenure is the parent's, which goes on with it: a copy of its handler must write nothing (protocol 14)."""
        self._make_locks()
        self.lost.reset_after_fork()
        self.lost.set()
        self._over = self._over or FORKED

    @classmethod
    def acquire(
        cls,
        file: StateFile,
        copy: Copy | None,
        *,
        owner_id: str,
        source: SourceDescription,
        start: Cursor | None,
        takeover: bool,
        emit: Emitter,
        starts_batch: bool = True,
        begins: Rewrite | None = None,
    ) -> Tenure:
        """Take a free lease by one PUT (protocol 5); with `copy` None create the document, beginning at `start`.
        `starts_batch`: this write counts as a start of the pending batch. `begins`: what it changes beside the lease.

        Success also proves that the checkpoint did not move since `copy` was read.
        Raises: Conflict (another owner took it first; `found` is their document), OutcomeUnknown, StoreDenied.
        """
        runtime, ttl = file.runtime, file.timing.ttl

        def change(state: State, now: datetime) -> State:
            described = state.source and state.source_fingerprint == source.fingerprint()
            if not described and source.belongs(state.source_fingerprint, state.source):
                state = transitions.bind(state, source)
            taken = transitions.acquire(state, owner_id=owner_id, ttl=ttl, now=now, starts_batch=starts_batch)
            taken = taken if begins is None else begins(taken, now)
            return taken if copy is not None else created(taken, identity=runtime.new_id(), by=owner_id, now=now)

        landed = file.write(
            copy,
            change,
            deadline=runtime.monotonic() + file.timing.tenure,
            create=transitions.create(file.poller_name, source, start, ttl=ttl, now=file.clock.now()),
        )
        if landed.superseded and not transitions.still_held(landed.state, landed.copy.state):
            raise Conflict("The lease was taken and lost again.", document=file.name, found=landed.copy)
        tenure = cls(file, landed, owner_id=owner_id, emit=emit)
        tenure.check()
        facts: dict[str, Any] = tenure.facts()
        if copy is not None and takeover:
            before = copy.state.lease
            emit(
                LeaseTakenOver(previous_owner_id=before.owner_id, previous_fencing_token=before.fencing_token, **facts)
            )
        else:
            emit(LeaseAcquired(**facts))
        if copy is not None and copy.state.source_fingerprint in UNKNOWN_FINGERPRINTS:
            emit(FingerprintBound(poller=file.poller_name, at=runtime.utcnow(), fingerprint=source.fingerprint()))
        return tenure

    # --- what others may ask ---------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """The document as this tenure last saw it."""
        return self._copy.state

    @property
    def paused(self) -> bool:
        """True if an operator asked that no other batch starts."""
        return self._copy.state.control.paused

    @property
    def released(self) -> bool:
        """True if it ended by its own will."""
        return self._over == "released"

    @property
    def forked(self) -> bool:
        """True if another process, which this one was forked from, holds it."""
        return self._over == FORKED

    @property
    def renewed(self) -> float:
        """When the last applied write was first sent, on the runtime's monotonic clock."""
        return self._renewed

    def facts(self) -> dict[str, Any]:
        """The fields that every event of this tenure carries."""
        return {
            "poller": self._file.poller_name,
            "at": self._runtime.utcnow(),
            "owner_id": self.owner_id,
            "fencing_token": self.fencing_token,
        }

    def remaining(self) -> float:
        """Seconds for which the lease may still be trusted if it is not renewed; 0 once it is over."""
        return 0.0 if self._ending else self._left()

    def check(self) -> None:
        """Return while the lease is ours. Raises: LeaseLost."""
        self._still_held()
        if self._ending:
            raise self._gone()

    def give_up(self) -> None:
        """It no longer writes: its deadline is not believed any more, if it has not passed yet (a handler was cut
        one grace before it). Reported as any other loss, once. Raises nothing."""
        self._lose("deadline")

    # --- what it writes --------------------------------------------------------------------------------------------

    def renew(self) -> None:
        """A heartbeat: one PUT. Raises: LeaseLost, OutcomeUnknown, StateCorrupt, StoreDenied."""
        self._apply(lambda state, now: transitions.renew(state, now=now))
        self._emit(LeaseRenewed(**self.facts()))

    def report_hang(self, error: DeliveryError) -> None:
        """A last heartbeat that also stores what hangs, for `status`. Raises: as `renew`."""

        def change(state: State, now: datetime) -> State:
            delivery = state.delivery.model_copy(update={"last_error": error.model_copy(update={"at": now})})
            return transitions.renew(state.model_copy(update={"delivery": delivery}), now=now)

        self._apply(change)

    def put(self, change: Rewrite, *, ends: bool = False) -> None:
        """Change the document by one PUT; `ends`: the change gives the lease back.

        Raises: LeaseLost, OutcomeUnknown, StateCorrupt, StoreDenied.
        """
        self._apply(change, ends=ends)

    def commit(self, change: Rewrite, *, batch_id: str, ends: bool) -> None:
        """The PUT after a call, which moves the checkpoint or a row that waited; `ends`: it gives the lease back, too.

        Raises: LeaseLost (refused: the tenure was over; nothing was written), CommitError (unresolved at the deadline).
        """
        try:
            self._apply(change, ends=ends)
        except OutcomeUnknown as error:
            self._emit(CommitUnknown(batch_id=batch_id, **self.facts()))
            raise CommitError(
                f"The commit of {batch_id} could not be resolved before the lease's deadline: {error.message}",
                batch_id=batch_id,
                next_step=f"{'It may have been applied' if error.sent else 'Nothing was sent'}; "
                "the next tick reads the truth.",
            ) from error
        except LeaseLost as error:
            self._emit(StaleCommitRefused(batch_id=batch_id, reason=error.reason, **self.facts()))
            raise

    def release(self, *, give_back: bool, drained: bool = False) -> None:
        """Give the lease back by one PUT; `give_back`: the pending batch, and what the last PUT named, were not tried;
        `drained`: no row is left.

        Raises: LeaseLost, OutcomeUnknown, StoreDenied.
        """

        def released(state: State, now: datetime) -> State:
            state = transitions.drained(state) if drained else state
            if give_back:
                return handover.released(state, now=now)
            return transitions.release(state, give_back=False, now=now)

        self._apply(released, ends=True)

    def release_cancelled(self) -> None:
        """After a cancel, once the handler has ended: give the lease back by one PUT on the document as it is now, if
        it is still this tenure's, however late. Nothing else is written (failures 9).

        Raises: StoreError.
        """

        def ours(_: State, found: State) -> bool:
            lease = found.lease
            return (lease.owner_id, lease.fencing_token) == (self.owner_id, self.fencing_token)

        timing = self._file.timing
        self._lock.acquire()
        try:
            copy = self._file.read()
            if self.cancelled is None or copy is None or not ours(copy.state, copy.state):
                return
            self._file.write(
                copy,
                lambda state, now: transitions.release(state, give_back=False, now=now),
                deadline=self._runtime.monotonic() + timing.attempt.connect + timing.attempt.read,
                redo=ours,
            )
        finally:
            self._lock.release()
        self._emit(LeaseReleased(**self.facts()))

    def yield_to_operator(self) -> None:
        """Where an operator left a request, make no write for a moment, so that theirs gets through (protocol 11).

        Looks once per heartbeat interval, counted across this process's tenures. Keeps well within the deadline.
        Raises nothing.
        """
        if not self._file.yield_request.due() or not self._lock.acquire(timeout=max(self._left(), 0.001)):
            return
        try:
            if not self._file.yield_request.is_new():
                return
            self._emit(YieldedToOperator(**self.facts()))
            self._runtime.sleep(min(YIELD_WITHIN, self._left() / 2))
        finally:
            self._lock.release()

    # --- the one way to write --------------------------------------------------------------------------------------

    def _apply(self, change: Rewrite, *, ends: bool = False) -> WriteResult:
        """One write at a time, only while held; a deadline counts from before the send that was applied."""
        ttl = self._file.timing.ttl

        def lasting(state: State, now: datetime) -> State:
            return change(transitions.lasting(state, ttl=ttl), now)

        while not self._lock.acquire(timeout=max(self._left(), 0.001)):
            self._still_held()  # another write may have moved the deadline meanwhile
        try:
            self._still_held()
            self._ending = ends
            try:
                landed = self._file.write(self._copy, lasting, deadline=self._deadline, redo=transitions.still_held)
            except Conflict as error:
                self._lose(_reason(error.found, self._copy.state), error.found)
                raise self._gone() from error
            except StateCorrupt:
                self._lose("replaced")  # whatever stands there now, our version does not
                raise
            except OutcomeUnknown:
                self._lose("deadline")
                raise
            self._copy = landed.copy
            if ends:
                self._over = "released"
                self._emit(LeaseReleased(**self.facts()))
            elif landed.superseded and not transitions.still_held(landed.state, landed.copy.state):
                self._lose(_reason(landed.copy, landed.state), landed.copy)
            elif self._over is None:
                self._renewed = landed.sent
                self._deadline = landed.sent + self._file.timing.tenure
            return landed
        finally:
            self._lock.release()

    def _left(self) -> float:
        if self._over is not None:
            return 0.0
        return max(0.0, self._deadline - self._runtime.monotonic())

    def _still_held(self) -> None:
        if self._over is None and self._runtime.monotonic() >= self._deadline:
            self._lose("deadline")
        if self._over is not None:
            raise self._gone()

    def _lose(self, reason: str, found: Copy | None = None) -> None:
        with self._judging:
            first = self._over is None
            self._over = self._over or reason
            if first and reason == CANCELLED and found is not None:
                self.cancelled = found.state.control
        self.lost.set()
        if first:
            self._emit(LeaseLostEvent(reason=reason, **self.facts()))

    def _gone(self) -> LeaseLost:
        reason = self._over or "released"
        return LeaseLost(
            f"The tenure of {self._file.poller_name!r} under token {self.fencing_token} is over: {reason}.",
            reason=reason,
            fencing_token=self.fencing_token,
            next_step="Nothing it does counts any more; the rows will be delivered again.",
        )


def _reason(found: Copy | None, ours: State) -> str:
    """Why a tenure is over, from the document that is in the place of ours."""
    if found is None:
        return "deleted"
    if found.state.control.cancelled == ours.lease.fencing_token:
        return CANCELLED
    if found.state.lease.fencing_token <= ours.lease.fencing_token:
        return "released"
    changed = found.state.control.last_change
    return "broken" if changed is not None and changed != ours.control.last_change else "taken_over"


class LostEvent:
    """Set when the tenure is over, or as soon as one grace is left. Computed from the clock, so that it is right even
    where the thread that would have set it hangs (a dribbling answer, a C call that holds the interpreter).

    Args:
        left: seconds until the grace begins; at most 0 from then on.
    """

    def __init__(self, runtime: Runtime, left: Callable[[], float]) -> None:
        self._runtime = runtime
        self._left = left
        self._flag: Event = runtime.event()

    def reset_after_fork(self) -> None:
        """In a child process: what waits is a thread of the parent."""
        self._flag = self._runtime.event()

    def set(self) -> None:
        self._flag.set()

    def is_set(self) -> bool:
        flag = self._flag
        if not flag.is_set() and self._left() <= 0:
            flag.set()
        return flag.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        runtime = self._runtime
        end = None if timeout is None else runtime.monotonic() + timeout
        while not self.is_set():
            left = self._left()
            if end is not None:
                left = min(left, end - runtime.monotonic())
                if left <= 0:
                    return self.is_set()
            self._flag.wait(left)
        return True
