"""The writes that a tick without rows may make: the first document of all, what a cold process saw, and, once, that the
server lies below the checkpoint."""

from __future__ import annotations

import logging

from poller.delivery.context import Context
from poller.errors import StoreError
from poller.lease.state_file import Copy, WriteResult
from poller.model import transitions
from poller.model.cursor import Cursor
from poller.observability import LeaseExpired
from poller.ports import Bound, TypedSource

logger = logging.getLogger("poller")


def create(context: Context, start: Cursor | None) -> WriteResult:
    """The first tick ever creates the document even when idle: `start_from` is applied once (design).

    Raises: as `StateFile.write`.
    """
    file = context.file
    return file.write(
        None,
        lambda state, _: state,
        deadline=context.runtime.monotonic() + file.timing.tenure,
        create=transitions.create(
            context.name,
            context.source.describe(),
            start,
            ttl=file.timing.ttl,
            now=file.clock.now(),
            memory=context.source.remember(),
            columns=context.source.columns() if isinstance(context.source, TypedSource) else None,
        ),
    )


def remember(context: Context, copy: Copy | None, bound: Bound) -> None:
    """Rows wait, and this process has only begun to look at what is open: keep what it saw for the next one, or a
    poller whose processes live for one tick would never know more (sources.md, "Rules for every bound"). The same where
    the server lies below the checkpoint: the next process may look only when it has passed it again.

    The write leaves the lease free, so a lease that its owner let expire is reported here: no acquire will find it.
    """
    file = context.file
    memory = context.source.remember() if bound.cold or bound.below_checkpoint else None
    if copy is None or memory is None:
        return
    if bound.below_checkpoint:
        if memory.get("below") == (copy.state.bound or {}).get("below"):
            return
    elif not transitions.may_remember(copy.state, now=file.clock.now()):
        return
    left_by = copy.state.lease if copy.availability(file.timing, context.runtime.monotonic()).takeover else None
    try:
        file.write(
            copy,
            lambda state, now: transitions.remember(state, memory=memory, now=now),
            deadline=context.runtime.monotonic() + file.timing.tenure,
        )
    except StoreError as error:  # somebody else wrote, or nobody can: the next tick may
        logger.info("%s: the samples of the bound were not kept: %s", context.name, error)
        return
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
