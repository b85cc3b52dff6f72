"""What may happen to a state document, as pure functions: `(State, ..., now) -> State`.

`now` is the store's clock as the caller estimates it. Nothing here reads a clock, draws a number or talks to a store,
so each rule can be tested alone. The caller writes the result under the tag of the state it was made from.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from poller.model import aside, backoff, window
from poller.model.cursor import Cursor
from poller.model.document import Checkpoint, Delivery, Lease, OperatorChange, State
from poller.model.fingerprint import SourceDescription
from poller.model.stamps import later, stamp

REMEMBER_EVERY = timedelta(minutes=1)
"""The least time between two writes in which an idle poller stores what it knows of the bound."""
WEEK = timedelta(days=7)
"""A document that was not written for a week is written once more, as it is: a rule of the storage account that
deletes what was not modified for some weeks finds exactly the pollers that have nothing to do."""


def create(
    poller_name: str,
    source: SourceDescription,
    cursor: Cursor | None,
    *,
    now: datetime,
    ttl: float | None = None,
    memory: dict[str, Any] | None = None,
    facts: dict[str, Any] | None = None,
) -> State:
    """A first document: nothing delivered, no worker at work, token 0. `cursor` is what `start_from` means, `memory`
    what the source knows of its bound, `facts` of what a cursor rests on. `ttl` is how long leases last: a worker that
    finds this version put back by hand waits that long, whatever its own configuration says."""
    return State(
        poller_name=poller_name,
        source_fingerprint=source.fingerprint(),
        source=source.as_json(),
        checkpoint=Checkpoint(cursor=cursor, updated_at=now),
        lease=Lease(released_at=now, ttl_seconds=ttl),
        bound=_kept(memory, now),
        facts=facts,
    )


def bind(state: State, source: SourceDescription) -> State:
    """The same checkpoint, declared to belong to `source`. Where the server was not asked what the source's names mean,
    the document's own values stay, unless they contradict the configuration."""
    source = source.as_stored(state.source_fingerprint, state.source) or source
    return state.model_copy(update={"source_fingerprint": source.fingerprint(), "source": source.as_json()})


def acquire(state: State, *, owner_id: str, ttl: float, now: datetime, starts_batch: bool = True) -> State:
    """A new tenure: the token grows by one, and the pending batch counts one more start (protocol 5 and 8), unless
    this tenure is not for the pending batch (`starts_batch`)."""
    lease = state.lease.model_copy(
        update={
            "owner_id": owner_id,
            "fencing_token": state.lease.fencing_token + 1,
            "acquired_at": now,
            "heartbeat_at": now,
            "expires_at": later(now, ttl),
            "ttl_seconds": ttl,
            "released_at": None,
            "operator_token": None,
        }
    )
    delivery = _attempts(state, state.delivery.attempts + 1) if starts_batch else state.delivery
    return state.model_copy(update={"lease": lease, "delivery": delivery})


def renew(state: State, *, now: datetime) -> State:
    """A heartbeat: the lease lasts another ttl from now."""
    ttl = state.lease.ttl_seconds or 0.0
    return _lease(state, heartbeat_at=now, expires_at=later(now, ttl))


def lasting(state: State, *, ttl: float) -> State:
    """The lease with its owner's ttl. Another program may have written the document meanwhile without the fields it
    does not know, or with another ttl, by which others would take the lease too early."""
    return state if state.lease.ttl_seconds == ttl else _lease(state, ttl_seconds=ttl)


def commit(
    state: State,
    *,
    cursor: Cursor,
    batch_id: str,
    metadata: dict[str, Any],
    release: bool,
    now: datetime,
    memory: dict[str, Any] | None = None,
    facts: Mapping[str, Any] | None = None,
) -> State:
    """The checkpoint moves past a delivered batch; what the source knows of its bound (`memory`), and the `facts` that
    the batch was read under, are stored with it (None: unchanged). With `release` the same write gives
    the lease back; without, the next batch starts, so its attempts are 1 (protocol 7 and 8)."""
    former = state.checkpoint.cursor
    checkpoint = state.checkpoint.model_copy(
        update={
            # Other programs' fields in the cursor and the metadata survive, as everywhere.
            "cursor": cursor.with_fields_of(former),
            "last_successful_batch_id": batch_id,
            "updated_at": now,
            "metadata": {**state.checkpoint.metadata, **metadata},
        }
    )
    delivery = state.delivery.model_copy(update={"attempts": 0 if release else 1, "last_error": None})
    moved = state.model_copy(update={"checkpoint": checkpoint, "delivery": delivery})
    if memory is not None:
        moved = moved.model_copy(update={"bound": _kept(memory, now)})
    if facts is not None:
        moved = moved.model_copy(update={"facts": dict(facts)})
    return _emptied(moved, now) if release else renew(moved, now=now)


