"""The writes that a tick without rows may make: the first document of all, what a cold process saw, once, that the
server lies below the checkpoint, that a moment of a schedule with long pauses is done with, and once a week the
document as it is."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from functools import partial

from poller.errors import StoreError
from poller.lease.state_file import Conflict, Copy, WriteResult
from poller.model import transitions
from poller.model.changes import created
from poller.model.cursor import Cursor
from poller.model.document import Lease, State
from poller.model.schedule import BETWEEN
from poller.observability import Began, LeaseExpired
from poller.ports import Bound
from poller.tick.context import Context
from poller.tick.result import TickResult

logger = logging.getLogger("poller")

REWRITE_AGAIN = 3600.0
"""Seconds after which a weekly rewrite that failed is tried again."""


def create(context: Context, start: Cursor | None, *, looked_at: datetime | None = None) -> WriteResult:
    """The first tick ever creates the document even when idle: `start_from` is applied once (design).

    `looked_at`: until when the moments of its schedule are none of its own. Raises: as `StateFile.write`.
    """
    file, identity = context.file, context.runtime.new_id()
    first = transitions.create(
        context.name,
        context.source.describe(),
        start,
        ttl=file.timing.ttl,
        now=file.clock.now(),
        memory=context.source.remember(),
        facts=context.source.facts(),
    )
    return file.write(
        None,
        lambda state, now: created(state, identity=identity, by=context.process, now=now),
        deadline=context.runtime.monotonic() + file.timing.tenure,
        create=first.model_copy(update={"looked_at": looked_at}),
    )


def begin(context: Context) -> None:
    """Create the document of a poller that never ticked, before the first moment of its schedule: else nothing would
    say that this one was missed. `start_from` is applied now. If another process won the race, nothing is done.

    Raises: as `Source.start` and `StateFile.write`; StateCorrupt, if the document was deleted.
    """
    if context.file.read_unless_deleted() is not None:
        return
    try:
        written = create(context, context.source.start(), looked_at=context.runtime.utcnow())
    except Conflict:
        return
    began(context, written.state)


def began(context: Context, state: State) -> None:
    """Record that this process created the first document, and say so: where all state was deleted, nothing else
    does."""
    context.audit.first_look(state, by=context.process)
    start = state.checkpoint.cursor
    start_from = getattr(context.source, "start_from", None)
    cursor = None if start is None else str(start)
    context.emit(Began(poller=context.name, at=context.runtime.utcnow(), start_from=start_from, cursor=cursor))


def remember(context: Context, copy: Copy | None, bound: Bound) -> bool:
    """Rows wait, and this process has only begun to look at what is open: keep what it saw for the next one, or a
    poller whose processes live for one tick would never know more (sources.md, "Rules for every bound"). The same where
    the server lies below the checkpoint: the next process may look only when it has passed it again.

    The write leaves the lease free, so a lease that its owner let expire is reported here: no acquire will find it.
    Returns: whether it was written.
    """
    file = context.file
    memory = context.source.remember() if bound.cold or bound.below_checkpoint else None
    if copy is None or memory is None:
        return False
    if bound.below_checkpoint:
        if memory.get("below") == (copy.state.bound or {}).get("below"):
            return False
    elif not transitions.may_remember(copy.state, now=file.clock.now()):
        return False
    left_by = copy.state.lease if copy.availability(file.timing, context.runtime.monotonic()).takeover else None
    try:
        file.write(
            copy,
            lambda state, now: transitions.remember(state, memory=memory, now=now),
            deadline=context.runtime.monotonic() + file.timing.tenure,
        )
    except StoreError as error:  # another process wrote, or none can: the next tick may
        logger.info("%s: the samples of the bound were not kept: %s", context.name, error)
        return False
    _report_expired(context, left_by)
    return True


def rewrite(context: Context, copy: Copy) -> None:
    """Write a document that was not written for a week once more, as it is: else a rule of the storage account on the
    last modification would delete exactly the pollers that have nothing to do. Both times are the server's.

    Only while the lease is free: a lease's age is its document's. It stays free, so a lease that its owner let expire
    is reported here. If another wrote first, or the store does not answer, nothing is lost. Raises nothing.
    """
    if copy.server_time is None or copy.modified_at is None or context.file.known is None:
        return
    file, now = context.file, context.runtime.monotonic()
    lease = copy.availability(file.timing, now)
    if copy.server_time - copy.modified_at < transitions.WEEK or not lease.free or now < context.rewrite_at:
        return
    context.rewrite_at = now + REWRITE_AGAIN
    left_by = copy.state.lease if lease.takeover else None
    attempt = file.timing.attempt
    try:
        file.write(copy, transitions.rewritten, deadline=now + attempt.connect + attempt.read)
    except StoreError as error:
        logger.info("%s: the state document was not written once more this week: %s", context.name, error)
        return
    context.audit.look_again()
    _report_expired(context, left_by)


def _report_expired(context: Context, left_by: Lease | None) -> None:
    """Report the lease that a write freed, if its owner had let it expire."""
    if left_by is not None:
        before = {"owner_id": left_by.owner_id, "fencing_token": left_by.fencing_token}
        context.emit(
            LeaseExpired(
                poller=context.name,
                at=context.runtime.utcnow(),
                previous_owner_id=left_by.owner_id,
                previous_fencing_token=left_by.fencing_token,
            )
        )
        context.audit.add("takeover", by=context.process, before=before, after={**before, "owner_id": None})


def looked(context: Context, at: datetime, result: TickResult) -> None:
    """Nothing that could be read was left at `at`: the moments of the schedule until then are done with, so that a
    process that starts later knows which one was missed. Written only if no other moment follows soon.

    Above a bound that is held back rows are left, so moments are done with only as far as the bound has come. Then what
    the source knows of open transactions is written instead, at most once a minute: the next look may be another
    process's, which would have to take all of them for old.

    A lease that its owner let expire is left alone: a write would renew it. A process that finds no such note looks
    once more.
    """
    file, now = context.file, context.runtime.monotonic()
    copy = file.known
    if copy is None or copy.state.lease.owner_id is not None or not copy.availability(file.timing, now).free:
        return
    known, schedule, until = copy.state.looked_at, context.schedule, _seen_until(at, result)
    memory = context.source.remember() if result.held_up and schedule.rests(at) else None
    if until is None and known is None:
        until = at - BETWEEN  # before the moment that this tick was for
    if until is not None and (schedule.rests(at) if known is None else schedule.owed(known, until)):
        change = partial(transitions.looked, at=until)
    elif memory is not None and transitions.may_remember(copy.state, now=file.clock.now()):
        change = partial(transitions.remember, memory=memory)
    else:
        return
    try:
        file.write(copy, lambda state, now: change(state, now=now), deadline=now + file.timing.tenure)
    except StoreError as error:  # another process wrote, or none can
        logger.info("%s: it was not kept that its schedule was looked at: %s", context.name, error)


def _seen_until(at: datetime, result: TickResult) -> datetime | None:
    """The moment until which a tick that began at `at` saw all rows; None if that is not known."""
    if not result.held_up or result.bound is None:
        return at
    age = None if result.bound.clock_went_back else result.bound.age_seconds
    return None if age is None else at - timedelta(seconds=age)
