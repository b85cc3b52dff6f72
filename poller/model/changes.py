"""Changes that leave a record in the document: an operator's, as pure transitions `(State, Change, now) -> State`, and
the document's creation."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeAlias

from poller.model import transitions
from poller.model.cursor import Cursor
from poller.model.document import OperatorChange, State
from poller.model.fingerprint import UNKNOWN_FINGERPRINTS, SourceDescription
from poller.model.limits import LONGEST_NAME

Transition: TypeAlias = Callable[[State, OperatorChange, datetime], State]

CREATED = "created"
"""The kind of the record that the PUT which creates a document carries. It is not an operator's change: it shows
everyone who finds no document later that there was one."""
SEEN = "seen"
"""The kind of the first record in the audit trail of a document that was there before there were such records."""
MOST_NAMED = 100
"""So many rows that a change listed are named in its record."""
_OPERATORS = "operator/"


def created(state: State, *, identity: str, by: str, now: datetime) -> State:
    """A first document with the record of its creation."""
    record = OperatorChange(id=identity, kind=CREATED, by=by[:LONGEST_NAME], at=now, after=summary(state))
    return state.model_copy(update={"control": state.control.model_copy(update={"last_change": record})})


def operators_change(state: State) -> OperatorChange | None:
    """The newest change by an operator that the document names; None if there is none."""
    change = state.control.last_change
    return None if change is None or change.kind == CREATED else change


def keep(state: State, change: OperatorChange, *, ttl: float, now: datetime) -> State:
    """The lease is kept for this change's operator, and no worker starts for `ttl` seconds (protocol 11)."""
    owner_id = f"{_OPERATORS}{change.by[: LONGEST_NAME - 32]}/{change.id[:8]}"
    return transitions.hold(state, owner_id=owner_id, ttl=ttl, now=now)


def kept_by(state: State) -> str | None:
    """The operator for whom a lease is reserved; None if a worker holds it, or if it is free.

    `operator_token` says so, not the owner's name: an app may be called "operator". Documents written before there was
    that field are recognised by the record of the change that kept the lease, as long as it is the newest.
    """
    lease, change = state.lease, state.control.last_change
    owner = lease.owner_id
    if owner is None:
        return None
    if lease.operator_token == lease.fencing_token:
        return owner.removeprefix(_OPERATORS).rpartition("/")[0] or "an operator"
    if change is not None and owner == f"{_OPERATORS}{change.by}/{change.id[:8]}":
        return change.by
    return None


def to_pause(state: State, change: OperatorChange, now: datetime) -> State:
    """What `pause` does to a state."""
    return transitions.pause(state, by=change.by, reason=change.reason, change=change, now=now)


def to_cancel(state: State, change: OperatorChange, now: datetime) -> State:
    """What `cancel` does to a state. A lease reserved by an operator has no worker: then it is a pause."""
    if kept_by(state) is not None:
        return to_pause(state, change, now)
    return transitions.cancel(state, by=change.by, reason=change.reason, change=change, now=now)


def cancelled_worker(state: State) -> str | None:
    """The worker that was cancelled and has not given the lease back; None if there is none."""
    lease = state.lease
    waits = state.control.cancelled == lease.fencing_token and kept_by(state) is None
    return lease.owner_id if waits else None


def to_resume(state: State, change: OperatorChange, now: datetime) -> State:
    """What `resume` does to a state."""
    return transitions.resume(state, change=change, now=now)


def to_reset(cursor: Cursor | None, source: SourceDescription | None, *, token_at_least: int = 0) -> Transition:
    """What `reset` does to a state. `token_at_least`: for its fencing token."""

    def reset(state: State, change: OperatorChange, now: datetime) -> State:
        moved = transitions.reset(state, cursor=cursor, change=change, now=now)
        if moved.lease.fencing_token < token_at_least:
            lease = moved.lease.model_copy(update={"fencing_token": token_at_least})
            moved = moved.model_copy(update={"lease": lease})
        return moved if source is None else bound_to(moved, source)

    return reset


def bound_to(state: State, source: SourceDescription) -> State:
    """The state declared to belong to `source`, without what is known of another database's clock, transactions and
    tables. A document that already belongs to it is unchanged."""
    if state.source_fingerprint not in UNKNOWN_FINGERPRINTS and source.belongs(state.source_fingerprint, state.source):
        return state
    return transitions.bind(state, source).model_copy(update={"bound": None, "facts": None})


def to_rebind(source: SourceDescription) -> Transition:
    """What `rebind` does to a state."""
    return lambda state, change, now: transitions.rebind(state, source=source, change=change, now=now)


def not_freeing(transition: Transition) -> Transition:
    """The same for a lease whose release does not count: an older copy put back by hand, or a release that was applied
    late. A write with a new timestamp would free it while its owner may still be at work."""

    def careful(state: State, change: OperatorChange, now: datetime) -> State:
        after = transition(state, change, now)
        fenced = after.lease.fencing_token != state.lease.fencing_token
        return after if fenced else after.model_copy(update={"lease": state.lease})

    return careful


def freeing(transition: Transition) -> Transition:
    """The same for a lease that expired without a release: its owner is gone, or must not write any more. A write that
    left it there would make all workers wait for it once more."""

    def clear(state: State, change: OperatorChange, now: datetime) -> State:
        after = transition(state, change, now)
        unchanged = after.lease.owner_id is not None and after.lease.owner_id == state.lease.owner_id
        return transitions.freed(after, now=now) if unchanged else after

    return clear


def summary(state: State) -> dict[str, Any]:
    """What a record stores of a state: the cursor, the token, and whether it is paused or halted."""
    cursor = state.checkpoint.cursor
    return {
        "cursor": None if cursor is None else cursor.model_dump(mode="json"),
        "generation": state.checkpoint.generation,
        "fencing_token": state.lease.fencing_token,
        "owner_id": state.lease.owner_id,
        "source_fingerprint": state.source_fingerprint,
        "paused": state.control.paused,
        "halted": state.control.halted,
    }


def relisted(before: State, after: State) -> dict[str, Any]:
    """What a record stores of rows that wait no longer after a change (`unlisted`), or wait since (`listed`): their
    ids, if there are any."""
    were, are = ({row.id: row for row in (*state.aside, *state.quarantine)} for state in (before, after))
    gone, new = [id_ for id_ in were if id_ not in are], [id_ for id_ in are if id_ not in were]
    return {name: ids for name, ids in (("unlisted", gone), ("listed", new[:MOST_NAMED])) if ids}
