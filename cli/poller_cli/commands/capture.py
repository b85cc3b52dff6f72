"""`poller capture`: triggers that record each change of a poller's table in a change table beside it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from poller_cli import exits
from poller_cli.commands.options import Agreed, NameArgument
from poller_cli.session import Session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from poller.admin.capture import TableCapture
    from poller.databases.capture import CapturePlan
    from poller_cli.output.capture_report import NamedPoller
    from poller_cli.output.models import CaptureOutput
    from poller_cli.terminal.confirmation import Consent


def capture(
    session: Session,
    name: NameArgument,
    printed: Annotated[
        bool, typer.Option("--print", help="Show the statements and what a row costs. [default: this]")
    ] = False,
    install: Annotated[bool, typer.Option("--install", help="Run them; again after each ALTER TABLE.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Drop the triggers.")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Compare the newest changes with the table.")] = False,
    changes: Annotated[bool, typer.Option("--changes", help="With --remove: drop the change table too.")] = False,
    without_old: Annotated[
        bool | None, typer.Option("--no-old/--old", help="Keep no old values. [default: as installed, or --old]")
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option("--exclude", metavar="COLUMN", help="Leave it out; repeat it for more.")
    ] = None,
    accept: Annotated[
        list[str] | None,
        typer.Option("--accept", metavar="WHAT", help="What may be missed: cascades, replace."),
    ] = None,
    always: Annotated[bool, typer.Option("--always", help="Capture what replication applies too.")] = False,
    url_env: Annotated[
        str | None,
        typer.Option("--url-env", metavar="SETTING", help="It holds the URL of a user who may create triggers."),
    ] = None,
    *,
    consent: Agreed,
) -> int:
    """Record each change of a poller's table, deletes too, by triggers.

    Example: poller capture orders --print

    The triggers write each change to a change table beside the table, in the writer's own transaction. Run --install
    again after each ALTER TABLE; it leaves no hole. --remove writes a gap into the change table, unless --changes
    drops it. --verify proves of the newest 200,000 changes that each begins where the last one of its row ended, and
    that the last ones are the rows of the table; it exits with 1 if that does not hold. A poller reads
    the changes with capture = true in its source (docs/capture.md).
    """
    from poller.admin.capture import TableCapture
    from poller_cli.output import capture_report
    from poller_cli.terminal.layout import fitted
    from poller_cli.terminal.printing import print_json

    action = _action(printed=printed, install=install, remove=remove, verify=verify)
    _check(action, accept or (), changes=changes, shaped=any((without_old is not None, exclude, accept, always)))
    with session.app(observers=()) as app:
        made = TableCapture(
            app.known(name),
            app.config.pollers[name],
            runtime=app.runtime,
            environ=os.environ,
            url_env=url_env,
            old=None if without_old is None else not without_old,
            excluded=None if exclude is None else tuple(exclude),
            accepted=tuple(accept or ()),
            always=always,
        )
        output = _done(session, made, action, capture_report.NamedPoller(name, app.app_name), consent, changes=changes)
    if session.json:
        print_json(output)
    else:
        print(fitted(capture_report.screen(output, session, dry_run=consent.dry_run), sys.stdout))
        if script := capture_report.script(output):
            print(script)
    return exits.FAILED if output.proof is not None and output.proof.breaks else exits.DONE


Action = Literal["print", "install", "remove", "verify"]


def _done(
    session: Session, made: TableCapture, action: Action, named: NamedPoller, consent: Consent, *, changes: bool
) -> CaptureOutput:
    from poller_cli.output import capture_report
    from poller_cli.terminal.confirmation import confirm, show_before

    match action:
        case "verify":
            return capture_report.of_chain(named, made.verify(_MOST))
        case "remove":
            if consent.dry_run:
                return capture_report.of_plan(named, action, made.plan(), changed=False)
            confirm(consent, named.name, "removing the capture of its table")
            return capture_report.of_removed(named, made.remove(changes=changes))
    plan: CapturePlan = made.plan()
    if action == "print" or consent.dry_run:
        return capture_report.of_plan(named, action, plan, changed=False)
    before = capture_report.of_plan(named, action, plan, changed=False)
    show_before(capture_report.screen(before, session, dry_run=False), session, consent)
    confirm(consent, named.name, "install triggers for", typed=False)
    return capture_report.of_plan(named, action, made.install(), changed=True)


_MOST = 200_000
"""The most changes that are compared."""


def _action(**asked: bool) -> Action:
    from poller.admin.refusals import WrongArgument

    words: dict[str, Action] = {"printed": "print", "install": "install", "remove": "remove", "verify": "verify"}
    chosen = [words[one] for one, is_asked in asked.items() if is_asked]
    if len(chosen) > 1:
        raise WrongArgument(f"--{chosen[0]} and --{chosen[1]} exclude each other.", next_step="Give one of them.")
    return chosen[0] if chosen else "print"


def _check(action: Action, accepted: Sequence[str], *, changes: bool, shaped: bool) -> None:
    from poller.admin.refusals import WrongArgument, shown

    if changes and action != "remove":
        raise WrongArgument("--changes goes with --remove.", next_step="Add --remove, or leave it out.")
    if unknown := [one for one in accepted if one not in ("cascades", "replace")]:
        raise WrongArgument(
            f"--accept: {shown(unknown[0])} is nothing that may be accepted.", next_step="Use cascades or replace."
        )
    if shaped and action in ("remove", "verify"):
        raise WrongArgument(
            f"--old, --exclude, --accept and --always go with --print and --install, not with --{action}.",
            next_step="Leave them out.",
        )
