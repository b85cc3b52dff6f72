"""`poller history`: the audit trail of one poller."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from poller_cli import exits
from poller_cli.session import NamedArgument, Session

if TYPE_CHECKING:
    from poller.admin.history import HistoryOutput, HistoryRecord


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
    from poller.admin.history import read_history
    from poller.admin.wired import operator_of
    from poller_cli.terminal.printing import folded, print_json, printable

    with session.app() as app:
        poller = app.without_source(app.named(name))
        output = read_history(operator_of(poller, "history"), limit)
    if session.json:
        print_json(output)
        return exits.DONE
    happened = _events(output, limit)
    if not happened:
        print(f"{name}: nothing was recorded yet.")
    for lines in happened:
        for line in lines:
            indent = "    " if line.startswith(" ") else ""
            print(folded(printable(line, indent=indent), hang=4 + len(indent), stream=sys.stdout))
    if output.skipped:
        print(f"{output.skipped:,} line{'s' * (output.skipped > 1)} of the trail cannot be read, and left out.")
    return exits.DONE


def _events(output: HistoryOutput, limit: int) -> list[list[str]]:
    """What happened, newest last: records as the trail has them, and what the document knows beside them."""
    from poller.model.escape import cut
    from poller.model.history import SLOT
    from poller.model.when import LAST, in_utc, parsed, to_the_minute

    beside = []
    for one in output.commits:
        began = parsed(one.at)
        last = f", the last by {cut(one.by)}" if one.by else ""
        ends = None if began is None else in_utc(began) + min(SLOT, LAST - in_utc(began))
        until = "" if ends is None else f" to {to_the_minute(ends)}"
        said = f"{_moment(one.at)}{until}  committed {_counted(one.rows, one.batches)}{last}"
        beside.append((ends, [said]))
    kinds = {"aside": "was set aside, and is tried again", "pending": "was set aside, and waits for a person"}
    beside += [
        (parsed(one.at or ""), [f"{_moment(one.at or 'unknown time')}  row  {one.id} {kinds[one.status]}"])
        for one in output.rows
    ]
    events = [(parsed(record.at or ""), _lines(record)) for record in output.records]
    for at, lines in sorted(beside, key=lambda one: (one[0] is not None, one[0])):
        place = len(events)
        while at is not None and place and (before := events[place - 1][0]) is not None and before > at:
            place -= 1
        events.insert(place, (at, lines))
    return [lines for _, lines in events[-limit:]]


def _counted(rows: int, batches: int) -> str:
    return f"{rows:,} row{'s' * (rows != 1)} in {batches:,} batch{'es' * (batches != 1)}"


def _lines(record: HistoryRecord) -> list[str]:
    """For people: no value of the trail fills a screen."""
    from poller.model.escape import LONGEST_SENTENCE, cut, each_text

    record = record.model_copy(update=each_text(record.model_dump(), cut))
    at = "unknown time" if record.at is None else _moment(record.at)
    lines = [
        f"{at}  {record.kind.replace('_', ' ')}{_named(record)}  by {record.by or 'unknown'}"
        + (f": {record.reason}" if record.reason else "")
    ]
    moves = _moves(record.before, record.after)
    return lines + ([f"  {cut(moves, LONGEST_SENTENCE)}"] if moves else [])


def _named(record: HistoryRecord) -> str:
    """The id of an operator's change, as `poller undo --change` takes it."""
    workers = ("created", "seen", "takeover", "lease_lost", "halt", "failing", "recovered")
    return "" if record.kind in workers else f" {record.id[:8]}"


def _moment(text: str) -> str:
    """The moment for people; the text itself if it is not a moment."""
    from poller.model.when import moment, parsed

    at = parsed(text)
    return text if at is None else moment(at)


def _moves(before: Any, after: Any) -> str:
    """What changed, of what both name."""
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
