"""What happened to a poller: its audit trail, and the change that only its document knows yet. Reads only.

The models are what `poller history --json` prints.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from poller.admin.editor import Operator
from poller.admin.refusals import whole
from poller.errors import StateCorrupt
from poller.model.result import ResultModel
from poller.sources.columns.moments import parse_utc

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
    """created, seen, takeover, lease_lost, halt, or an operator's command."""
    at: str | None = None
    by: str | None = None
    reason: str | None = None
    before: Any = None
    after: Any = None


class HistoryOutput(ResultModel):
    """`poller history --json`."""

    name: str
    app_name: str
    document: str
    """Where the trail is kept."""
    records: list[HistoryRecord]
    """Newest last."""


def read_history(operator: Operator, limit: int) -> HistoryOutput:
    """The newest records of the poller or backfill of this operator, up to `limit`; the operator changes nothing.

    Raises: WrongArgument (`limit`), StoreUnavailable, StoreDenied.
    """
    whole(limit, "limit", least=1, most=MOST_RECORDS)
    entries = operator.audit.entries(limit=limit + SLACK)
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
    return HistoryOutput(name=file.poller_name, app_name=file.app_name, document=document, records=records)


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
    """A line of the trail, whoever wrote it."""

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
