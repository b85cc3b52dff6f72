"""`poller history`: the audit trail of one poller."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from poller_cli import exits
from poller_cli.session import NamedArgument, Session

if TYPE_CHECKING:
    from poller.admin.history import HistoryRecord


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
    if not output.records:
        print(f"{name}: nothing was recorded yet.")
    for record in output.records:
        for line in _lines(record):
            indent = "    " if line.startswith(" ") else ""
            print(folded(printable(line, indent=indent), hang=4 + len(indent), stream=sys.stdout))
    return exits.DONE


def _lines(record: HistoryRecord) -> list[str]:
    """For people: no value that somebody wrote fills a screen."""
    from poller.model.escape import LONGEST_SENTENCE, cut, each_text

    record = record.model_copy(update=each_text(record.model_dump(), cut))
    at = "unknown time" if record.at is None else _moment(record.at)
    lines = [
        f"{at}  {record.kind.replace('_', ' ')}  by {record.by or 'unknown'}"
        + (f": {record.reason}" if record.reason else "")
    ]
    moves = _moves(record.before, record.after)
    return lines + ([f"  {cut(moves, LONGEST_SENTENCE)}"] if moves else [])


def _moment(text: str) -> str:
    """As it stands there, where it is none."""
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
