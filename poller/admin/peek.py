"""The rows that would be delivered next, and how many wait. Takes no lease, changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from poller.admin.refusals import whole
from poller.admin.wired import WiredPoller, operator_of
from poller.delivery.preflight import check_fingerprint
from poller.delivery.watches import PENDING_CAP
from poller.errors import PollerError
from poller.model.cursor import Cursor
from poller.ports import Bound, Lag, Row

MOST_ROWS = 10_000
"""So many rows are looked at in one call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peek:
    """What a poller would read now.

    Attributes:
        cursor: where the checkpoint stands; None is the beginning.
        checkpoint_updated_at: when it moved last, by the store's clock; None where the poller never ran.
        rows: the next ones, in order. bound: below what they were read.
        lag: how many rows wait above the bound; only counted where no row is below it.
    """

    cursor: Cursor | None
    checkpoint_updated_at: datetime | None
    rows: Sequence[Row] = field(repr=False)
    bound: Bound
    lag: Lag | None = None


def look_ahead(poller: WiredPoller, limit: int) -> Peek:
    """Up to `limit` of the next rows.

    Raises: WrongArgument (`limit`), FingerprintMismatch, StateCorrupt, StoreUnavailable, StoreDenied,
        SourceUnavailable, SourceError.
    """
    whole(limit, "limit", least=1, most=MOST_ROWS)
    file, source = operator_of(poller, "peek").file, poller.source
    copy = file.read() or file.read_unless_deleted()
    if copy is not None:
        check_fingerprint(poller.name, copy.state, source)
        if copy.state.bound is not None:
            source.recall(copy.state.bound)
    cursor = source.start() if copy is None else copy.state.checkpoint.cursor
    page = source.page(cursor, limit)
    if copy is not None:  # by now the server was asked what the names in the configuration mean
        check_fingerprint(poller.name, copy.state, source)
    return Peek(
        cursor=cursor,
        checkpoint_updated_at=None if copy is None else copy.state.checkpoint.updated_at,
        rows=page.rows,
        bound=page.bound,
        lag=None if page.rows else source.lag(cursor, cap=PENDING_CAP),
    )


def count_pending(poller: WiredPoller) -> int | None:
    """How many rows a poller has before it, counted up to `PENDING_CAP`, by one read of its document and one query;
    None where that is not known. Raises nothing that is a PollerError."""
    try:
        copy = operator_of(poller, "peek").file.read()
        after = poller.source.start() if copy is None else copy.state.checkpoint.cursor
        return poller.source.lag(after, cap=PENDING_CAP).pending
    except PollerError:
        return None
