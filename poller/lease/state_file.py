"""One poller's state document in a store: read conditionally, written by compare-and-swap, ambiguities resolved.

This is protocol 2, written once for the worker's tenure and for the operator's commands. A write freezes its bytes, its
write id and its condition, and is sent until an answer comes (`Sending`). Refused: the document is read, and if our
write id is in it, the write had been applied. An operator leaves a request beside the document for a worker whose
writes always win (`YieldRequest`, protocol 11).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeAlias

from poller.errors import LeaseHeld, StateCorrupt, StoreError
from poller.lease.sending import Sending
from poller.lease.server_clock import ServerClock
from poller.model import transitions
from poller.model.document import State, decode, encode
from poller.model.expiry import Availability, availability
from poller.model.limits import read_json
from poller.model.stamps import later
from poller.model.timing import Timing
from poller.observability import Emitter, WriteRedone, WriteResolved
from poller.ports import Found, Missing, Runtime, StateStore, Unchanged, Written

STALE = 1.0
"""Seconds; a release that was written that long after its stamp is stamped again: at `RELEASE_WINDOW` no worker
believes it."""
Rewrite: TypeAlias = Callable[[State, datetime], State]
"""A transition with everything bound but the state and the moment, so that it can be made again on a newer state."""
LASTS = 120.0
"""Seconds after which a request counts as forgotten by its operator."""


@dataclass(frozen=True, slots=True)
class Copy:
    """The document as we last saw it.

    Attributes:
        state, body, tag: what it says, in which bytes, and which version that is.
        server_time, modified_at: the server's two times at the last look, None if the store gives none.
        first_seen: when this version was first seen, on the runtime's monotonic clock.
        looked_at: when it was last seen, on the same clock: the moment to which `server_time` belongs.
    """

    state: State
    body: bytes
    tag: str
    server_time: datetime | None
    modified_at: datetime | None
    first_seen: float
    looked_at: float

    def seen_again(self, server_time: datetime | None, modified_at: datetime | None, now: float) -> Copy:
        """The same version once more. An answer without a time (a proxy strips `Date` from a 304) counts as unchanged
        for as long as passed here since the last look, never as no time passed (protocol 4)."""
        if server_time is None and self.server_time is not None:
            server_time = later(self.server_time, max(0.0, now - self.looked_at))
        return replace(self, server_time=server_time, modified_at=modified_at or self.modified_at, looked_at=now)

    def availability(self, timing: Timing, now: float) -> Availability:
        """The availability of its lease, judged at the last look."""
        return availability(
            self.state.lease,
            server_time=self.server_time,
            modified_at=self.modified_at,
            unchanged_for=now - self.first_seen,
            timing=timing,
        )

    def lease_held(self, message: str, *, expires_in: float | None, next_step: str) -> LeaseHeld:
        """The error for a worker that wanted the lease while another has it."""
        lease = self.state.lease
        return LeaseHeld(
            message,
            owner_id=lease.owner_id,
            fencing_token=lease.fencing_token,
            expires_in_seconds=expires_in,
            next_step=next_step,
        )


@dataclass(frozen=True, slots=True)
class WriteResult:
    """A write that was applied.

    Attributes:
        state: what it wrote. copy: the document now, newer than that where `superseded`.
        sent: when it was first sent, on the runtime's monotonic clock: deadlines count from here.
    """

    state: State
    copy: Copy
    sent: float
    superseded: bool = False


class Conflict(StoreError):
    """Another writer changed the document and our write was not applied; `found` is what is there now,
    None if it was deleted."""

    def __init__(self, message: str, *, document: str, found: Copy | None) -> None:
        super().__init__(message, document=document)
        self.found = found


class StateFile:
    """Reads and writes `state/{app_name}/{poller_name}.json` in a store.

    Not safe for concurrent use: the tenure serialises its writers (protocol 1).
    """

    def __init__(
        self,
        store: StateStore,
        *,
        app_name: str,
        poller_name: str,
        runtime: Runtime,
        timing: Timing,
        emit: Emitter | None = None,
    ) -> None:
        self.store = store
        self.app_name = app_name
        self.poller_name = poller_name
        self.name = f"state/{app_name}/{poller_name}.json"
        self.request_name = f"control/{app_name}/{poller_name}.json"
        self.timing = timing
        self.runtime = runtime
        self.clock = ServerClock(runtime)
        self.yield_request = YieldRequest(store, self.request_name, runtime=runtime, timing=timing, now=self.clock.now)
        self._emit = emit or Emitter(())
        self._sending = Sending(
            store,
            self.name,
            poller_name=poller_name,
            runtime=runtime,
            timing=timing,
            clock=self.clock,
            emit=self._emit,
        )
        self._copy: Copy | None = None
        self._unresolved = False
        """A write was sent, and nothing says what became of it."""
        self._highest_token: int | None = None
        """None until a document was seen."""

    @property
    def seen_before(self) -> bool:
        """True if this process has seen a document here: then a missing one was deleted."""
        return self._highest_token is not None

    @property
    def known(self) -> Copy | None:
        """The newest version that this process has seen; None if there was none, or if it is not known what became of a
        write of ours."""
        return None if self._unresolved else self._copy

    @property
    def location(self) -> str:
        """Where the document is, for a person."""
        return self.store.locate(self.name)

    def traces(self) -> Iterator[str]:
        """What shows that the document existed before (protocol 12): the names of its audit trail, its backups and its
        records of rows. Raises: StoreUnavailable, StoreDenied."""
        trail = f"audit/{self.app_name}/{self.poller_name}.jsonl"
        yield from (name for name in self.store.names(trail) if name == trail)
        for folder in ("backups", "quarantine"):
            yield from self.store.names(f"{folder}/{self.app_name}/{self.poller_name}/")

    def read_unless_deleted(self) -> Copy | None:
        """For a document that `read` did not find: None if this poller has never worked. One that is gone is not
        begun again (protocol 12): a person or a lifecycle rule deleted it.

        It is looked for once more behind the traces: both may have been made since the first look.
        Raises: StateCorrupt (it was deleted, or as `read`), StoreUnavailable, StoreDenied.
        """
        if not self.seen_before and next(self.traces(), None) is None:
            return None
        copy = self.read()
        if copy is None:
            name = self.poller_name
            raise StateCorrupt(
                f"The {self.location} is gone, but it ran before: it was deleted.",
                document=self.name,
                next_step=f"Restore it: poller reset-to-checkpoint {name} FILE (a backup or an export). Without one, "
                f"say where to go on: poller reset-to-cursor {name} --value TEXT --pk COLUMN=VALUE, or poller "
                f"reset-to-beginning {name}.",
                what="gone",
            )
        return copy

    def read_existing(self) -> Copy:
        """The document now. Raises: StoreError where the poller never ran, and as `read_unless_deleted`."""
        copy = self.read() or self.read_unless_deleted()
        if copy is None:
            raise StoreError(
                f"The {self.location} does not exist: {self.poller_name} never ran.",
                document=self.name,
                next_step=f"Its first tick creates it, where start_from says: poller run {self.poller_name} --once",
            )
        return copy

    def read(self) -> Copy | None:
        """The document now, by one GET, conditional on the version we know. None if there is none.

        Raises: StateCorrupt (unreadable, or its token is lower than one we have seen), StoreUnavailable, StoreDenied.
        """
        known, sent = self._copy, self.runtime.monotonic()
        answer = self.store.read(self.name, unless=known.tag if known else None, timeout=self.timing.attempt)
        self.clock.saw(answer.server_time, sent)
        self._unresolved = False
        if isinstance(answer, Missing):
            self._copy = None
            return None
        if isinstance(answer, Unchanged):
            if known is None:
                raise StoreError(f"The store says that the {self.location} is unchanged, but was not asked that.")
            self._copy = known.seen_again(answer.server_time, None, self.runtime.monotonic())
            return self._copy
        return self._adopt(self._decoded(answer))

    def write(
        self,
        base: Copy | None,
        change: Rewrite,
        *,
        deadline: float,
        redo: Callable[[State, State], bool] | None = None,
        create: State | None = None,
    ) -> WriteResult:
        """Apply a change by compare-and-swap; `base` None creates the document from `create`.

        Args:
            deadline: on the runtime's monotonic clock; nothing is sent after it.
            redo: given the state we built on and the one found instead, whether to make the change again on that.

        Raises: Conflict, OutcomeUnknown, StoreDenied, StateCorrupt (a foreign document is there now).
        """
        while True:
            write_id = self.runtime.new_id()
            start = base.state if base else create
            if start is None:
                raise ValueError("write() needs a base to change or a state to create")
            sent = self.runtime.monotonic()
            state = change(start, self.clock.now()).with_write_id(write_id)
            body = encode(state)
            self._unresolved = True
            answer = self._sending.send(body, base.tag if base else None, deadline)
            if isinstance(answer, Written):
                self._unresolved = False
                seen = self.runtime.monotonic()
                copy = Copy(state, body, answer.tag, answer.server_time, answer.modified_at, seen, seen)
                return self._stamped(base, WriteResult(state, self._adopt(copy), sent))
            found = self._reread(deadline)
            if found is not None and write_id in found.state.write_ids:
                self._emit(WriteResolved(poller=self.poller_name, at=self.runtime.utcnow()))
                return self._stamped(base, WriteResult(state, found, sent, superseded=found.body != body))
            if found is None or base is None or redo is None or not redo(base.state, found.state):
                raise Conflict(f"The {self.location} was changed by another writer.", document=self.name, found=found)
            self._emit(WriteRedone(poller=self.poller_name, at=self.runtime.utcnow()))
            base = found

    def _stamped(self, base: Copy | None, landed: WriteResult) -> WriteResult:
        """A write that released the lease and was written late (its frozen bytes were sent again for seconds) is
        stamped again by one more: else no worker believes it to be released for a whole ttl (protocol 3). Best
        effort."""
        released, modified = landed.state.lease.released_at, landed.copy.modified_at
        if landed.superseded or released is None or modified is None:
            return landed
        freed = base is None or released != base.state.lease.released_at  # else it was left as it stood, on purpose
        if not freed or (modified - released).total_seconds() <= STALE:
            return landed
        deadline = self.runtime.monotonic() + self.timing.attempt.connect + self.timing.attempt.read
        on = landed.copy
        try:
            for _ in range(2):
                state = transitions.restamped(on.state, self.clock.now()).with_write_id(self.runtime.new_id())
                self._unresolved = True
                answer = self._sending.send(encode(state), on.tag, deadline)
                if answer is not None:
                    self._unresolved = False
                    now = self.runtime.monotonic()
                    copy = Copy(state, encode(state), answer.tag, answer.server_time, answer.modified_at, now, now)
                    return replace(landed, copy=self._adopt(copy))
                found = self._reread(deadline)
                if found is None or found.state.lease != landed.state.lease:
                    return landed  # another worker took the lease, so it was not needed
                on = found  # an operator wrote beside it, who could not know that it was released
        except StoreError:
            pass
        return landed

    def _reread(self, deadline: float) -> Copy | None:
        found = self._sending.reread(deadline)
        self._unresolved = False
        if found is not None:
            return self._adopt(self._decoded(found))
        self._copy = None
        return None

    def _decoded(self, found: Found) -> Copy:
        state = decode(found.body, location=self.location, document=self.name, poller_name=self.poller_name)
        now = self.runtime.monotonic()
        return Copy(state, found.body, found.tag, found.server_time, found.modified_at, now, now)

    def _adopt(self, copy: Copy) -> Copy:
        """Remember the newest version, the moment it was first seen, and the highest token (protocol 12)."""
        known = self._copy
        if known is not None and known.tag == copy.tag:
            copy = known.seen_again(copy.server_time, copy.modified_at, copy.looked_at)
        token = copy.state.lease.fencing_token
        if self._highest_token is not None and token < self._highest_token:
            raise StateCorrupt(
                f"The {self.location} has fencing token {token}, but this process has seen {self._highest_token}: "
                "an older copy was put back.",
                document=self.name,
                next_step=f"Run: poller reset-to-checkpoint {self.poller_name} FILE "
                f"--token-at-least {self._highest_token + 1}",
            )
        self._highest_token = token
        self._copy = copy
        return copy


class YieldRequest:
    """Looks for an operator's request beside the document (protocol 11).

    There is one per state file, and its clock runs on from tenure to tenure: tenures shorter than the heartbeat
    interval would never look, and keep an operator out for ever.

    Args:
        name: of the request in the store. now: the store's clock.
    """

    def __init__(
        self, store: StateStore, name: str, *, runtime: Runtime, timing: Timing, now: Callable[[], datetime]
    ) -> None:
        self._store = store
        self._name = name
        self._runtime = runtime
        self._timing = timing
        self._now = now
        self._looked = runtime.monotonic()
        self._seen: str | None = None

    def due(self) -> bool:
        """True if a heartbeat interval has passed since the last look."""
        return self._runtime.monotonic() - self._looked >= self._timing.heartbeat

    def is_new(self) -> bool:
        """True if a request is there that this process has not yielded to, and that was not forgotten."""
        self._looked = self._runtime.monotonic()
        try:
            there = self._store.read(self._name, timeout=self._timing.attempt)
            if not isinstance(there, Found):
                return False
            request = read_json(there.body)
            identity, left = request.get("id"), datetime.fromisoformat(request["at"])
            fresh = abs((self._now() - left).total_seconds()) < LASTS
        except (StoreError, ValueError, KeyError, AttributeError, TypeError, OverflowError):
            return False  # none, or an invalid one; the operator tries on without
        news = identity != self._seen and fresh
        self._seen = identity
        return news
