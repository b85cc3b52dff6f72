"""Handing rows over because a person asks for it, while the checkpoint stays: late rows, and rows that wait.

An errand takes the lease, looks between two calls at what was changed meanwhile, and gives the lease back, however it
ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from poller.errors import PollerError
from poller.handler.call import Handler
from poller.lease.state_file import Conflict, Rewrite
from poller.lease.tenure import Tenure
from poller.model.document import State
from poller.tick.context import Context
from poller.tick.leased import LeasedDelivery, Purpose
from poller.tick.preflight import refusal_of, stopped_by


class Stopped(PollerError):
    """The poller is paused or halted, or was cancelled: no more rows are handed over."""

    exit_code = 3


@contextmanager
def errand(
    context: Context,
    handler: Handler,
    purpose: Purpose,
    *,
    begins: Rewrite | None = None,
    so_far: Callable[[], str] = str,
    record: Callable[[LeasedDelivery], object],
) -> Iterator[tuple[LeasedDelivery, State]]:
    """Around what is done under the lease: the delivery, and the document from before.

    Args:
        begins: part of the acquire's PUT. so_far: how far it came, for the error of one that was cancelled.
        record: called once it is over, whatever happened.

    Raises: LeaseHeld, Stopped (paused, halted, or cancelled meanwhile), FingerprintMismatch, ConfigError, LeaseLost,
        StoreError.
    """
    delivery, before = _acquired(context, handler, purpose, begins)
    tenure = delivery.tenure
    try:
        with delivery:
            yield delivery, before
    except BaseException as error:
        if tenure.remaining() > 0:
            delivery.give_back()
        elif tenure.cancelled is not None:
            delivery.record_loss("")
        if tenure.cancelled is not None and isinstance(error, Exception):
            raise stopped(context, f"{stopped_by('cancelled', tenure.cancelled)}{so_far()}") from error
        raise
    else:
        if tenure.remaining() > 0:
            tenure.release(give_back=False)
    finally:
        record(delivery)
        context.settle()


def look_around(tenure: Tenure) -> None:
    """Between two calls: an operator has a turn, and what was changed is seen, since no commit shows it."""
    tenure.yield_to_operator()
    tenure.renew()


def stopped(context: Context, why: str) -> Stopped:
    """The error of an errand that came to no end."""
    again = f"To go on: poller resume {context.name}, and the same command again."
    return Stopped(f"{context.name} was {why}.", next_step=again)


def _acquired(
    context: Context, handler: Handler, purpose: Purpose, begins: Rewrite | None
) -> tuple[LeasedDelivery, State]:
    file = context.file
    copy = file.read_existing()
    refusal = refusal_of(context, copy)
    if refusal is None:
        try:
            return LeasedDelivery.acquire(context, handler, copy, purpose, begins=begins), copy.state
        except Conflict as changed:
            copy = changed.found or copy
    elif refusal.outcome != "held_elsewhere":
        raise Stopped(f"{context.name} is {refusal.error}.", next_step=f"Run: poller resume {context.name}")
    raise copy.lease_held(
        "Another owner took the lease first." if refusal is None else f"{refusal.error}.",
        expires_in=copy.availability(file.timing, context.runtime.monotonic()).expires_in,
        next_step="Try again when its tick is over, or pause the poller.",
    )
