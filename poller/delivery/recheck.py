"""Looking back for rows that appeared under the cursor: restores, bulk loads that keep old times, wrong clocks.

A row is late when it lies in a stretch that was delivered within the window and is not among what was delivered there.
What was delivered before notes were kept, or whose note was lost, is unknown and never reported. Rows whose stretch was
delivered longer ago than the window are not found.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta

from poller.delivery.context import Context, instance_name
from poller.delivery.preflight import check_fingerprint, refusal_of
from poller.errors import ConfigError, LeaseHeld, LeaseLost, PollerError, StoreError
from poller.handler.batch import Batch
from poller.handler.call import Handler
from poller.journal.delivery_log import Interval, hash_of
from poller.lease.heartbeat import Heartbeat
from poller.lease.state_file import Conflict, Copy
from poller.lease.tenure import Tenure
from poller.model.cursor import Cursor
from poller.model.document import Lease
from poller.observability import BatchStarted, LateRows, Rechecked
from poller.ports import Bound, InspectableSource, Page, Row

logger = logging.getLogger("poller")

PAGE = 1_000
MOST = 10_000
"""So many late rows are kept; of more than that the rest is found by the next recheck."""
PATIENCE = 60.0
"""Seconds that one look may take, where none are given."""
EXAMPLES = 5


@dataclass
class Recheck:
    """What a look back found.

    Attributes:
        compared: how many rows. stretches: in how many stretches of the order.
        rows, cursors: the late ones, in order; at most `MOST`.
        complete: whether all that was noted in the window was compared. redelivered: how many late rows a handler took.
    """

    compared: int = 0
    stretches: int = 0
    rows: list[Row] = field(default_factory=list)
    cursors: list[Cursor] = field(default_factory=list)
    complete: bool = True
    redelivered: int = 0


def look_back(context: Context, since: timedelta | None = None, *, patience: float = PATIENCE) -> Recheck:
    """Compare the table with what was noted as delivered within `since` (default: the window). Writes nothing.

    Raises: ConfigError (no `audit_window`, a source that cannot), FingerprintMismatch, StoreError, SourceError.
    """
    window, source = context.seen.window, context.source
    if window is None:
        raise ConfigError(
            f"{context.name} keeps no note of what it delivers, so nothing can be compared.",
            key="audit_window",
            next_step=f'Set audit_window = "2h" in [pollers.{context.name}]; it knows from then on.',
        )
    if not isinstance(source, InspectableSource):
        raise ConfigError(f"The source of {context.name} cannot be read again.", key="source")
    found, end = Recheck(), context.runtime.monotonic() + patience
    copy = context.file.read()
    if copy is None:
        return found
    check_fingerprint(context.name, copy.state, source)
    context.seen.settle(2.0)
    seen = context.seen.read(context.runtime.utcnow() - (window if since is None else since))
    known = set(seen.hashes)
    tip = copy.state.checkpoint.cursor
    for stretch in seen.stretches:
        found.complete = context.runtime.monotonic() <= end  # before each of many stretches without a row, too
        if not found.complete or not _compare(context, source, stretch, found, known, tip, end):
            break
    check_fingerprint(context.name, copy.state, source)  # it has been asked by now
    _tell(context, found)
    return found


def _compare(
    context: Context,
    source: InspectableSource,
    stretch: Interval,
    found: Recheck,
    known: set[bytes],
    tip: Cursor | None,
    end: float,
) -> bool:
    """Compare one stretch; whether it was done in time and with room for what it found."""
    found.stretches += 1
    for row, cursor in _rows(source, stretch.low, stretch.high):
        if context.runtime.monotonic() > end or len(found.rows) >= MOST:
            found.complete = False
            return False
        found.compared += 1
        mark = hash_of(cursor)
        if mark not in known and _is_under(source, cursor, tip, stretch.high):
            known.add(mark)  # two stretches may overlap, after a reset
            found.rows.append(row)
            found.cursors.append(cursor)
    return True


def _rows(source: InspectableSource, low: Cursor | None, high: Cursor) -> Iterator[tuple[Row, Cursor]]:
    while True:
        page = source.span(low, high, PAGE)
        yield from zip(page.rows, page.cursors, strict=True)
        if len(page.rows) < PAGE:
            return
        low = page.cursors[-1]


def _is_under(source: InspectableSource, cursor: Cursor, tip: Cursor | None, high: Cursor) -> bool:
    """Whether the checkpoint has passed it: after a reset it may stand lower, and then the row comes by itself."""
    if tip is None:
        return False
    return tip == high or not source.span(tip, cursor, 1).rows


def _tell(context: Context, found: Recheck) -> None:
    at, late = context.runtime.utcnow(), len(found.rows)
    context.emit(Rechecked(poller=context.name, at=at, compared=found.compared, late=late, complete=found.complete))
    if late:
        shown = [str(cursor) for cursor in found.cursors[:EXAMPLES]]
        context.emit(LateRows(poller=context.name, at=at, rows=late, complete=found.complete, examples=shown))


def redeliver(
    context: Context, found: Recheck, handler: Handler, *, by: str | None = None, reason: str | None = None
) -> None:
    """Hand late rows to the handler, under the lease; the checkpoint does not move. `found.redelivered` counts the rows
    of the batches that it took.

    `by`, `reason`: who asked for it and why, for the audit trail; default: this process. A pause lets the batch in hand
    end. Raises: LeaseHeld, PollerError (paused or halted), LeaseLost, StoreError, and
    what the handler raises.
    """
    if not found.rows:
        return
    tenure = _acquire(context)
    interval = context.options.heartbeat_interval.total_seconds()
    heartbeat = Heartbeat(tenure, runtime=context.runtime, interval=interval, emit=context.emit, give_back=False)
    try:
        with heartbeat:
            for begin in range(0, len(found.rows), context.options.batch_size):
                if begin:
                    tenure.yield_to_operator()
                    tenure.renew()  # no commit tells between two batches that somebody paused
                if tenure.paused:
                    raise _Stopped(
                        f"{context.name} was paused after {found.redelivered} of {len(found.rows)} late rows.",
                        next_step=f"To go on: poller resume {context.name}, and the same command again.",
                    )
                _batch(context, found, begin, tenure, heartbeat, handler)
    except BaseException:
        try:
            _end(context, found, tenure, by, reason)
        except (LeaseLost, StoreError) as error:  # what went wrong first is what is told
            logger.info("%s: the lease was not given back and will expire: %s", context.name, error)
        raise
    _end(context, found, tenure, by, reason)


def _acquire(context: Context) -> Tenure:
    """Raises: LeaseHeld, PollerError (paused or halted), FingerprintMismatch, LeaseLost, StoreError."""
    file = context.file
    copy = file.read_existing()
    found: Copy | None = copy
    refusal = refusal_of(context, copy)
    if refusal is None:
        try:
            return Tenure.acquire(
                file,
                copy,
                owner_id=f"{context.app_name}/{instance_name()}/recheck-{context.runtime.new_id()[:8]}",
                source=context.source.describe(),
                start=None,
                takeover=copy.availability(file.timing, context.runtime.monotonic()).takeover,
                emit=context.emit,
                starts_batch=False,
            )
        except Conflict as changed:
            found = changed.found
    elif refusal.outcome != "held_elsewhere":
        raise _Stopped(f"{context.name} is {refusal.error}.", next_step=f"Run: poller resume {context.name}")
    lease, left = Lease(), None
    if found is not None:
        lease, left = found.state.lease, found.availability(file.timing, context.runtime.monotonic()).expires_in
    raise LeaseHeld(
        "Another owner took the lease first." if refusal is None else f"{refusal.error}.",
        owner_id=lease.owner_id,
        fencing_token=lease.fencing_token,
        expires_in_seconds=left,
        next_step="Try again when its tick is over, or pause the poller.",
    )


def _end(context: Context, found: Recheck, tenure: Tenure, by: str | None, reason: str | None) -> None:
    many = f"{found.redelivered} of {len(found.rows)} late row{'' if len(found.rows) == 1 else 's'} delivered"
    context.audit.add(
        "recheck",
        by=by or tenure.owner_id,
        reason=f"{many}: {reason}" if reason else many,
        before=None,
        after={"redelivered": found.redelivered},
    )
    try:
        if tenure.remaining() > 0:
            tenure.release(give_back=False)
    finally:
        context.audit.settle(2.0)


class _Stopped(PollerError):
    """The poller is paused or halted: nothing is delivered."""

    exit_code = 3


def _batch(
    context: Context, found: Recheck, begin: int, tenure: Tenure, heartbeat: Heartbeat, handler: Handler
) -> None:
    size = context.options.batch_size
    cursors = found.cursors[begin : begin + size]
    batch = Batch.of(
        Page(rows=found.rows[begin : begin + size], cursors=cursors, bound=Bound("none", reason="late rows")),
        len(cursors),
        poller_name=context.name,
        batch_id=f"late_{context.file.clock.now():%Y%m%d_%H%M%S}_{begin // size + 1:04d}",
        fencing_token=tenure.fencing_token,
        attempt=1,
        cursor_from=None,
        keys=context.source.key,
        lease=tenure,
    )
    limit = context.options.handler_limit.total_seconds()
    if not heartbeat.expect(batch.batch_id, limit):
        raise PollerError(
            f"A batch of late rows took longer than handler_timeout ({limit:g} s): its lease was no longer renewed, "
            f"and no other was begun after {found.redelivered} of {len(found.rows)} rows.",
            next_step=f"Raise handler_timeout of {context.name} or lower its batch_size, and run the same again.",
        )
    context.emit(BatchStarted(batch_id=batch.batch_id, rows=len(batch), attempt=1, **tenure.facts()))
    context.executor.run(handler, batch, tenure, limit)
    tenure.check()
    context.seen.add_now(context.runtime.utcnow(), None, cursors, covers=False)
    found.redelivered += len(cursors)
