"""What happened to a poller: its audit trail, and what its document knows: the newest change, the commits of late, and
the rows that wait. Reads only.

The models are what `poller history --json` prints.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Literal

from pydantic import Field

from poller.admin.editor import Operator
from poller.admin.refusals import whole
from poller.errors import StateCorrupt
from poller.model import aside
from poller.model.document import State, WaitingRow
from poller.model.result import ResultModel
from poller.model.stamps import stamp
from poller.sources.columns import parse_utc

SLACK = 50
"""So many lines more are read: copies of one record are one."""
MOST_RECORDS = 100_000
"""So many records are read in one call."""
TOLD_APART = timedelta(seconds=2)
"""Times of two records say which was first where they lie further apart: a blob's server counts whole seconds."""


class HistoryRecord(ResultModel):
    """One record of the audit trail."""

    id: str
    kind: str
    """created, seen, takeover, lease_lost, halt, failing, recovered, or an operator's command."""
    at: str | None = None
    by: str | None = None
    reason: str | None = None
    before: Any = None
    after: Any = None


class HistoryCommits(ResultModel):
    """The commits of five minutes, as the state document keeps them."""

    at: str
    """When the five minutes begin."""
    rows: int
    """Delivered."""
    batches: int
    by: str
    """Whose the last of them was; empty if only one PUT was made, which gave the lease back."""


class HistoryRow(ResultModel):
    """A row that waits now."""

    id: str
    at: str | None
    """When it was set aside."""
    status: Literal["aside", "pending"]
    """It is tried again automatically, or waits for a person."""


class HistoryOutput(ResultModel):
    """`poller history --json`."""

    name: str
    app_name: str
    document: str
    """Where the trail is kept."""
    records: list[HistoryRecord]
    """Newest last."""
    commits: list[HistoryCommits] = Field(default_factory=list)
    """Of late, newest last."""
    rows: list[HistoryRow] = Field(default_factory=list)
    """That wait, the one that has waited for longest first."""
    skipped: int = 0
    """So many lines of the trail are no records: cut short by a crash, longer than 16 KiB, or another program's."""


def read_history(operator: Operator, limit: int) -> HistoryOutput:
    """The newest records of the poller or backfill of this operator, up to `limit`; the operator changes nothing.

    Raises: WrongArgument (`limit`), StoreUnavailable, StoreDenied.
    """
    whole(limit, "limit", least=1, most=MOST_RECORDS)
    entries, skipped = operator.audit.read(limit=limit + SLACK)
    try:
        copy = operator.file.read()
    except StateCorrupt:
        copy = None  # what happened before is wanted all the more
    change = None if copy is None else copy.state.control.last_change
    if change is not None and all(entry.get("id") != change.id for entry in entries):
        entries.append(change.record())
    records = _in_order([_record(entry) for entry in entries])[-limit:]
    document = operator.store.locate(operator.audit.name)
    file = operator.file
    return HistoryOutput(
        name=file.poller_name,
        app_name=file.app_name,
        document=document,
        records=records,
        commits=[] if copy is None else _commits(copy.state)[-limit:],
        rows=[] if copy is None else _rows(copy.state)[:limit],
        skipped=skipped,
    )


def _commits(state: State) -> list[HistoryCommits]:
    return [
        HistoryCommits(at=stamp(one.at), rows=one.rows, batches=one.batches, by=one.owner)
        for one in state.history
        if one.batches
    ]


def _rows(state: State) -> list[HistoryRow]:
    listed = aside.after_reset(state)
    waiting: list[tuple[WaitingRow, Literal["aside", "pending"]]] = [(row, "aside") for row in listed.aside]
    waiting += [(row, "pending") for row in listed.quarantine]
    waiting.sort(key=lambda one: (one[0].since is None, one[0].since and stamp(one[0].since)))
    return [
        HistoryRow(id=row.id, at=None if row.since is None else stamp(row.since), status=status)
        for row, status in waiting
    ]


def _in_order(records: list[HistoryRecord]) -> list[HistoryRecord]:
    """As they were appended, but for those that were copied later than others that are clearly younger."""
    ordered: list[tuple[datetime | None, HistoryRecord]] = []
    for record in records:
        at = None if record.at is None else parse_utc(record.at, None)
        place = len(ordered)
        while at is not None and place and (before := ordered[place - 1][0]) and before - at > TOLD_APART:
            place -= 1
        ordered.insert(place, (at, record))
    return [record for _, record in ordered]


def _record(entry: dict[str, Any]) -> HistoryRecord:
    """A line of the trail, no matter which program wrote it."""

    def text(key: str) -> str | None:
        value = entry.get(key)
        return None if value is None else str(value)

    return HistoryRecord(
        id=text("id") or "",
        kind=text("kind") or "unknown",
        at=text("at"),
        by=text("by"),
        reason=text("reason"),
        before=entry.get("before"),
        after=entry.get("after"),
    )
