"""The rows that would be delivered next, and how many wait. Takes no lease, changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from poller.admin.refusals import WrongArgument, whole
from poller.admin.wired import WiredPoller, operator_of
from poller.errors import PollerError
from poller.files import write_whole
from poller.model.cursor import Cursor
from poller.ports import Bound, Lag, Row, Table
from poller.tick.preflight import check_fingerprint, reads_of
from poller.tick.watches import PENDING_CAP

MOST_ROWS = 10_000
"""So many rows are looked at in one call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peek:
    """What a poller would read now.

    Attributes:
        cursor: where the checkpoint stands; None is the beginning.
        checkpoint_updated_at: when it moved last, by the store's clock; None if the poller never ran.
        rows: the next ones, in order. bound: below what they were read.
        lag: how many rows wait above the bound; only counted where no row is below it.
        table: the rows as a table, with `format = "arrow"`.
    """

    cursor: Cursor | None
    checkpoint_updated_at: datetime | None
    rows: Sequence[Row] = field(repr=False)
    bound: Bound
    lag: Lag | None = None
    table: Table | None = field(default=None, repr=False)


ENDINGS = (".parquet", ".arrow")
"""Of files that `write_table` writes."""


def write_table(peeked: Peek, file: Path) -> None:
    """Write the rows as a table, in the format that the file's ending says: Parquet, or Arrow's own. With
    `format = "arrow"` it is what `batch.table` would be, else it is built of the rows.

    Raises: WrongArgument (the ending, a file that exists or cannot be written), ConfigError where pyarrow is not
        installed, SourceError where the values of a column do not fit together.
    """
    from poller.sources.arrow import as_bytes, table_of

    if file.suffix not in ENDINGS:
        raise WrongArgument(f"{file.name}: the ending says no format.", next_step="Name it .parquet or .arrow.")
    table = table_of(peeked.rows) if peeked.table is None else peeked.table.arrow()
    try:
        write_whole(file, as_bytes(table, file.suffix), overwrite=False)
    except FileExistsError:
        raise WrongArgument(f"{file} exists already.", next_step="Remove it, or give another name.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise WrongArgument(f"{file} cannot be written: {reason}.", next_step="Give another path.") from None


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
    with reads_of(poller.name, None if copy is None else copy.state, source):
        page = source.page(cursor, limit, lag_cap=PENDING_CAP)
    if copy is not None:  # by now the server was asked what the names in the configuration mean
        check_fingerprint(poller.name, copy.state, source)
    return Peek(
        cursor=cursor,
        checkpoint_updated_at=None if copy is None else copy.state.checkpoint.updated_at,
        rows=list(page.rows),
        bound=page.bound,
        table=page.table,
        lag=None if page.rows else page.lag or source.lag(cursor, cap=PENDING_CAP),
    )


def count_pending(poller: WiredPoller) -> int | None:
    """The number of rows that a poller has before it, counted up to `PENDING_CAP`, by one read of its document and one
    query; None if that is not known. Raises nothing that is a PollerError."""
    try:
        copy = operator_of(poller, "peek").file.read()
        after = poller.source.start() if copy is None else copy.state.checkpoint.cursor
        return poller.source.lag(after, cap=PENDING_CAP).pending
    except PollerError:
        return None
