"""Looking back for rows that appeared under the cursor: restores, bulk loads that keep old times, wrong clocks.

A row is late when it lies in an interval that was delivered within the window and is not among what was delivered
there. What was delivered before records were kept, or whose record was lost, is unknown and never reported. Rows whose
interval was delivered longer ago than the window are not found. `redeliver.py` delivers what was found.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta

from poller.errors import ConfigError
from poller.journal.delivery_log import Interval, hash_of
from poller.model.cursor import Cursor
from poller.observability import LateRows, Rechecked
from poller.ports import InspectableSource, Row
from poller.tick.context import Context
from poller.tick.preflight import check_fingerprint

PAGE = 1_000
MOST = 10_000
"""So many late rows are kept; of more than that the rest is found by the next recheck."""
PATIENCE = 60.0
"""Seconds that one look may take, if none are given."""
EXAMPLES = 5


@dataclass
class Recheck:
    """What a recheck found.

    Attributes:
        compared: how many rows. stretches: in how many intervals of the order.
        rows, cursors: the late ones, in order; at most `MOST`.
        complete: whether all that was recorded in the window was compared.
        redelivered: how many late rows a handler took.
        since: how far it looked back; None: the whole window.
    """

    compared: int = 0
    stretches: int = 0
    rows: list[Row] = field(default_factory=list)
    cursors: list[Cursor] = field(default_factory=list)
    complete: bool = True
    redelivered: int = 0
    since: timedelta | None = None


def look_back(context: Context, since: timedelta | None = None, *, patience: float = PATIENCE) -> Recheck:
    """Compare the table with what was noted as delivered within `since` (default: the window). Writes nothing.

    Raises: ConfigError (no `audit_window`, a source that cannot), FingerprintMismatch, StoreError, SourceError.
    """
    found = Recheck(since=since)
    _look(context, found, patience)
    _report(context, found)
    return found


def look_again(context: Context, found: Recheck) -> None:
    """Keep of the rows found those that are still late, as they are now: until the lease was taken another redelivery
    may have handed them over, or they changed, and their new versions came as rows do. Raises: as `look_back`."""
    now = Recheck(since=found.since)
    _look(context, now, PATIENCE)
    before = {hash_of(cursor) for cursor in found.cursors}
    still = [(row, cursor) for row, cursor in zip(now.rows, now.cursors, strict=True) if hash_of(cursor) in before]
    found.rows, found.cursors = [row for row, _ in still], [cursor for _, cursor in still]
    found.complete = found.complete and now.complete


def _look(context: Context, found: Recheck, patience: float) -> None:
    window, source, since = context.delivery_log.window, context.source, found.since
    if window is None:
        raise ConfigError(
            f"{context.name} keeps no record of what it delivers, so nothing can be compared.",
            key="audit_window",
            next_step=f'Set audit_window = "2h" in [pollers.{context.name}]; it knows from then on.',
        )
    if not isinstance(source, InspectableSource):
        raise ConfigError(f"The source of {context.name} cannot be read again.", key="source")
    end = context.runtime.monotonic() + patience
    copy = context.file.read()
    if copy is None:
        return
    check_fingerprint(context.name, copy.state, source)
    context.settle()
    delivered = context.delivery_log.read(context.runtime.utcnow() - (window if since is None else since))
    known = set(delivered.hashes)
    tip = copy.state.checkpoint.cursor
    for interval in delivered.intervals:
        found.complete = context.runtime.monotonic() <= end  # before each of many intervals without a row, too
        if not found.complete or not _compare(context, source, interval, found, known, tip, end):
            break
    check_fingerprint(context.name, copy.state, source)  # it has been asked by now


def _compare(
    context: Context,
    source: InspectableSource,
    interval: Interval,
    found: Recheck,
    known: set[bytes],
    tip: Cursor | None,
    end: float,
) -> bool:
    """Compare one interval; whether it was done in time and with room for what it found."""
    found.stretches += 1
    for row, cursor in _rows(source, interval.low, interval.high):
        if context.runtime.monotonic() > end or len(found.rows) >= MOST:
            found.complete = False
            return False
        found.compared += 1
        mark = hash_of(cursor)
        if mark not in known and _is_under(source, cursor, tip, interval.high):
            known.add(mark)  # two intervals may overlap, after a reset
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
    """True if the checkpoint has passed it: after a reset it may stand lower, and then the row comes anyway."""
    if tip is None:
        return False
    return tip == high or not source.span(tip, cursor, 1).rows


def _report(context: Context, found: Recheck) -> None:
    at, late = context.runtime.utcnow(), len(found.rows)
    context.emit(Rechecked(poller=context.name, at=at, compared=found.compared, late=late, complete=found.complete))
    if late:
        shown = [str(cursor) for cursor in found.cursors[:EXAMPLES]]
        context.emit(LateRows(poller=context.name, at=at, rows=late, complete=found.complete, examples=shown))
