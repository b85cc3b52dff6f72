"""Delivering the late rows that a recheck found: under the lease, batch by batch; the checkpoint does not move."""

from __future__ import annotations

from poller.delivery.context import Context
from poller.delivery.leased import LeasedDelivery, Purpose
from poller.delivery.preflight import refusal_of, stopped_by
from poller.delivery.recheck import Recheck
from poller.delivery.sizes import rows_that_fit
from poller.errors import PollerError
from poller.handler.call import Handler
from poller.lease.state_file import Conflict
from poller.ports import Bound, Page

LATE = Purpose("late", run="recheck-")
"""Rows behind the checkpoint."""


class _Stopped(PollerError):
    """The poller is paused or halted: nothing is delivered."""

    exit_code = 3


def redeliver(
    context: Context, found: Recheck, handler: Handler, *, by: str | None = None, reason: str | None = None
) -> None:
    """See `Poller.redeliver`. `found.redelivered` counts the rows of the batches that the handler took; a pause lets
    the batch in hand end."""
    if not found.rows:
        return
    delivery = _acquire(context, handler)
    tenure = delivery.tenure
    try:
        with delivery:
            begin = 0
            while begin < len(found.rows):
                if begin:
                    tenure.yield_to_operator()
                    tenure.renew()  # no commit between two batches shows that somebody paused
                if tenure.paused:
                    raise _Stopped(
                        f"{context.name} was paused after {found.redelivered} of {len(found.rows)} late rows.",
                        next_step=f"To go on: poller resume {context.name}, and the same command again.",
                    )
                begin = _deliver(context, delivery, found, begin)
    except BaseException as error:
        _record(context, found, by or tenure.owner_id, reason)
        if tenure.remaining() > 0:
            delivery.give_back()
        elif tenure.cancelled is not None:
            delivery.record_loss("")
        context.settle()
        if tenure.cancelled is not None and isinstance(error, Exception):
            raise _Stopped(
                f"{context.name} was {stopped_by('cancelled', tenure.cancelled)}, after {found.redelivered} of "
                f"{len(found.rows)} late rows.",
                next_step=f"To go on: poller resume {context.name}, and the same command again.",
            ) from error
        raise
    _record(context, found, by or tenure.owner_id, reason)
    try:
        if tenure.remaining() > 0:
            tenure.release(give_back=False)
    finally:
        context.settle()


def _acquire(context: Context, handler: Handler) -> LeasedDelivery:
    """Raises: LeaseHeld, PollerError (paused or halted), FingerprintMismatch, LeaseLost, StoreError."""
    file = context.file
    copy = file.read_existing()
    refusal = refusal_of(context, copy)
    if refusal is None:
        try:
            return LeasedDelivery.acquire(context, handler, copy, LATE)
        except Conflict as changed:
            copy = changed.found or copy
    elif refusal.outcome != "held_elsewhere":
        raise _Stopped(f"{context.name} is {refusal.error}.", next_step=f"Run: poller resume {context.name}")
    raise copy.lease_held(
        "Another owner took the lease first." if refusal is None else f"{refusal.error}.",
        expires_in=copy.availability(file.timing, context.runtime.monotonic()).expires_in,
        next_step="Try again when its tick is over, or pause the poller.",
    )


def _deliver(context: Context, delivery: LeasedDelivery, found: Recheck, begin: int) -> int:
    """One batch; it is recorded as delivered before it counts. Returns where the next one begins."""
    options = context.options
    end = min(begin + options.batch_size, len(found.rows))
    if options.batch_bytes is not None:
        end = begin + rows_that_fit(options.batch_bytes, found.rows[begin:end])
    rows, cursors = found.rows[begin:end], found.cursors[begin:end]
    batch = delivery.batch(Page(rows, cursors, Bound("none", reason="late rows")), None)
    if not delivery.begin(batch):
        limit = context.options.handler_limit.total_seconds()
        raise PollerError(
            f"A batch of late rows took longer than handler_timeout ({limit:g} s): its lease was no longer renewed, "
            f"and no other was begun after {found.redelivered} of {len(found.rows)} rows.",
            next_step=f"Raise handler_timeout of {context.name} or lower its batch_size, and run the same again.",
        )
    error = delivery.run(batch).error
    if error is not None:
        raise error
    delivery.tenure.check()
    context.delivery_log.add_now(context.runtime.utcnow(), None, cursors, covers=False)
    found.redelivered += len(cursors)
    return end


def _record(context: Context, found: Recheck, by: str, reason: str | None) -> None:
    many = f"{found.redelivered} of {len(found.rows)} late row{'' if len(found.rows) == 1 else 's'} delivered"
    context.audit.add(
        "recheck",
        by=by,
        reason=f"{many}: {reason}" if reason else many,
        before=None,
        after={"redelivered": found.redelivered},
    )
