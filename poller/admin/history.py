"""What happened to a poller: its audit trail, and the change that only its document knows yet. Reads only.

The models are what `poller history --json` prints.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from poller.admin.refusals import whole
from poller.errors import StateCorrupt
from poller.journal.audit import AuditTrail
from poller.lease.state_file import StateFile
from poller.model.result import ResultModel
from poller.model.timing import Timing
from poller.ports import Runtime, StateStore
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
    """takeover, lease_lost, halt, or an operator's command."""
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


def read_history(
    store: StateStore, *, app_name: str, poller_name: str, runtime: Runtime, timing: Timing, limit: int
) -> HistoryOutput:
    """The newest records of one poller or backfill, up to `limit`.

    Raises: WrongArgument (`limit`), StoreUnavailable, StoreDenied.
    """
    whole(limit, "limit", least=1, most=MOST_RECORDS)
    trail = AuditTrail(store, app_name=app_name, poller_name=poller_name, runtime=runtime)
    entries = trail.entries(limit=limit + SLACK)
    file = StateFile(store, app_name=app_name, poller_name=poller_name, runtime=runtime, timing=timing)
    try:
        copy = file.read()
    except StateCorrupt:
        copy = None  # what happened before is wanted all the more
    change = None if copy is None else copy.state.control.last_change
    if change is not None and all(entry.get("id") != change.id for entry in entries):
        entries.append(change.model_dump(mode="json"))
    records = _in_order([_record(entry) for entry in entries])[-limit:]
    return HistoryOutput(name=poller_name, app_name=app_name, document=store.locate(trail.name), records=records)


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
