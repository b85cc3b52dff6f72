"""What `backfill` and `watch` print under `--json`, as models (see `outputs`)."""

from __future__ import annotations

from poller.admin.status import PollerStatus
from poller.model.cursor import Cursor, KeyValue
from poller.model.stamps import Stamp
from poller_cli.output.models import BackfillStatus, _Output

__all__ = ["BackfillOutput", "BackfillPart", "WatchOutput", "WatchedBackfill", "WatchedPoller"]


class BackfillPart(_Output):
    """A stretch of a backfill, with a state document of its own."""

    name: str
    """Names its document, and stands in `batch.poller_name`."""
    document: str
    """Where its state is kept."""
    begins: str
    """The first value of the cursor column that is in it, in the column's own form."""
    ends: str
    """The first value that is not in it any more."""
    begins_key: dict[str, KeyValue] | None = None
    """Where rows of one value were cut by their keys: it begins behind the row of `begins` with this key."""
    ends_key: dict[str, KeyValue] | None = None
    """The same of its end: the row of `ends` with this key is its last."""
    finished: bool
    """Whether every row of it was delivered."""
    halted: bool = False
    """A batch of it failed too often: it goes on with `--retry`."""
    rows: int
    """Rows that this run delivered."""
    cursor: Cursor | None
    """How far it came."""
    error: str | None = None
    """Why it is not finished."""


class BackfillOutput(_Output):
    """`poller backfill --json`."""

    name: str
    """Of the backfill."""
    poller: str
    """Whose source is read and whose handler is called."""
    app_name: str
    dry_run: bool = False
    already_done: bool = False
    """An earlier run had finished it: nothing was delivered now."""
    finished: bool
    """Whether every row of the range was delivered."""
    begins: str
    """`--from`, in the column's own form."""
    ends: str
    """`--to`, in the column's own form; rows of this value are not in it."""
    pending: int | None
    """Rows that were to be delivered when this run began, counted up to a cap."""
    pending_capped: bool
    """There were at least so many."""
    rows: int
    """Rows that this run delivered."""
    parts: list[BackfillPart]


class WatchedPoller(_Output):
    """One poller as `poller watch` sees it."""

    status: PollerStatus
    rows_per_second: float | None
    """Rows that the checkpoint passed since the sample before; null where the database did not tell, and in the first
    sample."""


class WatchedBackfill(_Output):
    """One backfill, or one part of it, as `poller watch` sees it."""

    status: BackfillStatus
    rows_per_second: float | None
    """As of a poller."""


class WatchOutput(_Output):
    """One line of `poller watch --json`."""

    at: Stamp
    """By this machine's clock."""
    pollers: list[WatchedPoller]
    backfills: list[WatchedBackfill] | None
    """Theirs that are not finished, and those that were named; null where the store did not list its documents."""
