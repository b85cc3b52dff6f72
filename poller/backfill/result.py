"""How far a backfill came: the result of `Poller.backfill`, and what `poller backfill --json` prints."""

from __future__ import annotations

from pydantic import PrivateAttr

from poller.model.cursor import Cursor, KeyValue
from poller.model.result import ResultModel


class BackfillPart(ResultModel):
    """A stretch of a backfill, with a state document of its own."""

    name: str
    """Names its document, and is in `batch.poller_name`."""
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
    """True if every row of it was delivered."""
    halted: bool = False
    """A batch of it failed too often: it goes on with `--retry`."""
    rows: int
    """Rows that this run delivered."""
    cursor: Cursor | None
    """How far it came."""
    error: str | None = None
    """Why it is not finished."""
    _failure: BaseException | None = PrivateAttr(default=None)

    @property
    def failure(self) -> BaseException | None:
        """The exception behind `error`, if it was one: a `PollerError`, or a fault."""
        return self._failure


class BackfillOutput(ResultModel):
    """`poller backfill --json`."""

    name: str
    """The backfill's name."""
    poller: str
    """Whose source is read and whose handler is called."""
    app_name: str
    dry_run: bool = False
    already_done: bool = False
    """An earlier run had finished it: nothing was delivered now."""
    finished: bool
    """True if every row of the range was delivered."""
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
    _next_step: str | None = PrivateAttr(default=None)

    @property
    def next_step(self) -> str | None:
        """What to do now: to go on with what is not finished, or to deliver once more what was done already. None
        where nothing is left to do."""
        return self._next_step