def tie_begun(state: State, cursor: Cursor, facts: Mapping[str, Any] | None) -> State:
    """The checkpoint moves back to the beginning of its own tie, since its rows were passed in another order than they
    have now, or to the same effect; from now on it rests on `facts`. What was kept of the tie was compared in the
    former order too. Generation and position stay: no operator moved it."""
    former = state.checkpoint.cursor
    cursor = cursor.with_fields_of(former)
    checkpoint = state.checkpoint.model_copy(update={"cursor": cursor})
    delivery = state.delivery.model_copy(update={"window": None, "lanes": None})
    begun = {"checkpoint": checkpoint, "delivery": delivery, "facts": None if facts is None else dict(facts)}
    return state.model_copy(update=begun)


def remember(state: State, *, memory: dict[str, Any], now: datetime) -> State:
    """Stores only what the source knows of its bound, for the next process: nothing was delivered. For a free lease,
    which stays free."""
    return _emptied(state.model_copy(update={"bound": _kept(memory, now)}), now)


def rewritten(state: State, now: datetime) -> State:
    """The same document, written once more. For a free lease, which stays free."""
    return _emptied(state, now)


def may_remember(state: State, *, now: datetime) -> bool:
    """True if that is worth a write: at most once a minute, the only exception to "idle writes nothing"."""
    kept_at = (state.bound or {}).get("kept_at")
    try:
        return kept_at is None or abs(now - datetime.fromisoformat(kept_at)) >= REMEMBER_EVERY
    except (TypeError, ValueError):
        return True


def release(state: State, *, give_back: bool, now: datetime) -> State:
    """The lease is given back, the document and its token stay. `give_back`: the batch was not really tried
    (a drain, a pause, a scale-in), so its attempt does not count."""
    if give_back:
        state = state.model_copy(update={"delivery": _attempts(state, max(0, state.delivery.attempts - 1))})
    return _emptied(state, now)


def begun(state: State) -> State:
    """A tick begins: rows may be left from now on, until `drained`."""
    return state if state.unfinished else state.model_copy(update={"unfinished": True})


def drained(state: State) -> State:
    """A tick ends, and left no row that it might have handed over."""
    return state.model_copy(update={"unfinished": False}) if state.unfinished else state


def looked(state: State, *, at: datetime, now: datetime) -> State:
    """No row is left, and all moments of the schedule until `at` are done with. For a free lease, which stays free."""
    return restamped(drained(state).model_copy(update={"looked_at": at}), now)


def times(count: int) -> str:
    """A count in words."""
    return "once" if count == 1 else f"{count} times"


def halt(state: State, *, reason: str, now: datetime) -> State:
    """No further tick starts until an operator resumes. Only for a lease that its worker trusts no longer. A pause
    keeps its `by` and `reason`: it is the operator's, and outlives the halt."""
    who = {} if state.control.paused else {"by": "poller", "reason": reason, "at": now}
    control = state.control.model_copy(update={"halted": True, **who})
    return _emptied(state.model_copy(update={"control": control}), now)


def pause(state: State, *, by: str, reason: str | None, change: OperatorChange, now: datetime) -> State:
    """No new batch starts. A live lease stays as it is: its owner finishes the batch in hand (protocol 6)."""
    control = state.control.model_copy(
        update={"paused": True, "by": by, "reason": reason, "at": now, "last_change": change}
    )
    return restamped(state.model_copy(update={"control": control}), now)


def cancel(state: State, *, by: str, reason: str | None, change: OperatorChange, now: datetime) -> State:
    """A pause that does not wait for the batch in hand: its tenure commits nothing any more. That call counts as if it
    had never been made (failures 9)."""
    if state.lease.owner_id is not None:
        delivery = _attempts(state, max(0, state.delivery.attempts - 1))
        state = aside.not_tried(window.not_begun(state.model_copy(update={"delivery": delivery})))
        control = state.control.model_copy(update={"cancelled": state.lease.fencing_token})
        state = state.model_copy(update={"control": control})
    return pause(state, by=by, reason=reason, change=change, now=now)


def resume(state: State, *, change: OperatorChange, now: datetime) -> State:
    """Neither paused nor halted; the pending batch is tried at once, and its attempts count from 0 again. The moments
    of the schedule that passed meanwhile are done with."""
    control = state.control.model_copy(
        update={
            "paused": False,
            "halted": False,
            "by": None,
            "reason": None,
            "at": None,
            "last_change": change,
            "cancelled": None,
        }
    )
    resumed: dict[str, Any] = {"control": control, "delivery": _attempts(state, 0)}
    if state.looked_at is not None and (state.control.paused or state.control.halted):
        resumed["looked_at"] = max(state.looked_at, now)
    return restamped(backoff.at_once(state.model_copy(update=resumed)), now)


