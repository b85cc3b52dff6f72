"""Delivering the late rows that a recheck found: under the lease, batch by batch; the checkpoint does not move."""

from __future__ import annotations

from poller.errors import PollerError
from poller.handler.call import Handler
from poller.ports import Bound, Page
from poller.tick.context import Context
from poller.tick.errands import errand, look_around, stopped
from poller.tick.leased import LeasedDelivery, Purpose
from poller.tick.recheck import Recheck, look_again
from poller.tick.sizes import rows_that_fit

LATE = Purpose("late", run="recheck-")
"""Rows behind the checkpoint."""


def redeliver(
    context: Context, found: Recheck, handler: Handler, *, by: str | None = None, reason: str | None = None
) -> None:
    """See `Poller.redeliver`. `found` keeps the rows that are still late; `found.redelivered` counts the rows of the
    batches that the handler took; a pause lets the batch in hand end."""
    if not found.rows:
        return

    def so_far() -> str:
        return f", after {found.redelivered} of {len(found.rows)} late rows"

    def record(delivery: LeasedDelivery) -> None:
        many = f"{found.redelivered} of {len(found.rows)} late row{'' if len(found.rows) == 1 else 's'} delivered"
        context.audit.add(
            "recheck",
            by=by or delivery.tenure.owner_id,
            reason=f"{many}: {reason}" if reason else many,
            before=None,
            after={"redelivered": found.redelivered},
        )

    with errand(context, handler, LATE, so_far=so_far, record=record) as (delivery, _):
        delivery.begin_writes()  # a look has an end of its own
        if context.delivery_log.window is not None:  # else the rows are the caller's own: nothing tells late ones
            look_again(context, found)
        begin = 0
        while begin < len(found.rows):
            if begin:
                look_around(delivery.tenure)
            if delivery.tenure.paused:
                raise stopped(context, f"paused{so_far()}")
            begin = _deliver(context, delivery, found, begin)


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
