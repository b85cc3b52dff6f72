"""`poller history`: the audit trail of one poller."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from poller_cli import exits
from poller_cli.session import NamedArgument, Session

if TYPE_CHECKING:
    from poller.config import PollerOptions
    from poller_cli.naming import ConsoleApp
    from poller_cli.output.history_models import HistoryRecord

SLACK = 50
"""So many lines more are read: copies of one record are one."""
TOLD_APART = timedelta(seconds=2)
"""Times of two records tell which was first when they lie further apart: a blob's server tells whole seconds."""


def history(
    session: Session,
    name: NamedArgument,
    limit: Annotated[
        int, typer.Option("--limit", "-n", metavar="N", min=1, max=100_000, help="How many, the newest.")
    ] = 20,
) -> int:
    """Show who changed, took over or lost what, when and why; the newest last. Changes nothing.

    Example: poller history orders --limit 5
    """
    from poller_cli.output.history_models import HistoryOutput
    from poller_cli.output.models import as_json
    from poller_cli.terminal.printing import print_json, printable

    with session.app() as app:
        named = app.named(name)
        trail, records = _records(app, named.only_name(), named.options, limit)
    if session.json:
        print_json(as_json(HistoryOutput(name=name, app_name=app.config.app_name, document=trail, records=records)))
        return exits.DONE
    if not records:
        print(f"{name}: nothing was recorded yet.")
    for record in records:
        for line in _lines(record):
            print(printable(line, indent="    " if line.startswith(" ") else ""))
    return exits.DONE


def _records(app: ConsoleApp, name: str, options: PollerOptions, limit: int) -> tuple[str, list[HistoryRecord]]:
    """The trail's place, and its newest records, with the change that only the document knows yet."""
    from poller.errors import StateCorrupt
    from poller.journal.audit import AuditTrail
    from poller.lease.state_file import StateFile

    app_name = app.config.app_name
    trail = AuditTrail(app.store, app_name=app_name, poller_name=name, runtime=app.runtime)
    entries = trail.entries(limit=limit + SLACK)
    file = StateFile(app.store, app_name=app_name, poller_name=name, runtime=app.runtime, timing=options.timing)
    try:
        copy = file.read()
    except StateCorrupt:
        copy = None  # what happened before is wanted all the more
    change = None if copy is None else copy.state.control.last_change
    if change is not None and all(entry.get("id") != change.id for entry in entries):
        entries.append(change.model_dump(mode="json"))
    records = [_record(entry) for entry in entries]
    return app.store.locate(trail.name), _in_order(records)[-limit:]


def _in_order(records: list[HistoryRecord]) -> list[HistoryRecord]:
    """As they were appended, but for those that were copied later than others that are clearly younger."""
    from poller.sources.columns.moments import parse_utc

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
    from poller_cli.output.history_models import HistoryRecord

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


def _lines(record: HistoryRecord) -> list[str]:
    """For people: no value that somebody wrote fills a screen."""
    from poller.model.escape import LONGEST_SENTENCE, cut, each_text

    record = record.model_copy(update=each_text(record.model_dump(), cut))
    at = "unknown time" if record.at is None else f"{record.at.replace('T', ' ')[:19]}Z"
    lines = [
        f"{at}  {record.kind.replace('_', ' ')}  by {record.by or 'unknown'}"
        + (f": {record.reason}" if record.reason else "")
    ]
    moves = _moves(record.before, record.after)
    return lines + ([f"  {cut(moves, LONGEST_SENTENCE)}"] if moves else [])


def _moves(before: Any, after: Any) -> str:
    """What changed, of what both tell."""
    one = before if isinstance(before, dict) else {}
    other = after if isinstance(after, dict) else {}
    changed = [key for key in other if key in one and one[key] != other[key]]
    return ", ".join(f"{key.replace('_', ' ')} {_short(key, one[key])} -> {_short(key, other[key])}" for key in changed)


def _short(key: str, value: Any) -> str:
    if isinstance(value, dict) and "value" in value:
        keys = value.get("tiebreaker")
        named = ", ".join(f"{k}={v}" for k, v in keys.items()) if isinstance(keys, dict) else ""
        return f"{value['value']} / {named}" if named else str(value["value"])
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "the beginning" if key == "cursor" else "none"
    return str(value)