def reset(state: State, *, cursor: Cursor | None, change: OperatorChange, now: datetime) -> State:
    """An operator moves the checkpoint, in either direction. The token grows, so that the worker at work is fenced;
    the generation grows, so that even a reset to the same place is a change. A halt ends: its batch is not pending.
    What was aside waits for a person from now on (failures 10)."""
    control = state.control.model_copy(update={"last_change": change})
    if control.halted:
        who = {} if control.paused else {"by": None, "reason": None, "at": None}
        control = control.model_copy(update={"halted": False, **who})
    checkpoint = state.checkpoint.model_copy(
        update={
            "cursor": cursor,
            "last_successful_batch_id": None,
            "updated_at": now,
            "metadata": {},
            "generation": state.checkpoint.generation + 1,
            "position": 0,
        }
    )
    delivery = state.delivery.model_copy(
        update={"attempts": 0, "last_error": None, "retry_at": None, "failures": 0, "window": None, "lanes": None}
    )
    # What was known of the database's clock may be the reason for the reset: it is dropped (`CurrentBound.recall`).
    kept = {name: value for name, value in (state.bound or {}).items() if name == "kept_at"}  # see `may_remember`
    known = {**kept, "reset": state.lease.fencing_token + 1}
    moved = state.model_copy(
        update={
            "checkpoint": checkpoint,
            "control": control,
            "delivery": delivery,
            "bound": known,
            "facts": None,
            "retrying": None,
            "unfinished": False,
        }
    )
    moved = aside.after_reset(moved)
    return _emptied(_lease(moved, fencing_token=state.lease.fencing_token + 1), now)


def rebind(state: State, *, source: SourceDescription, change: OperatorChange, now: datetime) -> State:
    """The same cursor is declared to belong to a changed source; fences the worker at work."""
    control = state.control.model_copy(update={"last_change": change})
    # What is known of one database's transactions and clock does not hold for another.
    delivery = state.delivery.model_copy(update={"lanes": None})
    unknown = {"control": control, "bound": None, "facts": None, "delivery": delivery}
    bound = bind(state.model_copy(update=unknown), source)
    return _emptied(_lease(bound, fencing_token=state.lease.fencing_token + 1), now)


def freed(state: State, *, now: datetime) -> State:
    """Gives back the lease of an owner that let it expire, and fences that owner. A write that left the lease there
    would renew it, since its age is the document's (protocol 3)."""
    return _emptied(_lease(state, fencing_token=state.lease.fencing_token + 1), now)


def hold(state: State, *, owner_id: str, ttl: float, now: datetime) -> State:
    """Keep the lease for an operator for a full ttl: the worker whose lease was broken must have passed its own
    deadline before another starts (protocol 11). Applied after a change that raised the token."""
    return _lease(
        state,
        owner_id=owner_id,
        acquired_at=now,
        heartbeat_at=now,
        expires_at=later(now, ttl),
        ttl_seconds=ttl,
        released_at=None,
        operator_token=state.lease.fencing_token,
    )


def still_held(held: State, found: State) -> bool:
    """True if a document that another program changed is still the same tenure: same owner, token and checkpoint,
    neither released nor cancelled. Then an operator changed it, and our change may be made again (protocol 2)."""
    return (
        found.lease.owner_id == held.lease.owner_id
        and found.lease.fencing_token == held.lease.fencing_token
        and found.lease.released_at is None
        and found.control.cancelled != found.lease.fencing_token
        and found.checkpoint.cursor == held.checkpoint.cursor
        and found.checkpoint.generation == held.checkpoint.generation
    )


def _kept(memory: dict[str, Any] | None, now: datetime) -> dict[str, Any] | None:
    return None if memory is None else {**memory, "kept_at": stamp(now)}


def _lease(state: State, **fields: Any) -> State:
    return state.model_copy(update={"lease": state.lease.model_copy(update=fields)})


def _attempts(state: State, count: int) -> Delivery:
    return state.delivery.model_copy(update={"attempts": count})


def _emptied(state: State, now: datetime) -> State:
    empty: dict[str, Any] = dict.fromkeys(("acquired_at", "heartbeat_at", "expires_at", "operator_token"))
    return _lease(state, owner_id=None, **empty, released_at=now)


def restamped(state: State, now: datetime) -> State:
    """Every write to a released lease updates `released_at`, or the release would no longer count (protocol 3)."""
    return state if state.lease.released_at is None else _lease(state, released_at=now)
