"""`poller undo`: take back an operator's change."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from poller_cli import exits
from poller_cli.commands.options import Fenced
from poller_cli.session import NamedArgument, Session

if TYPE_CHECKING:
    from poller.admin.change_records import UndoableChange, UndoListOutput


def undo(
    session: Session,
    name: NamedArgument,
    change: Annotated[
        str | None,
        typer.Option("--change", metavar="ID", help="Which change, or how its id begins; default: the newest."),
    ] = None,
    every: Annotated[bool, typer.Option("--list", help="Show changes and backups, and change nothing.")] = False,
    *,
    consent: Fenced,
) -> int:
    """Take back an operator's change: the newest that was not taken back yet, or the one that --change names.

    A reset, a rebind or an overwritten checkpoint goes back to the backup of what it replaced; rows in between count
    as delivered. What was paused is resumed, what was resumed is paused again, and rows that were given up wait for a
    person again as long as their records are kept. A halt cannot be made again.

    Example: poller undo orders --change 1a2b3c4d
    """
    from poller.admin.change_records import list_changes
    from poller.admin.changes import Changes
    from poller.admin.undo import undo_of
    from poller_cli.output.change_report import ChangeReport
    from poller_cli.terminal.printing import print_json

    with session.app() as app:
        named = app.named(name)
        report = ChangeReport(session, app, consent, name)
        if every:
            output = list_changes(Changes(app.without_source(named), report.request).operator)
            if session.json:
                print_json(output)
            else:
                _print(output)
            return exits.DONE
        on = Changes(app.without_source(named), report.request)
        wanted = undo_of(on, change)
        if wanted.fenced:
            on = Changes(app.one(name), report.request)
        return report.carry_out_on(on, wanted)


def _print(output: UndoListOutput) -> None:
    from poller_cli.terminal.printing import folded, printable

    if not output.changes:
        print(f"{output.name}: no change is recorded.")
    for change in output.changes:
        print(folded(printable(_line(change)), hang=4, stream=sys.stdout))
    print(f"backups: {len(output.backups):,}")
    for name in output.backups[-SHOWN:]:
        print(folded(printable(name, indent="  "), hang=4, stream=sys.stdout))


SHOWN = 20
"""So many backups are shown to people, the newest; `--json` has all."""


def _line(change: UndoableChange) -> str:
    from poller.model.escape import cut
    from poller.model.when import moment, parsed

    at = parsed(change.at or "")
    when = cut(change.at or "unknown time") if at is None else moment(at)
    why = f": {cut(change.reason)}" if change.reason else ""
    how = _HOW.get(change.undo or "", "cannot be taken back")
    if change.undo == "restore" and change.backup is None:
        how = "its backup is gone"
    return f"{change.id[:8]}  {when}  {change.kind}  by {cut(change.by or 'unknown')}{why}; " + (
        "taken back" if change.undone else how
    )


_HOW = {
    "restore": "undo restores its backup",
    "resume": "undo resumes",
    "pause": "undo pauses again",
    "relist": "undo lists its rows again",
}
