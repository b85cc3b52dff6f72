"""An operator's changes to a state document: by the same compare-and-swap as the workers', never beside it.

A worker that commits in quick succession would win every race (protocol 11). After three lost ones the operator
leaves a request to yield; a tenure that drains looks for it once per heartbeat interval and then makes no write for up
to two seconds. An operator who still loses leaves another, once per heartbeat interval.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from poller.errors import StoreError, WriteConflict
from poller.journal.audit import AuditTrail
from poller.lease.sending import OutcomeUnknown
from poller.lease.state_file import Conflict, Copy, StateFile
from poller.model.changes import (
    Transition,
    freeing,
    keep,
    kept_by,
    not_freeing,
    relisted,
    summary,
)
from poller.model.document import Lease, OperatorChange, State, refuse_unreadable
from poller.model.limits import LONGEST_NAME, LONGEST_REASON
from poller.model.stamps import stamp
from poller.model.timing import Timing
from poller.model.when import span
from poller.ports import Found, Runtime, StateStore

LOSSES_BEFORE_REQUEST = 3
RETRY_EVERY = 0.05
LONGEST_TRUSTED = 3600.0
"""The longest `ttl_seconds` in the document, in seconds, that is believed to be a worker's with another ttl than ours;
a longer one keeps no operator out."""

Review: TypeAlias = Callable[[Copy], None]
"""Looks at exactly the version that is about to be replaced, and raises to refuse."""
Recorded: TypeAlias = Callable[[State], Mapping[str, str | None]]
"""What the record says of taking the change back, by the state that it replaces."""


def nothing_more(_: State) -> Mapping[str, str | None]:
    """The record says nothing of taking it back."""
    return {}


@dataclass(frozen=True, slots=True)
class Applied:
    """A change that was made.

    Attributes:
        before: the version that it replaced, None if there was none that could be read; after: the state it wrote.
        change: its record. backup: the name of the backup in the store, None if none was needed.
        losses: the number of conflicts with a worker.
        held: the seconds for which no worker may start, because a lease was broken; 0 if none was.
    """

    before: Copy | None
    after: State
    change: OperatorChange
    backup: str | None
    losses: int
    held: float = 0.0


class Operator:
    """Changes one poller's document on behalf of a person.

    Args:
        by: who, for the record and for the lease's owner while a broken lease is kept.
        reason: why, for the record.
        patience: how many seconds to go on trying against a busy worker.
        break_option: what allows that a lease is broken, for the error that refuses it.
    """

    def __init__(
        self,
        store: StateStore,
        *,
        app_name: str,
        poller_name: str,
        runtime: Runtime,
        timing: Timing,
        by: str,
        reason: str | None = None,
        patience: float = 60.0,
        break_option: str = "--break-lease",
    ) -> None:
        self.file = StateFile(store, app_name=app_name, poller_name=poller_name, runtime=runtime, timing=timing)
        self.audit = AuditTrail(store, app_name=app_name, poller_name=poller_name, runtime=runtime)
        self.by = by[:LONGEST_NAME]
        self.reason = None if reason is None else reason[:LONGEST_REASON]
        self.store = store
        self.backups = f"backups/{app_name}/{poller_name}/"
        self._runtime = runtime
        self._timing = timing
        self._patience = patience
        self._break_option = break_option

    def look(self) -> Copy:
        """The document now. Raises: StoreError where there is none, StateCorrupt, StoreUnavailable, StoreDenied."""
        return self.file.read_existing()

    # --- the changes -----------------------------------------------------------------------------------------------

    def busy(self, copy: Copy) -> float | None:
        """The most seconds for which another worker's lease is still live; None if none is."""
        lease = copy.availability(self._timing, self._runtime.monotonic())
        return None if lease.free else lease.expires_in or 0.0

    def refuse_live(self, copy: Copy, *, break_lease: bool) -> None:
        """Raises: LeaseHeld, where another worker's lease is live and is not to be broken. A lease reserved by an
        operator has no worker, and needs no breaking."""
        left = self.busy(copy)
        if left is not None and not break_lease and kept_by(copy.state) is None:
            owner = copy.state.lease.owner_id or "Another process"
            raise copy.lease_held(
                f"{owner} holds the lease of {self.file.poller_name!r} for up to {span(left)} more.",
                expires_in=left,
                next_step="Nothing was changed. Wait until it is released, pause the poller, or add "
                f"{self._break_option}.",
            )

    def keeps_for(self, lease: Lease) -> float:
        """The seconds for which a lease that is broken is kept: one ttl of the configuration, whatever is in the
        document (protocol 11). Only a worker that was configured with a longer one may still trust that."""
        ttl, worker = self._timing.ttl, lease.ttl_seconds or 0.0
        return worker if ttl < worker <= LONGEST_TRUSTED else ttl

    def fenced(
        self,
        kind: str,
        transition: Transition,
        *,
        break_lease: bool,
        review: Review | None = None,
        base: Copy | None = None,
        facts: Recorded = nothing_more,
    ) -> Applied:
        """A change that raises the token, with a backup. A lease that it breaks is kept for the operator for a full
        ttl: the worker must have passed its own deadline before another starts (protocol 11).

        A lease that an operator keeps so needs no breaking, but is kept again.
        Raises: LeaseHeld, WriteConflict, StoreError.
        """
        held = 0.0

        def guarded(copy: Copy) -> None:
            nonlocal held
            held = 0.0 if self.busy(copy) is None else self.keeps_for(copy.state.lease)
            self.refuse_live(copy, break_lease=break_lease)
            if review is not None:
                review(copy)

        def fenced(state: State, change: OperatorChange, now: datetime) -> State:
            changed = transition(state, change, now)
            return keep(changed, change, ttl=held, now=now) if held else changed

        applied = self.change(kind, fenced, review=guarded, backup=True, base=base, facts=facts)
        return replace(applied, held=held + self._timing.margin if held else 0.0)

    def change(
        self,
        kind: str,
        transition: Transition,
        *,
        review: Review | None = None,
        backup: bool = False,
        base: Copy | None = None,
        facts: Recorded = nothing_more,
    ) -> Applied:
        """Apply one change by compare-and-swap, looking again whenever a worker won the race.

        `base` is the version to begin with, if it was looked at before. `review` is called for each version that is
        about to be replaced, and after it, with `backup`, that version's bytes are written to `backups/`. The change's
        record is part of the same write (`control.last_change`), with what `facts` says of the replaced state.

        Raises: WriteConflict (a worker won the race for as long as our patience lasts), StoreError; what `review`
        raises.
        """
        until = self._runtime.monotonic() + self._patience
        losses = 0
        request_due = 0.0
        identity = self._runtime.new_id()
        copy = base or self.look()
        try:
            while True:
                if review is not None:
                    review(copy)
                kept = self.back_up(copy.body) if backup else None
                self.copy_to_trail(copy.state.control.last_change)  # ours pushes it out of the document
                wanted = freeing(transition) if self.busy(copy) is None else not_freeing(transition)
                try:
                    write = self.recorded(kind, wanted, identity, {"backup": kept, **facts(copy.state)})
                    after = self.file.write(copy, write, deadline=until).state
                except OutcomeUnknown as late:
                    if losses == 0 or late.sent:
                        raise
                    raise self._outrun(losses) from late
                except Conflict as lost:
                    losses += 1
                    if self._runtime.monotonic() >= until:
                        raise self._outrun(losses) from lost
                    now = self._runtime.monotonic()
                    if losses >= LOSSES_BEFORE_REQUEST and now >= request_due:
                        self._ask_to_yield(kind)
                        request_due = now + self._timing.heartbeat
                    if losses > LOSSES_BEFORE_REQUEST:
                        self._runtime.sleep(RETRY_EVERY)
                    before, copy = copy, self.look()
                    after = copy.state
                    if not _made(after, identity):
                        continue
                    # It had landed, its answer was lost, and more was written since than write ids are remembered.
                    copy = before
                made = after.control.last_change
                assert made is not None  # noqa: S101 - recorded() wrote it
                self.copy_to_trail(made)
                return Applied(before=copy, after=after, change=made, backup=kept, losses=losses)
        finally:
            if losses >= LOSSES_BEFORE_REQUEST:
                self._write_request({})  # withdrawn

    def _outrun(self, losses: int) -> WriteConflict:
        return WriteConflict(
            f"A worker changed the {self.file.location} {losses} times while this tried to.",
            document=self.file.name,
            next_step="Nothing was changed. Pause the poller first, or try again.",
        )

    # --- what each of them writes ----------------------------------------------------------------------------------

    def recorded(
        self, kind: str, transition: Transition, identity: str, facts: Mapping[str, str | None] | None = None
    ) -> Callable[[State, datetime], State]:
        """The transition with its record in the same write; `facts`: the record's `backup`, `undo` and `undid`."""

        def write(state: State, now: datetime) -> State:
            record = OperatorChange(
                id=identity, kind=kind, by=self.by, reason=self.reason, at=now, before=summary(state)
            ).model_copy(update=dict(facts or {}))
            after = transition(state, record, now)
            record = record.model_copy(update={"after": summary(after) | relisted(state, after)})
            after = after.model_copy(update={"control": after.control.model_copy(update={"last_change": record})})
            refuse_unreadable(after)
            return after

        return write

    def back_up(self, body: bytes) -> str:
        """Keep the bytes that are about to be replaced, under the moment's name. Raises: StoreError."""
        now = self.file.clock.now()
        while True:
            name = f"{self.backups}{now:%Y%m%dT%H%M%S_%f}Z.json"
            try:
                self.store.write(name, body, if_tag=None, timeout=self._timing.attempt)
            except WriteConflict:
                now += timedelta(microseconds=1)  # another operator's, of the same moment
            else:
                return name

    def copy_to_trail(self, change: OperatorChange | None) -> None:
        """Copy a change to the audit trail. Best effort: the document keeps it until that is done."""
        self.audit.copy(change)
        self.audit.settle(5.0)

    # --- the request for a worker to yield -------------------------------------------------------------------------

    def _ask_to_yield(self, kind: str) -> None:
        """A worker yields once to each request. One without effect is written again: 2 s may have been too short from
        far away, and another operator may have taken the turn."""
        request = {"id": self._runtime.new_id(), "kind": kind, "by": self.by, "at": stamp(self.file.clock.now())}
        self._write_request(request)

    def _write_request(self, request: dict[str, Any]) -> None:
        """Best effort: without it the operator only has to try more often."""
        name = self.file.request_name
        try:
            there = self.store.read(name, timeout=self._timing.attempt)
            tag = there.tag if isinstance(there, Found) else None
            self.store.write(name, json.dumps(request).encode(), if_tag=tag, timeout=self._timing.attempt)
        except StoreError:
            return


def _made(state: State, identity: str) -> bool:
    """True if the newest operator's change in the document is this one."""
    return state.control.last_change is not None and state.control.last_change.id == identity
